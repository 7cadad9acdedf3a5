package outcome

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
)

// run is one run in traces: the answers that its steps returned, and its verdict.
type run struct {
	returned []place
	quality  float64 // according to the last verdict on the run; NaN if there is none
}

// runOf returns the run of a trace, which it creates if necessary.
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

// setRuns sets the table's runs, their verdicts and their mean length. A query that several runs share is a step of
// the first of them.
func (b *builder) setRuns(t *Table) {
	steps, runs := 0, 0
	for _, name := range slices.Sorted(maps.Keys(b.runs)) {
		r := b.runs[name]
		if len(r.returned) == 0 {
			continue
		}
		queries := map[int]bool{} // attempts at one query are one step
		for _, p := range r.returned {
			queries[p.query] = true
		}
		steps, runs = steps+len(queries), runs+1
		if t.Runs == nil {
			t.Runs, t.RunVerdicts = make([]string, len(b.queryIDs)), widen(make([][]float64, len(b.queryIDs)), len(b.names), math.NaN())
		}
		for _, p := range r.returned {
			if t.Runs[p.query] == "" {
				t.Runs[p.query], t.RunVerdicts[p.query][p.model] = name, r.quality
			}
		}
	}
	t.StepsPerRun = float64(steps) / float64(max(runs, 1))
}

// RunsRight returns the share of right runs, by their verdicts, among those whose every step has the answer of one
// model, and the number of these runs. Steps for which a strategy chose the model do not count: it chooses by hardness.
func (t *Table) RunsRight(model int) (share float64, runs int) {
	quality := map[string]float64{}
	for q, name := range t.Runs {
		v := t.RunVerdicts[q][model]
		if At(t.Propensity, q, model) == 1 {
			v = math.NaN()
		}
		if before, isKnown := quality[name]; isKnown {
			v = min(v, before) // NaN if one is
		}
		quality[name] = v
	}
	delete(quality, "")
	for _, v := range quality {
		if !math.IsNaN(v) {
			share, runs = share+v, runs+1
		}
	}
	return share / float64(max(runs, 1)), runs
}

// creditRuns gives steps their share of the verdicts on their runs, and reports whether
// there are any.
//
// In a run that passed, every returned answer counts as right. In a run that failed, one step was wrong:
// the blame is shared equally by the steps whose answer a verifier rejected or, if there are none, by
// those on which another model's answer differs, or else by all. The quality of its other steps is
// unknown if no other model answered them. Another model's answer to a step has the quality of the
// returned one if it is equal. Otherwise a verdict on it counts; without a verdict it is wrong in a run
// that passed, and unknown in one that failed. If several runs share a step, each answer gets the share
// of its own run. These qualities replace other labels, and verdicts, which the table then has as
// StepVerdicts.
func (b *builder) creditRuns(areVerdicts bool) bool {
	returned, passed := b.judgedAnswers()
	if len(returned) == 0 {
		return false
	}
	credited := map[int]bool{}
	for p := range returned {
		credited[p.query] = true
	}
	quality := grow(b.numbers[colQuality], len(b.queryIDs)-1, nil)
	for q := range quality {
		quality[q] = grow(quality[q], len(b.names)-1, math.NaN())
		said := slices.Repeat([]float64{math.NaN()}, len(b.names))
		verdicts := said
		if areVerdicts {
			verdicts = slices.Clone(quality[q])
		}
		if credited[q] {
			said = b.creditStep(q, quality[q], verdicts, returned, passed[q])
		}
		if areVerdicts || b.verified {
			b.stepVerdicts = append(b.stepVerdicts, said)
		}
	}
	b.numbers[colQuality] = quality
	return true
}

// creditStep sets the qualities of a step's answers that have credit, and returns the verdicts on these,
// 0.5 for none.
func (b *builder) creditStep(q int, quality, verdicts []float64, returned map[place]float64, passed bool) []float64 {
	said := slices.Repeat([]float64{math.NaN()}, len(quality))
	for m, verdict := range verdicts {
		p := place{q, m}
		credit, isKnown := b.credit(p, returned)
		if !isKnown {
			if !math.IsNaN(verdict) || cellAt(b.answers, p, "") == "" {
				continue
			}
			if passed {
				credit = 0
			}
		}
		quality[m] = credit
		if said[m] = verdict; math.IsNaN(verdict) && !math.IsNaN(credit) {
			said[m] = 0.5
		}
	}
	return said
}

// judgedAnswers returns the credit of the answers returned by runs with a verdict, and the queries answered
// in a run that passed.
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

// credit returns the credit of an answer that a run returned, or that equals one that a run returned from
// another model.
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

func (b *builder) answersTo(query int) (n int) {
	for _, answer := range b.answers[query] {
		if answer != "" {
			n++
		}
	}
	return n
}

// suspects returns the steps that share the blame if the run failed: those whose answer a check or, unless
// b.spreadBlame, a verdict rejected, else those that other models answered differently, else all.
func (b *builder) suspects(r *run) []int {
	var rejected, disputed, all []int
	for i, p := range r.returned {
		all = append(all, i)
		if b.rejected[p] || !b.spreadBlame && cellAt(b.numbers[colQuality], p, math.NaN()) < 0.5 {
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

// StepAnswer is a model's answer in a recorded step.
type StepAnswer struct {
	Step  *sdk.Trace
	Model string
}

// RunQualities returns the qualities of the recorded answers whose runs have a verdict, as in the table of
// [OfTraces]. Of a model's answers to one query only the first has one.
func RunQualities(traces []*sdk.Trace) map[StepAnswer]float64 {
	table, err := OfTraces(traces)
	if err != nil || table.StepVerdicts == nil {
		return nil // no verdict is on a run with a step
	}
	rows, qualities := map[string]int{}, map[StepAnswer]float64{}
	for q, id := range table.Queries {
		rows[id] = q
	}
	seen := map[place]bool{}
	for _, t := range traces {
		q, isKnown := rows[strings.TrimSpace(cmp.Or(t.QueryID, t.ID))]
		if !isKnown || !sdk.HasChoice(t.Mode) {
			continue
		}
		for i := range t.Calls {
			p := place{q, table.Index(t.Calls[i].Model)}
			if p.model >= 0 && !seen[p] && !math.IsNaN(table.StepVerdicts[q][p.model]) {
				qualities[StepAnswer{t, t.Calls[i].Model}] = table.Quality[q][p.model]
			}
			seen[p] = true
		}
	}
	return qualities
}

// cellAt returns the value at a place of a matrix with rows of different lengths, or unknown if it has none.
func cellAt[T any](matrix [][]T, p place, unknown T) T {
	if p.query >= len(matrix) || p.model >= len(matrix[p.query]) {
		return unknown
	}
	return matrix[p.query][p.model]
}
