package estimate

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// regressionPrecision is the penalty on the coefficients of standardised features.
const (
	regressionPrecision = 8
	interceptPrecision  = 0.05
)

// sampledSets is the number of random sets of models per query to which the pooled
// regressions are fitted.
const sampledSets = 6

// regressionFit holds the features of a table's queries with all models run.
type regressionFit struct {
	t    *outcome.Table
	seen []*setFits
	sets [][][]int // query: the sets of models to fit to, or to measure
}

// fit fits the regressions, and their deviations on each half of the queries with the
// coefficients fitted to the other half.
func (e *regression) fit(t *outcome.Table, o Options) (err error) {
	if e.Features, err = newFeatureLayout(t, o.Features, o.Seed); err != nil {
		return err
	}
	e.Link, e.Verified = o.Quality, t.Verified // a kind is named by its link
	f := newRegressionFit(t, e, o.Seed)
	f.fit(e, nil)
	if t.Verified {
		e.StdDev = cube(len(e.Features.Groups)+1, e.contexts(), len(t.Models))
		return nil
	}
	e.half = t.Folds(2, o.Seed)
	e.others = f.deviate(e, e.half)
	return nil
}

// onHalves returns a replay of the table in which each half of the queries is estimated
// with the coefficients of the other. It needs state that is not part of e's JSON.
func (e *regression) onHalves(t *outcome.Table, cost Cost) (*Replay, error) {
	var estimators []*Estimator
	for _, half := range e.others {
		half.StdDev = e.StdDev
		estimators = append(estimators, &Estimator{Models: t.Models, Quality: half, Cost: cost})
	}
	replay, err := newReplay(t, e.half, estimators...)
	e.half, e.others = nil, nil
	return replay, err
}

func newRegressionFit(t *outcome.Table, e *regression, seed uint64) *regressionFit {
	n := len(t.Models)
	f := &regressionFit{t: t}
	reader := newReader(t, e.Features.Signals)
	run := runFacts{Signals: make([]float64, len(e.Features.Signals))}
	rng := rand.New(rand.NewPCG(seed, 0x5e75))
	exact := allSets(min(n, exactModels))
	for i := range t.Queries {
		q := reader.query(i)
		s := e.Features.newSetFits(n)
		s.begin(&q)
		if e.Features.Text != nil {
			s.text, s.reader = textScale*e.Features.unseen[i], nil
		}
		var known []int
		for m := range n {
			if math.IsNaN(t.Quality[i][m]) {
				continue
			}
			reader.run(i, m, &run)
			s.observe(m, &run, known)
			known = append(known, m)
		}
		f.seen = append(f.seen, s)
		sets := exact
		if n > exactModels {
			sets = someSets(rng, known)
		} else if len(known) < n {
			sets = slices.DeleteFunc(slices.Clone(exact), func(set []int) bool { return lacksAny(known, set) })
		}
		f.sets = append(f.sets, sets)
	}
	return f
}

// someSets returns the empty set and random ones, small ones more often, since a step
// rarely runs many models.
func someSets(rng *rand.Rand, known []int) [][]int {
	sets := [][]int{nil}
	for range sampledSets {
		size := 1
		for size < len(known) && rng.Float64() < 0.6 {
			size++
		}
		var set []int
		for _, k := range rng.Perm(len(known))[:min(size, len(known))] {
			set = append(set, known[k])
		}
		slices.Sort(set)
		sets = append(sets, set)
	}
	return sets
}

func lacksAny(known, set []int) bool {
	return slices.ContainsFunc(set, func(m int) bool { return !slices.Contains(known, m) })
}

func with(set []int, model int) []int {
	at, has := slices.BinarySearch(set, model)
	if has {
		return set
	}
	return slices.Insert(slices.Clone(set), at, model)
}

// fit fits all coefficients to the queries for which use returns true; nil means all.
func (f *regressionFit) fit(e *regression, use func(query int) bool) {
	n := len(f.t.Models)
	if n > exactModels {
		e.Pooled = cube(situations, n, 0)
	} else {
		e.Exact = cube(1<<n, n, 0)
	}
	for place, row := range e.tables() {
		for target := range row {
			row[target] = f.fitOne(e, use, target, place)
		}
	}
}

// fitOne fits the coefficients of one target at one place, to the sets of that place. The
// target is added to each if it must have run.
func (f *regressionFit) fitOne(e *regression, use func(int) bool, target, place int) []float64 {
	r := ridge{link: e.Link, precision: regressionPrecision, intercept: interceptPrecision}
	ran := e.Exact == nil && place == targetRan
	for q, sets := range f.sets {
		y := f.t.Quality[q][target]
		if math.IsNaN(y) || use != nil && !use(q) {
			continue
		}
		for _, set := range sets {
			if ran {
				set = with(set, target)
			}
			if e.place(set, target) == place {
				r.add(e.input(nil, f.seen[q], set, target), y, 1)
			}
		}
	}
	if len(r.x) == 0 {
		// No query has this set: predict the mean quality.
		set := f.emptyLike(e, target, place, ran)
		c := make([]float64, len(e.input(nil, e.Features.newSetFits(len(f.t.Models)), set, target)))
		c[0] = e.Features.Trust[len(e.Features.Groups)][target]
		if e.Link == linkLogistic {
			c[0] = logit(c[0])
		}
		return c
	}
	return r.fit(len(r.x[0]))
}

func (f *regressionFit) emptyLike(e *regression, target, place int, ran bool) []int {
	n := len(f.t.Models)
	for _, set := range append(e.examples(n), []int{target}) {
		if ran {
			set = with(set, target)
		}
		if e.place(set, target) == place {
			return set
		}
	}
	return nil
}

// deviate measures the change that a target's run makes to its estimate, on each half of
// the queries with the coefficients of the other half. It returns those regressions.
func (f *regressionFit) deviate(e *regression, half []int) []*regression {
	n, groups, contexts := len(f.t.Models), len(e.Features.Groups)+1, e.contexts()
	sums, counts := cube(groups, contexts, n), cube(groups, contexts, n)
	var x []float64
	var others []*regression
	for h := range 2 {
		other := &regression{Link: e.Link, Features: e.Features}
		f.fit(other, func(q int) bool { return half[q] != h })
		others = append(others, other)
		for q, sets := range f.sets {
			if half[q] != h {
				continue
			}
			s := f.seen[q]
			for _, set := range sets {
				for target := range n {
					if slices.Contains(set, target) || math.IsNaN(f.t.Quality[q][target]) {
						continue
					}
					d := other.estimate(&x, s, with(set, target), target) - other.estimate(&x, s, set, target)
					for _, g := range []int{s.group, groups - 1} {
						k := other.context(set)
						sums[g][k][target] += d * d
						counts[g][k][target]++
						if g == groups-1 {
							break
						}
					}
				}
			}
		}
	}
	for g := range sums {
		for k := range contexts {
			for i := range n {
				sum, count := sums[g][k][i], counts[g][k][i]
				if g < groups-1 {
					whole := counts[groups-1][k][i]
					sum += groupWeight * sums[groups-1][k][i] / max(whole, 1)
					count += groupWeight
				}
				sums[g][k][i] = math.Sqrt(sum / max(count, 1))
			}
		}
	}
	e.StdDev = sums
	return others
}
