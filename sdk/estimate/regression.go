package estimate

import (
	"fmt"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// regression is a ridge regression, linear or logistic, for each target model and
// set of models that have run, as in the paper. There are 2^n sets, so this is done
// for up to exactModels models. Beyond that, each target has one regression for each
// of three situations, on features that summarise the models that have run: nothing
// has run, others have, the target has.
type regression struct {
	Link     string         `json:"link"`
	Features *featureLayout `json:"features"`
	// Exact has the coefficients by set (bit i: model i has run) and target; nil
	// with more than exactModels models.
	Exact [][][]float64 `json:"exact,omitempty"`
	// Pooled has the coefficients by situation and target.
	Pooled [][][]float64 `json:"pooled,omitempty"`
	// StdDev is that of the change which a target's own run makes to its estimate on
	// held-out queries: by group (the last: all), then set (or, with many models, their
	// number up to deepest), and target.
	StdDev [][][]float64 `json:"std_dev"`
	// Gain corrects the deviations; nil leaves them unchanged.
	Gain *gainScale `json:"gain,omitempty"`
	// Verified: a check judges the answers.
	Verified bool `json:"verified,omitempty"`

	// others are fitted to the half of the queries that half does not select; see onHalves.
	others []*regression
	half   []int
}

// exactModels is the number of models up to which every set has its own regressions.
const exactModels = 5

// deepest is the number of models run from which deviations are pooled.
const deepest = 3

// The situations of a target.
const (
	nothingRan = iota
	othersRan
	targetRan
	situations
)

func situation(ran []int, target int) int {
	switch {
	case slices.Contains(ran, target):
		return targetRan
	case len(ran) > 0:
		return othersRan
	}
	return nothingRan
}

// input appends the features of a target given the models that have run, in
// ascending order.
func (e *regression) input(x []float64, s *setFits, ran []int, target int) []float64 {
	x = s.base(x, target)
	switch {
	case len(ran) == 0:
		return x
	case e.Exact != nil:
		return s.each(x, ran)
	}
	return s.pool(x, ran, target)
}

// tables returns the coefficients by place (see place) and target.
func (e *regression) tables() [][][]float64 {
	if e.Exact != nil {
		return e.Exact
	}
	return e.Pooled
}

// place returns the index in tables for a target given the models that have run.
func (e *regression) place(ran []int, target int) int {
	if e.Exact != nil {
		return setOf(ran)
	}
	return situation(ran, target)
}

// coefficients returns the coefficients for a target given the models that have run.
func (e *regression) coefficients(ran []int, target int) []float64 {
	return e.tables()[e.place(ran, target)][target]
}

// estimate returns the quality of a target given the models that have run; x is scratch.
func (e *regression) estimate(x *[]float64, s *setFits, ran []int, target int) float64 {
	*x = e.input((*x)[:0], s, ran, target)
	return min(max(applyLink(e.Link, dot(e.coefficients(ran, target), *x)), 0), 1)
}

// context returns the row of StdDev for the models that have run.
func (e *regression) context(ran []int) int {
	if e.Exact != nil {
		return setOf(ran)
	}
	return min(len(ran), deepest)
}

func (e *regression) contexts() int {
	if e.Exact != nil {
		return len(e.Exact)
	}
	return deepest + 1
}

func setOf(ran []int) int {
	set := 0
	for _, m := range ran {
		set |= 1 << m
	}
	return set
}

func (e *regression) Kind() string {
	if e.Link == linkLinear {
		return KindLinear
	}
	return KindLogistic
}

func (e *regression) Signals() []string { return e.Features.Signals }

func (e *regression) check(models int) error {
	l := e.Features
	if l == nil || e.Link != linkLinear && e.Link != linkLogistic {
		return fmt.Errorf("link %q", e.Link)
	}
	if len(e.StdDev) != len(l.Groups)+1 || !l.fits(models) {
		return fmt.Errorf("features do not fit %d models", models)
	}
	if err := l.Text.decode(); err != nil {
		return err
	}
	if e.Exact != nil && models > exactModels {
		return fmt.Errorf("a regression for each set of %d models", models)
	}
	if !e.hasShape(models) {
		return fmt.Errorf("coefficients do not fit %d models", models)
	}
	s := e.Features.newSetFits(models)
	for _, ran := range e.examples(models) {
		for target := range models {
			if want, got := len(e.input(nil, s, ran, target)), len(e.coefficients(ran, target)); got != want {
				return fmt.Errorf("%d coefficients for %d features", got, want)
			}
		}
	}
	return nil
}

// hasShape reports whether there are coefficients and deviations for all sets of models.
func (e *regression) hasShape(models int) bool {
	places := situations
	if e.Exact != nil {
		places = 1 << models
	}
	return len(e.tables()) == places && wide(e.tables(), models) && wide(e.StdDev, e.contexts()) &&
		!slices.ContainsFunc(e.StdDev, func(rows [][]float64) bool { return !wide(rows, models) })
}

func wide[T any](rows [][]T, n int) bool {
	return !slices.ContainsFunc(rows, func(row []T) bool { return len(row) != n })
}

func (e *regression) examples(models int) [][]int {
	if e.Exact == nil {
		return [][]int{nil, {0}, {models - 1}}
	}
	return allSets(models)
}

// allSets returns the sets of n models, in the order of their bits.
func allSets(n int) [][]int {
	out := make([][]int, 1<<n)
	for set := range out {
		for m := range n {
			if set>>m&1 == 1 {
				out[set] = append(out[set], m)
			}
		}
	}
	return out
}

func (e *regression) Cursor() qualityCursor {
	n := len(e.Features.Trust[0])
	return &regressionCursor{regression: e, seen: e.Features.newSetFits(n), ran: make([]int, 0, n), verdict: make([]float64, n), x: make([]float64, 0, 64)}
}

type regressionCursor struct {
	*regression
	seen    *setFits
	ran     []int // ascending
	verdict []float64
	x       []float64
}

func (c *regressionCursor) Begin(q *queryFacts) {
	c.seen.begin(q)
	c.ran = c.ran[:0]
	for i := range c.verdict {
		c.verdict[i] = math.NaN()
	}
}

func (c *regressionCursor) Observe(model int, r *runFacts) {
	c.seen.observe(model, r, c.ran)
	at, _ := slices.BinarySearch(c.ran, model)
	c.ran = slices.Insert(c.ran, at, model)
	c.verdict[model] = r.Verdict
}

func (c *regressionCursor) Beliefs(dst []cascade.Belief) {
	devs := c.StdDev[c.seen.group][c.context(c.ran)]
	scale := c.Gain.at(len(c.ran) > 0)
	for i := range dst {
		if v := c.verdict[i]; !math.IsNaN(v) {
			dst[i] = cascade.Belief{Mean: v}
			continue
		}
		b := cascade.Belief{Mean: c.estimate(&c.x, c.seen, c.ran, i)}
		if !slices.Contains(c.ran, i) {
			b.Bernoulli = c.Verified
			if !c.Verified {
				b.StdDev = scale * devs[i]
			}
		}
		dst[i] = b
	}
}
