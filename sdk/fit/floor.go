package fit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Floor is the least quality that a strategy must keep on unseen queries: a mean
// quality, or the mean quality of a model less a margin. Where queries are steps of
// runs ([outcome.Table.StepsPerRun]), it is that of the runs: a run is right only if each of its
// steps is, so that of n steps a run each may lose an n-th of what a run may.
type Floor struct {
	// MinQuality is the least mean quality; 0 with AsGoodAs.
	MinQuality float64 `json:"min_quality,omitempty"`
	// AsGoodAs names a model, and Margin is by how much its quality may be missed.
	AsGoodAs string  `json:"as_good_as,omitempty"`
	Margin   float64 `json:"margin,omitempty"`
}

// String describes the promise.
func (f *Floor) String() string {
	if f.AsGoodAs != "" {
		return fmt.Sprintf("as good as %s to within %.2f points", f.AsGoodAs, 100*f.Margin)
	}
	return fmt.Sprintf("a mean quality of %.2f %%", 100*f.MinQuality)
}

func (f *Floor) validate(t *outcome.Table) error {
	switch {
	case f.AsGoodAs != "" && f.MinQuality != 0:
		return errors.New("a floor is a least quality or that of a model, not both")
	case f.AsGoodAs != "" && t.Index(f.AsGoodAs) < 0:
		return fmt.Errorf("as good as %q: the outcomes are of %q", f.AsGoodAs, t.Models)
	case !(f.Margin >= 0 && f.Margin < 1):
		return fmt.Errorf("a margin of %v: want a number from 0 to 1", f.Margin)
	case f.AsGoodAs == "" && !(f.MinQuality > 0 && f.MinQuality <= 1):
		return fmt.Errorf("a least quality of %v: want a number above 0, up to 1", f.MinQuality)
	}
	return nil
}

// FloorPromise is the promise of a [Floor].
type FloorPromise struct {
	Floor
	// Confidence is the probability with which the mean quality of as many new queries
	// as were fitted keeps the floor, if they come from the same distribution.
	Confidence float64 `json:"confidence"`
	// Quality is the mean quality on unseen queries, less that of the model AsGoodAs if
	// there is one. For steps of runs it is the least that the runs' can be.
	Quality float64 `json:"quality"`
	// StepsPerRun is the mean number of steps of a run; 0 if the floor is that of the queries.
	StepsPerRun float64 `json:"steps_per_run,omitempty"`
	// Chance bounds the probability of such good results from a strategy that breaks
	// the floor (the p-value).
	Chance float64 `json:"chance"`
}

// String describes the promise, and of what it is.
func (p *FloorPromise) String() string {
	return p.Floor.String() + strings.TrimSuffix(ofRuns(p.StepsPerRun), ",")
}

func ofRuns(steps float64) string {
	if steps == 0 {
		return ""
	}
	return fmt.Sprintf(" of the runs, which have %.1f steps each,", steps)
}

// FloorError says that a floor cannot be promised, and what it would take.
type FloorError struct {
	Floor      Floor
	Confidence float64
	// Quality is the quality of the most expensive setting on unseen queries, and Promised
	// the highest floor that these outcomes allow to promise; see FloorPromise.Quality.
	Quality, Promised float64
	// Queries is about how many outcomes it would take if qualities stay the same. It is
	// 0 if Quality is below the floor, so that no number suffices.
	Queries int
	// StepsPerRun is as in FloorPromise.
	StepsPerRun float64
}

// Error says how far the floor is missed and how many outcomes it would take.
func (e *FloorError) Error() string {
	what, unit := "a mean quality of", 100.0
	if e.Floor.AsGoodAs != "" {
		what = "a mean difference to " + e.Floor.AsGoodAs + " of"
	}
	text := fmt.Sprintf("%s%s cannot be promised with confidence %.2g: on queries not seen the strategy reaches %s %.2f points, and %.2f could be promised",
		e.Floor.String(), ofRuns(e.StepsPerRun), e.Confidence, what, unit*e.Quality, unit*e.Promised)
	if e.Floor.AsGoodAs != "" {
		text += fmt.Sprintf(" (always asking %s keeps it for certain)", e.Floor.AsGoodAs)
	}
	if e.Queries == 0 {
		return text + "; no number of outcomes will do, better models or signals may"
	}
	return fmt.Sprintf("%s; it takes about %d outcomes of this kind", text, e.Queries)
}

