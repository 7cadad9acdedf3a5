package outcome

import (
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
)

// run is one run in traces: the answers that its steps returned, and how it ended.
type run struct {
	returned []place
	quality  float64 // by the last verdict on the run; NaN where there is none
}

// runOf returns the run of a trace, a new one if it is unknown.
func (b *builder) runOf(t *sdk.Trace) *run {
	key := t.Tenant + "\x00" + t.Run
	r := b.runs[key]
	if r == nil {
		if b.runs == nil {
			b.runs = map[string]*run{}
		}
		r = &run{quality: math.NaN()}
		b.runs[key] = r
	}
	return r
}

// creditRuns gives steps their share of the verdicts on their runs, and reports whether
// there are any.
//
// In a run that passed, every returned answer counts as right. In a run that failed, one step was wrong;
// the blame is shared equally by the steps whose answer a verifier rejected, if there are none, by those
// on which another model's answer differs, and else by all. Its other steps are unknown if no other
// model answered them. Another model's answer to a step is as good as the returned one if it is the
// same; else a verdict on it stands, and without one it is wrong in a run that passed, and unknown in
// one that failed. Answers of several runs to the same step each have the share of their own run. These
// qualities replace other labels, and verdicts, which the table then has as StepVerdicts.
func (b *builder) creditRuns(areVerdicts bool) bool {
	returned, passed := b.judgedAnswers()
	if len(returned) == 0 {
		return false
	}
	var verdicts [][]float64
	if areVerdicts {
		verdicts = b.numbers[colQuality]
	}
	credited := map[int]bool{}
	for p := range returned {
		credited[p.query] = true
	}
	quality := make([][]float64, len(b.queryIDs))
	for q := range quality {
		row, said := make([]float64, len(b.names)), make([]float64, len(b.names))
		for m := range row {
			p := place{q, m}
			row[m], said[m] = cellAt(b.numbers[colQuality], p, math.NaN()), math.NaN()
			verdict := cellAt(verdicts, p, math.NaN())
			credit, isKnown := b.credit(p, returned)
			switch {
			case !credited[q] || !isKnown && (!math.IsNaN(verdict) || cellAt(b.answers, p, "") == ""):
				continue
			case !isKnown && passed[q]:
				credit = 0
			}
			row[m] = credit
			if said[m] = verdict; math.IsNaN(verdict) && !math.IsNaN(credit) {
				said[m] = 0.5
			}
		}
		quality[q] = row
		if verdicts != nil || b.verified {
			b.stepVerdicts = append(b.stepVerdicts, said)
		}
	}
	b.numbers[colQuality] = quality
	return true
}

// judgedAnswers returns the credit of the answers that judged runs returned, and the queries that a run
// that passed has answered.
func (b *builder) judgedAnswers() (returned map[place]float64, passed map[int]bool) {
	returned, passed = map[place]float64{}, map[int]bool{}
	for _, r := range b.runs {
		if math.IsNaN(r.quality) {
			continue
		}
		suspects := b.suspects(r)
		for i, p := range r.returned {
			ended := r.quality >= 0.5
			passed[p.query] = passed[p.query] || ended
			switch blame := (1 - r.quality) / float64(len(suspects)); {
			case slices.Contains(suspects, i):
				returned[p] = 1 - blame
			case ended || b.answersTo(p.query) > 1:
				returned[p] = 1
			}
		}
	}
	return returned, passed
}

// credit returns the credit of an answer that a run returned, or that equals one which another model
// returned.
func (b *builder) credit(p place, returned map[place]float64) (credit float64, isKnown bool) {
	if own, ok := returned[p]; ok {
		return own, true
	}
	credit = math.NaN()
	answer := cellAt(b.answers, p, "")
	for m, other := range b.answers[p.query] {
		if v, ok := returned[place{p.query, m}]; ok && answer != "" && other == answer && !(v <= credit) {
			credit, isKnown = v, true
		}
	}
	return credit, isKnown
}

// answersTo returns how many models have answered a query.
func (b *builder) answersTo(query int) (n int) {
	for _, answer := range b.answers[query] {
		if answer != "" {
			n++
		}
	}
	return n
}

// suspects returns the steps that share the blame if the run failed.
func (b *builder) suspects(r *run) []int {
	var rejected, disputed, all []int
	for i, p := range r.returned {
		all = append(all, i)
		if b.rejected[p] || cellAt(b.numbers[colQuality], p, math.NaN()) < 0.5 {
			rejected = append(rejected, i)
		}
		answer := cellAt(b.answers, p, "")
		if slices.ContainsFunc(b.answers[p.query], func(other string) bool { return other != "" && other != answer }) {
			disputed = append(disputed, i)
		}
	}
	switch {
	case len(rejected) > 0:
		return rejected
	case len(disputed) > 0:
		return disputed
	}
	return all
}

// cellAt returns the value at a place of a matrix with rows of different lengths, or unknown.
func cellAt[T any](matrix [][]T, p place, unknown T) T {
	if p.query >= len(matrix) || p.model >= len(matrix[p.query]) {
		return unknown
	}
	return matrix[p.query][p.model]
}
