package outcome

import (
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
)

// run is what traces tell of one run: the answers that its steps returned, and how it ended.
type run struct {
	returned []place
	quality  float64 // by the last verdict on the run; NaN where there is none
}

// run returns what is known of the run of a trace.
func (b *builder) run(t *sdk.Trace) *run {
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
// A run that passed vouches for each answer that it returned: it was right. Of a run that
// failed, one step was wrong, and those share the blame equally whose answer a verifier
// rejected; where there are none, those of whose answer another model's differs; and else
// all. Of its other steps, one that nobody else answered is unknown. Another model's answer to a step is as good as the one that was returned where it
// says the same; else it is wrong in a run that passed, and unknown in one that failed. What
// several runs returned in the same step each has its own run's share.
// Where a step has labels of another kind, these take their place.
func (b *builder) creditRuns() bool {
	returned := map[place]float64{}
	passed := map[int]bool{} // by query: a run that passed took an answer to it
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
	if len(returned) == 0 {
		return false
	}
	matrix := b.numbers[colQuality]
	for p := range returned {
		for len(matrix) <= p.query {
			matrix = append(matrix, nil)
		}
		row := grow(matrix[p.query], len(b.names)-1, math.NaN())
		for m, answer := range b.answers[p.query] {
			if own, ok := returned[place{p.query, m}]; ok {
				row[m] = own
			} else if answer != "" {
				row[m] = b.quality(p.query, answer, returned, passed[p.query])
			}
		}
		row[p.model] = returned[p]
		matrix[p.query] = row
	}
	b.numbers[colQuality] = matrix
	return true
}

// quality is that of an answer that no run returned.
func (b *builder) quality(query int, answer string, returned map[place]float64, passed bool) float64 {
	same := math.NaN()
	for m, other := range b.answers[query] {
		if v, ok := returned[place{query, m}]; ok && other == answer && !(v <= same) {
			same = v
		}
	}
	if math.IsNaN(same) && passed {
		return 0
	}
	return same
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

// suspects returns which steps of a run share the blame where it failed.
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

// cellAt returns what a matrix with rows of different lengths has at a place.
func cellAt[T any](matrix [][]T, p place, unknown T) T {
	if p.query >= len(matrix) || p.model >= len(matrix[p.query]) {
		return unknown
	}
	return matrix[p.query][p.model]
}
