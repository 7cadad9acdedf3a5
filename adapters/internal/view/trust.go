package view

import (
	"math"
	"slices"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/sdk"
)

// prediction is an estimate with the quality that a later verdict found.
type prediction struct {
	Model     string
	Start     time.Time
	Trace     string
	Predicted float64
	// Seen is the quality by the verdict: 0 or 1, or between where the verdict is less certain.
	Seen float64
}

// predictionsOf pairs the estimate for each model that ran with its verdict, if the verifier measures quality.
func predictionsOf(traces []*sdk.Trace) []prediction {
	var list []prediction
	account := accountOf(traces)
	for _, t := range traces {
		for i := range t.Decisions {
			d := &t.Decisions[i]
			b := d.Belief(d.Run)
			call := savings.AnswerOf(t, d.Run)
			if b == nil || call == nil {
				continue
			}
			if seen, ok := call.Verdict.Quality(); ok && account.Measures(call.Verdict.Verifier) {
				list = append(list, prediction{Model: d.Run, Start: t.Start, Trace: t.ID, Predicted: b.Quality.Mean, Seen: seen})
			}
		}
	}
	return list
}

type bin struct {
	N int
	// Predicted and Seen are means; Low and High are two standard errors around Seen (Wilson).
	Predicted, Seen, Low, High float64
}

func (b *bin) add(f *prediction) {
	b.N++
	b.Predicted += f.Predicted
	b.Seen += f.Seen
}

func (b *bin) finish() {
	if b.N == 0 {
		return
	}
	n := float64(b.N)
	b.Predicted /= n
	b.Seen /= n
	b.Low, b.High = savings.Wilson(b.Seen, n)
}

// Off reports whether Seen differs from Predicted by more than chance explains.
func (b *bin) Off() bool { return b.N >= 10 && (b.Predicted < b.Low || b.Predicted > b.High) }

// reliability measures how well the estimates of one model, or of all, predicted verdicts.
type reliability struct {
	Model string
	All   bin
	Bins  []bin // the non-empty tenths of the range of estimates
	// Windows holds equal numbers of verdicts, oldest first.
	Windows []window
	Brier   float64
	// Gap is the expected calibration error (ECE): the mean distance of Predicted and Seen over the bins.
	Gap float64
}

type window struct {
	bin
	From, To time.Time
}

func (r *reliability) IsOff() bool {
	return len(r.Windows) > 1 && r.Windows[len(r.Windows)-1].Off()
}

// reliabilityOf returns the reliability of the predictions for a model, or for all models if model is "".
func reliabilityOf(all []prediction, model string) *reliability {
	r := &reliability{Model: model}
	var tenths [10]bin
	var own []prediction
	for i := range all {
		f := &all[i]
		if model != "" && f.Model != model {
			continue
		}
		own = append(own, *f)
		r.All.add(f)
		tenths[min(max(int(f.Predicted*10), 0), 9)].add(f)
		r.Brier += (f.Predicted - f.Seen) * (f.Predicted - f.Seen)
	}
	if len(own) == 0 {
		return r
	}
	n := float64(len(own))
	r.Brier /= n
	r.All.finish()
	for _, b := range tenths {
		if b.N > 0 {
			b.finish()
			r.Bins = append(r.Bins, b)
			r.Gap += float64(b.N) / n * math.Abs(b.Predicted-b.Seen)
		}
	}
	slices.SortStableFunc(own, func(a, b prediction) int { return a.Start.Compare(b.Start) })
	parts := min(max(len(own)/20, 1), 12)
	for k := range parts {
		part := own[k*len(own)/parts : (k+1)*len(own)/parts]
		w := window{From: part[0].Start, To: part[len(part)-1].Start}
		for i := range part {
			w.add(&part[i])
		}
		w.finish()
		r.Windows = append(r.Windows, w)
	}
	return r
}
