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
// all. Another model's answer to a step is as good as the one that was returned where it
// says the same; else it is wrong in a run that passed, and unknown in one that failed.
// Where a step has labels of another kind, these take their place.
func (b *builder) creditRuns() bool {
	credited := false
	for _, r := range b.runs {
		if math.IsNaN(r.quality) || len(r.returned) == 0 {
			continue
		}
		credited = true
		suspects := b.suspects(r)
		for i, p := range r.returned {
			quality := 1.0
			if n := len(suspects); slices.Contains(suspects, i) {
				quality -= (1 - r.quality) / float64(n)
			}
			b.credit(p, quality, r.quality >= 0.5)
		}
	}
	return credited
}

// suspects returns which steps of a run share the blame where it failed.
func (b *builder) suspects(r *run) []int {
	var rejected, disputed, all []int
	for i, p := range r.returned {
		all = append(all, i)
		if cellAt(b.numbers[colQuality], p, math.NaN()) < 0.5 {
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

// credit sets the quality of an answer that was returned, and of the others to its query.
func (b *builder) credit(p place, quality float64, passed bool) {
	matrix := b.numbers[colQuality]
	for len(matrix) <= p.query {
		matrix = append(matrix, nil)
	}
	row := grow(matrix[p.query], len(b.names)-1, math.NaN())
	answer := cellAt(b.answers, p, "")
	for m, other := range b.answers[p.query] {
		switch {
		case other == "":
		case other == answer:
			row[m] = quality
		case passed:
			row[m] = 0
		default:
			row[m] = math.NaN()
		}
	}
	row[p.model] = quality
	matrix[p.query] = row
	b.numbers[colQuality] = matrix
}

// cellAt returns what a matrix with rows of different lengths has at a place.
func cellAt[T any](matrix [][]T, p place, unknown T) T {
	if p.query >= len(matrix) || p.model >= len(matrix[p.query]) {
		return unknown
	}
	return matrix[p.query][p.model]
}
