package fit

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Floor is the least quality that a strategy must keep on queries not seen: a mean
// quality, or that of a model less a margin.
type Floor struct {
	// MinQuality is the least mean quality; 0 with AsGoodAs.
	MinQuality float64 `json:"min_quality,omitempty"`
	// AsGoodAs is a model, by name, and Margin by how much less quality will do.
	AsGoodAs string  `json:"as_good_as,omitempty"`
	Margin   float64 `json:"margin,omitempty"`
}

// String says what is promised.
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
	// as were fitted to keeps the floor, if they come from where those came from.
	Confidence float64 `json:"confidence"`
	// Quality is the mean quality on queries not seen, less that of the model AsGoodAs
	// if there is one.
	Quality float64 `json:"quality"`
	// Chance bounds the probability to have seen so much of a strategy that breaks
	// the floor.
	Chance float64 `json:"chance"`
}

// FloorError says that a floor cannot be promised, and what is missing.
type FloorError struct {
	Floor      Floor
	Confidence float64
	// Quality is what the dearest strategies reach on queries not seen, and Promised
	// the highest floor that these outcomes allow to promise, both like Kept.Quality.
	Quality, Promised float64
	// Queries is about how many outcomes it takes if qualities stay as they are; 0
	// when Quality lies below the floor, so that no number will do.
	Queries int
}

// Error says what is missing.
func (e *FloorError) Error() string {
	what, unit := "a mean quality of", 100.0
	if e.Floor.AsGoodAs != "" {
		what = "a mean difference to " + e.Floor.AsGoodAs + " of"
	}
	text := fmt.Sprintf("%s cannot be promised with confidence %.2g: on queries not seen the strategy reaches %s %.2f points, and %.2f could be promised",
		e.Floor.String(), e.Confidence, what, unit*e.Quality, unit*e.Promised)
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

// floorTest is what a floor is tested with: the values whose mean it bounds.
type floorTest struct {
	floor Floor
	// against has the qualities of the model AsGoodAs, nil without one.
	against    []float64
	low, least float64
}

func newFloorTest(f Floor, t *outcome.Table) floorTest {
	test := floorTest{floor: f, least: f.MinQuality}
	if m := t.Index(f.AsGoodAs); f.AsGoodAs != "" && m >= 0 {
		test.low, test.least = -1, -f.Margin
		for q := range t.Queries {
			test.against = append(test.against, t.Quality[q][m])
		}
	}
	return test
}

func (t *floorTest) values(r *replayRow) []float64 {
	out := slices.Clone(r.quality)
	for q, v := range t.against {
		out[q] -= v
	}
	return out
}

// meetFloor takes the cheapest operating point that keeps the floor. From the dearest
// point on, one after the other is tested, and the first that fails ends the search:
// so the chance that a bad one passes is that of one test (fixed-sequence testing, as
// in learn-then-test). Candidates share the chance.
func (f *fitter) meetFloor(list []*candidate) (*candidate, error) {
	o := &f.options
	values := startValues(o.Strategy, f.stage.table, floorValues)
	if o.Strategy == cascade.NameThreshold {
		slices.Reverse(values)
	}
	grids := make([][]float64, len(list))
	for i := range grids {
		grids[i] = values
	}
	if err := f.stage.extend(f.ctx, list, grids); err != nil {
		return nil, err
	}
	test := newFloorTest(*o.Floor, f.stage.table)
	level := (1 - o.Confidence) / float64(len(list))
	n := len(f.stage.rows)
	kept := FloorPromise{Floor: *o.Floor, Confidence: o.Confidence}
	var chosen *candidate
	value, cost := 0.0, math.Inf(1)
	for _, c := range list {
		for _, v := range values {
			at, _ := slices.BinarySearch(c.values, v)
			r := &c.results[at]
			of := test.values(r)
			chance := breakChance(of, test.low, test.least, n)
			if chance > level {
				break
			}
			if p := r.point(v); p.CostUSD < cost {
				chosen, value, cost = c, v, p.CostUSD
				kept.Quality, kept.Chance = average(of), chance
			}
		}
	}
	if chosen == nil {
		return nil, f.floorError(list, values[0], &test, level)
	}
	f.candidate, f.profile.Kept = chosen, &kept
	f.profile.Strategy = cascade.SettingOf(cascade.Description{Name: o.Strategy, Params: chosen.params}, f.stage.table.Models)
	return chosen, f.settle([]float64{value}, 1)
}

// floorError works out what is missing.
func (f *fitter) floorError(list []*candidate, value float64, test *floorTest, level float64) *FloorError {
	e := &FloorError{Floor: test.floor, Confidence: f.options.Confidence, Quality: math.Inf(-1)}
	var best []float64
	for _, c := range list {
		at, _ := slices.BinarySearch(c.values, value)
		if of := test.values(&c.results[at]); average(of) > e.Quality {
			best, e.Quality = of, average(of)
		}
	}
	n := len(best)
	e.Promised = test.low
	for low, high := test.low, e.Quality; high-low > 1e-4; {
		middle := (low + high) / 2
		if breakChance(best, test.low, middle, n) <= level {
			low, e.Promised = middle, middle
		} else {
			high = middle
		}
	}
	// The gap that can be told shrinks with the root of the number.
	if gap := e.Quality - test.least; gap > 1e-9 {
		times := (e.Quality - e.Promised) / gap
		e.Queries = int(math.Ceil(float64(n) * times * times))
	}
	return e
}