// floorValues is the number of operating points among which a floor chooses.
const floorValues = 60

type floorTest struct {
	floor Floor
	// against has the qualities of the model AsGoodAs; nil if there is none.
	against    []float64
	low, least float64
	steps      float64 // of a run; 0 if the floor is that of the queries
}

func newFloorTest(f Floor, t *outcome.Table) floorTest {
	test := floorTest{floor: f, least: f.MinQuality, steps: t.StepsPerRun}
	if m := t.Index(f.AsGoodAs); f.AsGoodAs != "" && m >= 0 {
		test.low, test.least = -1, -f.Margin
		for q := range t.Queries {
			test.against = append(test.against, t.Quality[q][m])
		}
	}
	test.least = test.perfect() - (test.perfect()-test.least)/max(test.steps, 1)
	return test
}

// perfect returns the value of a query at which nothing is lost.
func (t *floorTest) perfect() float64 {
	if t.against != nil {
		return 0
	}
	return 1
}

// inRuns returns what a mean value of steps means for their runs, at the least: with n steps a run, no more
// than n times the share of wrong steps is wrong.
func (t *floorTest) inRuns(mean float64) float64 {
	return t.perfect() - max(t.steps, 1)*(t.perfect()-mean)
}

func (t *floorTest) values(r *replayRow) []float64 {
	out := slices.Clone(r.quality)
	for q, v := range t.against {
		out[q] -= v
	}
	return out
}

// untunedCandidate returns the candidate that does not depend on outcomes: all models, the estimators' own
// deviations, as deep as the fixed parameters allow.
func untunedCandidate(list []*candidate, fixed *cascade.Params) *candidate {
	last := list[len(list)-1]
	for _, c := range list {
		if p := &c.params; p.Scale == 1 && len(p.Order) == len(last.params.Order) && p.MaxDepth == fixed.MaxDepth {
			return c
		}
	}
	return last
}

// meetFloor takes the cheapest operating point that keeps the floor. Points are tested from the most
// expensive on until one fails, so that the error probability is that of one test (fixed-sequence testing,
// as in learn-then-test). The sequence must be fixed before any outcome is seen, which is why it is that
// of one untuned candidate.
func (f *fitter) meetFloor(c *candidate) error {
	o := &f.options
	values := startValues(o.Strategy, f.stage.table, floorValues)
	if o.Strategy == cascade.NameThreshold {
		slices.Reverse(values)
	}
	if err := f.stage.extend(f.ctx, []*candidate{c}, [][]float64{values}); err != nil {
		return err
	}
	test := newFloorTest(*o.Floor, f.stage.table)
	kept := FloorPromise{Floor: *o.Floor, Confidence: o.Confidence, StepsPerRun: test.steps}
	value, cost := 0.0, math.Inf(1)
	for _, v := range values {
		at, _ := slices.BinarySearch(c.values, v)
		r := &c.results[at]
		of := test.values(r)
		chance := breakChance(of, test.low, test.least, len(of))
		if chance > 1-o.Confidence {
			break
		}
		if p := r.point(v); p.CostUSD < cost {
			value, cost = v, p.CostUSD
			kept.Quality, kept.Chance = test.inRuns(average(of)), chance
		}
	}
	if math.IsInf(cost, 1) {
		at, _ := slices.BinarySearch(c.values, values[0])
		return test.missing(&c.results[at], o.Confidence)
	}
	f.profile.Kept = &kept
	return f.settle([]float64{value}, 1)
}

// missing returns what the promise would take, according to the most expensive point.
func (t *floorTest) missing(dearest *replayRow, confidence float64) *FloorError {
	best := t.values(dearest)
	n := len(best)
	e := &FloorError{Floor: t.floor, Confidence: confidence, StepsPerRun: t.steps, Quality: average(best), Promised: t.low}
	for low, high := t.low, e.Quality; high-low > 1e-4; {
		middle := (low + high) / 2
		if breakChance(best, t.low, middle, n) <= 1-confidence {
			low, e.Promised = middle, middle
		} else {
			high = middle
		}
	}
	// The detectable gap shrinks with the root of the number.
	if gap := e.Quality - t.least; gap > 1e-9 {
		times := (e.Quality - e.Promised) / gap
		e.Queries = int(math.Ceil(float64(n) * times * times))
	}
	e.Quality, e.Promised = t.inRuns(e.Quality), t.inRuns(e.Promised)
	return e
}
