package fit

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Rival compares a profile with a newly fitted one, on steps that neither was fitted to.
type Rival struct {
	// Calls is the number of judged calls.
	Calls int `json:"calls"`
	// Quality is by how much the log loss per call of the new profile's quality estimates is
	// smaller, and Cost by how much the squared error of its log costs is smaller; each with
	// its standard error.
	Quality         float64 `json:"quality"`
	QualityStdError float64 `json:"quality_std_error"`
	Cost            float64 `json:"cost"`
	CostStdError    float64 `json:"cost_std_error"`
}

// Better reports whether the new profile is better at quality or at cost by more than two
// standard errors, and not worse at the other by as much.
func (r *Rival) Better() bool {
	quality, cost := r.Quality-2*r.QualityStdError, r.Cost-2*r.CostStdError
	return (quality > 0 || cost > 0) && r.Quality+2*r.QualityStdError >= 0 && r.Cost+2*r.CostStdError >= 0
}

// Compare compares the estimates of two profiles of the same models with the outcomes in traces.
func Compare(old, fresh *Profile, traces []*sdk.Trace) (*Rival, error) {
	table, err := outcome.OfTraces(traces)
	if err != nil {
		return nil, err
	}
	for _, p := range []*Profile{old, fresh} {
		for _, name := range table.Models {
			if !slices.Contains(p.Names(), name) {
				return nil, fmt.Errorf("%w: traces of %q", ErrModels, name)
			}
		}
		table = table.Widen(p.Names()...)
	}
	var losses, errs [2][]float64
	for k, p := range []*Profile{old, fresh} {
		own, err := table.Select(p.Names()...)
		if err != nil {
			return nil, err
		}
		if losses[k], errs[k], err = lossesOf(p, own, traces); err != nil {
			return nil, err
		}
	}
	r := &Rival{Calls: len(losses[0])}
	r.Quality, r.QualityStdError = gain(losses[0], losses[1])
	r.Cost, r.CostStdError = gain(errs[0], errs[1])
	return r, nil
}

// lossesOf returns a profile's log loss on every judged call, and the squared error of its log cost on
// every call with a cost.
func lossesOf(p *Profile, t *outcome.Table, traces []*sdk.Trace) (losses, errs []float64, err error) {
	ends := runEnds(outcome.RunQualities(traces))
	replay, err := p.replayVerdicts(t)
	if err != nil {
		return nil, nil, err
	}
	rows := map[string]int{}
	for q, id := range t.Queries {
		rows[id] = q
	}
	beliefs, costs := make([]cascade.Belief, len(t.Models)), make([]float64, len(t.Models))
	for _, trace := range traces {
		q, known := rows[cmp.Or(trace.QueryID, trace.ID)]
		if !known {
			continue
		}
		x := replay.Start(q)
		var ran []int
		for i := range trace.Calls {
			call := &trace.Calls[i]
			m := t.Index(call.Model)
			if m < 0 || call.Error != "" || slices.Contains(ran, m) {
				continue
			}
			x.Believe(ran, beliefs, costs)
			ran = append(ran, m)
			if v, ok := ends.qualityOf(trace, call); ok {
				mean := beliefs[m].Mean
				if call.Verdict.Errs() {
					mean, v, _ = readErring(call.Verdict, mean)
				}
				mean = clampShare(mean)
				losses = append(losses, -v*math.Log(mean)-(1-v)*math.Log(1-mean))
			}
			if call.CostUSD > 0 && costs[m] > 0 {
				off := math.Log(call.CostUSD / costs[m])
				errs = append(errs, off*off)
			}
		}
	}
	return losses, errs, nil
}

// replayVerdicts replays the profile's estimator on a table of verdicts, which are only evidence if its
// judges are fallible, and come too late to be any if it was fitted to labels.
func (p *Profile) replayVerdicts(t *outcome.Table) (*estimate.Replay, error) {
	e, own := *p.Estimator, *t
	if p.Data.Assumed != nil {
		e.Judges = p.Data.Assumed
	}
	own.Verified = p.Data.Labels == ""
	if len(e.Judges) > 0 {
		own.Verified, own.Verdicts = false, map[string][][]float64{}
	}
	for judge := range e.Judges {
		own.Verdicts[judge] = t.Quality
	}
	return e.On(&own)
}

// gain returns the mean of before less after, with its standard error.
func gain(before, after []float64) (mean, stdError float64) {
	n := float64(len(before))
	if len(after) != len(before) || n < 2 {
		return 0, math.Inf(1)
	}
	mean, dev := stat.MeanStdDev(floats.SubTo(make([]float64, len(before)), before, after), nil)
	return mean, stat.StdErr(dev, n)
}
