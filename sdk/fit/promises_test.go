package fit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// qualitiesOf is a table of one column for each model.
func qualitiesOf(models ...[]float64) *outcome.Table {
	t := &outcome.Table{}
	for m := range models {
		t.Models = append(t.Models, string(rune('a'+m)))
	}
	for q := range models[0] {
		row := make([]float64, len(models))
		for m := range models {
			row[m] = models[m][q]
		}
		t.Queries = append(t.Queries, fmt.Sprint(q))
		t.Quality, t.CostUSD = append(t.Quality, row), append(t.CostUSD, slices.Repeat([]float64{1}, len(models)))
	}
	return t
}

func TestWhatCanBePromised(t *testing.T) {
	table := qualitiesOf([]float64{1, 0}, []float64{1, 1})
	for _, c := range []struct {
		o    Options
		says string
	}{
		{Options{}, ""},
		{Options{Confidence: -0.1}, "a confidence of -0.1"}, {Options{Confidence: 1}, "a confidence of 1"}, {Options{Confidence: 0.001}, ""}, {Options{Confidence: math.NaN()}, "a confidence of NaN"},
		{Options{MaxWrong: -0.1}, "a share of -0.1 wrong"}, {Options{MaxWrong: 1}, "a share of 1 wrong"}, {Options{MaxWrong: 0.99}, ""}, {Options{MaxWrong: math.NaN()}, "a share of NaN"},
		{Options{BudgetUSD: 1}, ""}, {Options{BudgetUSD: 1, Floor: &Floor{MinQuality: 0.5}}, "a budget and a floor"},
		{Options{Floor: &Floor{MinQuality: 0.5}}, ""}, {Options{Floor: &Floor{MinQuality: 1}}, ""},
		{Options{Floor: &Floor{}}, "a least quality of 0"}, {Options{Floor: &Floor{MinQuality: 1.01}}, "a least quality of 1.01"}, {Options{Floor: &Floor{MinQuality: -1}}, "a least quality of -1"},
		{Options{Floor: &Floor{AsGoodAs: "b"}}, ""}, {Options{Floor: &Floor{AsGoodAs: "a", Margin: 0.99}}, ""},
		{Options{Floor: &Floor{AsGoodAs: "b", MinQuality: 0.5}}, "not both"}, {Options{Floor: &Floor{AsGoodAs: "c"}}, `as good as "c"`},
		{Options{Floor: &Floor{AsGoodAs: "b", Margin: -0.1}}, "a margin of -0.1"}, {Options{Floor: &Floor{AsGoodAs: "b", Margin: 1}}, "a margin of 1"}, {Options{Floor: &Floor{AsGoodAs: "b", Margin: math.NaN()}}, "a margin of NaN"},
	} {
		o := c.o
		err := o.checkPromises(table)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v, %+v: %v, want %q", c.o, c.o.Floor, err, c.says)
		}
		if c.o.Confidence == 0 && o.Confidence != 0.95 || c.o.Confidence == 0.001 && o.Confidence != 0.001 {
			t.Errorf("confidence %v becomes %v", c.o.Confidence, o.Confidence)
		}
	}
}

// The error of a missed floor states the shortfall in points and what could be promised.
func TestWhatIsMissingOfAFloor(t *testing.T) {
	for _, c := range []struct {
		e    FloorError
		want string
	}{
		{FloorError{Floor{MinQuality: 0.9}, 0.95, 0.925, 0.875, 400, 0}, "a mean quality of 90.00 % cannot be promised with confidence 0.95: on queries not seen the strategy reaches a mean quality of 92.50 points, and 87.50 could be promised; it takes about 400 outcomes of this kind"},
		{FloorError{Floor{AsGoodAs: "large", Margin: 0.01}, 0.9, -0.02, -0.05, 0, 0}, "as good as large to within 1.00 points cannot be promised with confidence 0.9: on queries not seen the strategy reaches a mean difference to large of -2.00 points, and -5.00 could be promised (always asking large keeps it for certain); no number of outcomes will do, better models or signals may"},
	} {
		if got := c.e.Error(); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
	// Of a hundred answers 90 are right. What can be promised is the highest floor that a test keeps.
	right := make([]float64, 100)
	for i := range right[:90] {
		right[i] = 1
	}
	dearest := newReplayRow(100)
	copy(dearest.quality, right)
	test := newFloorTest(Floor{MinQuality: 0.88}, qualitiesOf(right))
	e := test.missing(&dearest, 0.95)
	if chance := breakChance(right, 0, e.Promised, 100); chance > 0.05 || breakChance(right, 0, e.Promised+2e-2, 100) <= 0.05 {
		t.Errorf("%+v, at a chance of %v", e, chance)
	}
	is(t, "quality", e.Quality, 0.9)
	if times := (0.9 - e.Promised) / 0.02; e.Queries != int(math.Ceil(100*times*times)) {
		t.Errorf("%d queries, of which it takes %v times as many", e.Queries, times*times)
	}
	for least, queries := range map[float64]bool{0.9: false, 0.91: false, 0.899: true} {
		test := newFloorTest(Floor{MinQuality: least}, qualitiesOf(right))
		if e := test.missing(&dearest, 0.95); (e.Queries > 0) != queries {
			t.Errorf("a floor of %v takes %d queries", least, e.Queries)
		}
	}
	// Against a model: the differences, from -1 up.
	test = newFloorTest(Floor{AsGoodAs: "b", Margin: 0.1}, qualitiesOf([]float64{1, 0, 0, 1}, []float64{1, 1, 0, 0}))
	row := newReplayRow(4)
	copy(row.quality, []float64{1, 0, 0, 1})
	if got := test.values(&row); !slices.Equal(got, []float64{0, -1, 0, 1}) || test.low != -1 || test.least != -0.1 || row.quality[1] != 0 {
		t.Errorf("%v of %+v", got, test)
	}
	if plain := newFloorTest(Floor{MinQuality: 0.7}, qualitiesOf([]float64{1})); plain.low != 0 || plain.least != 0.7 || plain.against != nil {
		t.Errorf("%+v", plain)
	}
}

// A new profile is better if it is better by more than chance in one respect, and not worse by as
// much in the other.
func TestRivalIsBetter(t *testing.T) {
	for _, c := range []struct {
		r    Rival
		want bool
	}{
		{Rival{Quality: 0.21, QualityStdError: 0.1, Cost: 0, CostStdError: 0.1}, true},
		{Rival{Quality: 0.2, QualityStdError: 0.1, Cost: 0, CostStdError: 0.1}, false},
		{Rival{Quality: 0, QualityStdError: 0.1, Cost: 0.21, CostStdError: 0.1}, true},
		{Rival{Quality: 0, QualityStdError: 0.1, Cost: 0.2, CostStdError: 0.1}, false},
		{Rival{Quality: 0.21, QualityStdError: 0.1, Cost: -0.2, CostStdError: 0.1}, true},
		{Rival{Quality: 0.21, QualityStdError: 0.1, Cost: -0.21, CostStdError: 0.1}, false},
		{Rival{Quality: -0.2, QualityStdError: 0.1, Cost: 0.21, CostStdError: 0.1}, true},
		{Rival{Quality: -0.21, QualityStdError: 0.1, Cost: 0.21, CostStdError: 0.1}, false},
	} {
		if got := c.r.Better(); got != c.want {
			t.Errorf("%+v: %v", c.r, got)
		}
	}
	mean, stdError := gain([]float64{3, 5, 1}, []float64{2, 2, 2})
	is(t, "gain", mean, 1)
	is(t, "its error", stdError, math.Sqrt((0+4+4)/2.0/3))
	for _, pair := range [][2][]float64{{{1}, {2}}, {{1, 2}, {1}}, {nil, nil}} {
		if mean, stdError := gain(pair[0], pair[1]); mean != 0 || !math.IsInf(stdError, 1) {
			t.Errorf("%v: %v ± %v", pair, mean, stdError)
		}
	}
	for gain, behind := range map[float64]bool{-0.2: false, -0.21: true, 0.5: false} {
		if l := (&Ladder{Gain: gain, GainStdError: 0.1}); l.Behind() != behind {
			t.Errorf("%v: behind %v", gain, l.Behind())
		}
	}
}

func TestPromiseOfABudget(t *testing.T) {
	normal := func(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }
	is(t, "between", normalBetween(-1, 2, 0.5, 0.75), normal(2)-normal(-2))
	for x, want := range map[float64]float64{1: 1, 2: 1, 3: 1, 0.99: 0, 3.01: 0} {
		is(t, "certain", normalBetween(1, 3, x, 0), want)
	}
	is(t, "overlap", holdChance(0.95, 1.05, HeldOut{CostUSD: 1, CostStdError: 0.05 / math.Sqrt2}), normal(1)-normal(-1))

	for _, c := range []struct {
		dev, paced float64
		want       Promise
	}{{0, 0, PromiseAlways}, {0.01, 0, PromiseAlways}, {0.1, 0.9, PromisePaced}, {0.1, 0.89, PromiseNone}} {
		h := HeldOut{CostUSD: 1, CostStdError: c.dev, Paced: c.paced}
		if h.promise(0.95, 1.05, 100); h.Promise != c.want {
			t.Errorf("%+v: %s, want %s", c, h.Promise, c.want)
		}
	}
	// With n new queries the deviation is 0.02·sqrt(1 + 100/n), which must be 0.05/1.6449.
	z := 1.6448536269514722
	times := 0.05 / z / 0.02
	want := math.Ceil(100 / (times*times - 1))
	if got := fromQueries(0.95, 1.05, HeldOut{CostUSD: 1, CostStdError: 0.02}, 100); got != int(want) {
		t.Errorf("from %d queries, want %v", got, want)
	}
	if got := fromQueries(0.95, 1.05, HeldOut{CostUSD: 1, CostStdError: 0.05}, 100); got != 0 {
		t.Errorf("from %d queries, and no number will do", got)
	}
}

// The pacer's rule in numbers: what is spent and due, the mixture of groups, and the coin.
func TestPacerInNumbers(t *testing.T) {
	points := []Point{
		{CostUSD: 1, Quality: 0.2, ByGroup: map[string]float64{"dear": 2, "cheap": 0.5}},
		{CostUSD: 3, Quality: 0.6, ByGroup: map[string]float64{"dear": 6, "cheap": 1}},
		{CostUSD: 3, Quality: 0.5}, {CostUSD: 2, Quality: 0.1},
	}
	front := frontier(points)
	if len(front) != 2 || front[0].CostUSD != 1 || front[1].Quality != 0.6 || points[2].Quality != 0.5 {
		t.Fatalf("front %+v of %+v", front, points)
	}
	p, err := NewPacer(points, 2, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	for usd, want := range map[float64]struct {
		at    int
		share float64
	}{0.5: {0, 0}, 1: {0, 0}, 1.5: {0, 0.25}, 2.5: {0, 0.75}, 3: {0, 1}, 4: {1, 0}} {
		at, share := p.place(usd)
		if is(t, "share", share, want.share); at != want.at {
			t.Errorf("%v is met at %d, want %d", usd, at, want.at)
		}
	}
	// The budget is met half way between the points, where dear queries cost 4 and all 2.
	p.Spent("dear", 0, 2.5)
	is(t, "mixture", p.mixture, 2*(4.0/2-1))
	is(t, "squares", p.squares, 4)
	is(t, "expected", p.expected, 2)
	is(t, "ratio", p.ratio(), (2.5+20)/(2+20))
	is(t, "lent to chance", p.lent(), 0)
	p.Spent("new", 1, 7)
	is(t, "of an unknown group", p.expected, 2+7)
	is(t, "its mixture", p.mixture, 2)
	if p.queries != 2 || p.spent != 9.5 {
		t.Errorf("%v queries for %v", p.queries, p.spent)
	}
	for _, c := range []struct{ mixture, squares, want float64 }{
		{10, 9, 4}, {-10, 9, -4}, {5, 9, 0}, {-5, 9, 0}, {1000, 9, 200}, {-1000, 9, -200},
	} {
		p.mixture, p.squares = c.mixture, c.squares
		is(t, "lent", p.lent(), c.want)
	}
	for spent, drifts := range map[float64]bool{11.9: false, 12: true, 12.1: true} {
		p.sums = sums{spent: spent}
		if ratio, got := p.Drift(); got != drifts || math.Abs(ratio-(1+spent/20)) > 1e-12 {
			t.Errorf("%v spent: a ratio of %v, drifted %v", spent, ratio, got)
		}
	}
	// Without groups what a query costs is held against the point.
	plain, err := NewPacer([]Point{{CostUSD: 1, Quality: 0.2}, {CostUSD: 3, Quality: 0.6}}, 2, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	plain.Spent("dear", 1, 4)
	is(t, "expected", plain.expected, 3)
	is(t, "mixture", plain.mixture, 0)

	// A share of the next queries: saved up, overspent, and more than may be made up for.
	for _, c := range []struct {
		spent float64
		share float64 // of the dearer point
	}{{20, 0.5}, {10, ((2+1.0)/(30.0/40) - 1) / 2}, {24, ((2-0.4)/(44.0/40) - 1) / 2}, {30, 0}, {0, 1}} {
		plain.sums = sums{queries: 10, spent: c.spent, expected: 20}
		dear := 0.0
		for range 2000 {
			dear += float64(plain.Next()) / 2000
		}
		if math.Abs(dear-min(c.share, 1)) > 0.05 {
			t.Errorf("after %v for ten queries the dearer point has a share of %v, want %v", c.spent, dear, c.share)
		}
	}
	plain.sums = sums{queries: 1000, expected: 20, spent: 20}
	for range 50 { // of what was saved, as much as twenty cost: 4 for each
		if plain.Next() != 1 || plain.queries != 1000 {
			t.Fatal("what was saved is not spent")
		}
	}
}

// Each pacer passes on its own counts once, and adopts the sums of all pacers.
func TestPacersShareWhatTheyCounted(t *testing.T) {
	p, err := NewPacer([]Point{{CostUSD: 1, Quality: 0.2}}, 2, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	p.sums = sums{1, 2, 3, 4, 5}
	all, want := [5]float64{10, 20, 30, 40, 50}, [5]float64{1, 2, 3, 4, 5}
	add := func(delta [5]float64) ([5]float64, error) {
		if delta != want {
			t.Errorf("told %v, want %v", delta, want)
		}
		p.sums = sums{p.queries + 1, p.spent + 1, p.expected + 1, p.mixture + 1, p.squares + 1} // counted meanwhile
		for i := range all {
			all[i] += delta[i]
		}
		return all, nil
	}
	if err := p.Share(add); err != nil || p.sums != (sums{12, 23, 34, 45, 56}) || p.reported != ([5]float64{11, 22, 33, 44, 55}) {
		t.Errorf("%v, %+v, told %+v", err, p.sums, p.reported)
	}
	fails := errors.New("the store is away")
	if err := p.Share(func([5]float64) ([5]float64, error) { return [5]float64{}, fails }); !errors.Is(err, fails) || p.queries != 12 {
		t.Errorf("%v, %+v", err, p.sums)
	}
	want = [5]float64{1, 1, 1, 1, 1}
	if err := p.Share(add); err != nil || p.sums != (sums{13, 24, 35, 46, 57}) {
		t.Errorf("%v, %+v", err, p.sums)
	}
}

// The ratio of unseen to seen costs at a value is interpolated between its neighbours.
func TestUnseenBetweenNeighbours(t *testing.T) {
	c := &candidate{values: []float64{1, 2, 5}}
	for _, unseen := range []float64{1.2, 7, 1.8} {
		r := newReplayRow(1)
		r.unseen = unseen
		c.results = append(c.results, r)
	}
	is(t, "between", c.unseenAt(1), 1.2+0.25*(1.8-1.2))
	is(t, "first", c.unseenAt(0), 7)
	is(t, "last", c.unseenAt(2), 7)
	one := &candidate{values: []float64{1}, results: c.results[:1]}
	is(t, "alone", one.unseenAt(0), 1.2)
	r := newReplayRow(2)
	r.unseen, r.cost, r.quality, r.steps = 1.5, []float64{2, 4}, []float64{0, 1}, []float64{1, 2}
	for _, got := range []Point{r.point(0.3), r.pointOn(0.3, []int{0, 1})} {
		is(t, "cost", got.CostUSD, 4.5)
		is(t, "quality", got.Quality, 0.5)
		is(t, "steps", got.Steps, 1.5)
	}
	is(t, "of one row", r.pointOn(0.3, []int{1}).CostUSD, 6)
}

// The verdict on an answer and its known truth are kept separate.
func TestJudgedAnswers(t *testing.T) {
	nan := math.NaN()
	table := qualitiesOf([]float64{0}, []float64{0.49}, []float64{0.5}, []float64{1}, []float64{nan}, []float64{0.3}, []float64{1}, []float64{0})
	table.StepVerdicts = [][]float64{{nan, nan, nan, nan, nan, 1, 0, 0.5}}
	got := judgedAnswers(table)[0]
	want := []judgedAnswer{
		{0, verdictFail, nan}, {1, verdictFail, nan}, {2, verdictPass, nan}, {3, verdictPass, nan},
		{5, verdictPass, 0.3}, {6, verdictFail, 1}, {7, verdictNone, 0},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if truths, verdicts := countTruths(table); truths != 3 || verdicts != 4 {
		t.Errorf("%d truths, %d verdicts", truths, verdicts)
	}
	// The verdict of a judge that errs has as its mean how often such answers are right.
	v := &sdk.Verdict{Outcome: sdk.Passed, IfRight: 0.9, IfWrong: 0.2}
	chance, passed, quality := readErring(v, 0.6)
	is(t, "chance", chance, 0.6*0.9+0.4*0.2)
	is(t, "passed", passed, 1)
	v.Outcome = sdk.Failed
	v.IfRight, v.IfWrong = 0.1, 0.8
	again, failed, other := readErring(v, 0.6)
	is(t, "chance after a fail", again, chance)
	is(t, "failed", failed, 0)
	is(t, "without bias", chance*quality+(1-chance)*other, 0.6)
	is(t, "by a difference", quality-other, 1/0.7)
	v.IfRight, v.IfWrong = 0.5, 0.5
	if _, _, quality = readErring(v, 0.6); math.Abs(quality-(0.6-0.5/0.05)) > 1e-9 {
		t.Errorf("a judge that says nothing makes it %v", quality)
	}
}

func TestOddsAreShiftedToAMean(t *testing.T) {
	p := []float64{0.1, 0.5, 0.9}
	for _, mean := range []float64{0.2, 0.5, 0.7} {
		by, sum := shiftTo(p, mean), 0.0
		for _, x := range p {
			sum += shiftLogit(x, by)
		}
		is(t, "mean", math.Round(1e9*sum/3)/1e9, mean)
	}
	is(t, "logit", shiftLogit(0.2, math.Log(4)), 0.5)
	for x, want := range map[float64]float64{-1: 1e-3, 0: 1e-3, 0.4: 0.4, 1: 1 - 1e-3} {
		is(t, "share", clampShare(x), want)
	}
}

// The two models before the reference are in order of cost, each pair appears once, and both cost
// less than the reference.
func TestPairCascades(t *testing.T) {
	params, strategies, err := pairCascades([]float64{3, 1, 2, 1, 3, 9}, 0)
	if err != nil || len(params) != len(strategies) {
		t.Fatal(err)
	}
	var got []string
	for _, p := range params {
		got = append(got, fmt.Sprint(p.Order))
	}
	slices.Sort(got)
	if all := strings.Join(got, " "); all != "[1 2 0] [1 3 0] [3 2 0]" {
		t.Error(all)
	}
	for _, c := range []struct {
		e    PairError
		want string
	}{
		{PairError{Reference: "large"}, "no two models are cheaper than large: "},
		{PairError{"large", 3, 200, 0.62}, "of 3 pairs before large none gives its answer on 90 % of 200 steps at a lower cost; the best comes to 62 %: "},
	} {
		if got := c.e.Error(); !strings.HasPrefix(got, strings.Replace(c.want, "90 %", fmt.Sprintf("%.0f %%", 100*pairShare), 1)) {
			t.Error(got)
		}
	}
}

// A ladder pays for each answer until one is not rejected, and for its verdict except for the last model's.
func TestClimbLadder(t *testing.T) {
	table := qualitiesOf([]float64{1, 0, 0}, []float64{0, 1, 0}, []float64{1, 1, 0})
	table.CostUSD = [][]float64{{1, 2, 4}, {1, 2, 4}, {1, 2, 4}}
	judged := *table
	judged.CostUSD = [][]float64{{1.5, 2.5, 4.5}, {1.5, 2.5, 4.5}, {1.5, 2.5, 4.5}}
	table.Verdicts = map[string][][]float64{"one": {{1, 0, 1}, {0, 0.5, 1}, {0, 0, 0}}, "two": {{0.5, 1, 1}, {1, 1, 1}, {1, 1, 1}}}
	got := climbLadder(table, &judged, []int{0, 1, 2})
	if want := []float64{1.5, 4, 8}; !slices.Equal(got.cost, want) || !slices.Equal(got.quality, []float64{1, 1, 0}) {
		t.Errorf("costs %v, want %v; quality %v", got.cost, want, got.quality)
	}
	if alone := climbLadder(table, &judged, []int{1}); !slices.Equal(alone.cost, []float64{2, 2, 2}) || !slices.Equal(alone.quality, []float64{0, 1, 0}) {
		t.Errorf("%v, %v", alone.cost, alone.quality)
	}
	at := func(usd, quality float64) Point { return Point{CostUSD: usd, Quality: quality} }
	var costs []float64
	for _, p := range hull([]Point{at(4, 0.9), at(1, 0.1), at(2, 0.2), at(3, 0.8), at(3.5, 0.85), at(2.5, 0.5), at(5, 0.7)}) {
		costs = append(costs, p.CostUSD)
	}
	if !slices.Equal(costs, []float64{1, 3, 4}) {
		t.Errorf("the hull has the points of costs %v", costs)
	}
}

// Curves are compared by the area under them, from the cheapest model's cost to the dearest's.
func TestArea(t *testing.T) {
	table := qualitiesOf([]float64{0, 1}, []float64{1, 1})
	table.CostUSD = [][]float64{{1, 3}, {1, 3}} // of qualities 0.5 and 1
	at := func(usd, quality float64) Point { return Point{CostUSD: usd, Quality: quality} }
	for _, c := range []struct {
		name   string
		points []Point
		want   float64
	}{
		{"nothing", nil, 0.5},
		{"both models", []Point{at(3, 1), at(1, 0.5)}, 0.75},
		{"up to the middle", []Point{at(2, 0.9)}, (0.7 + 0.9) / 2},
		{"cheaper than any", []Point{at(0.5, 0.8), at(3, 0.8)}, 0.8},
		{"dearer than any", []Point{at(1, 0.5), at(5, 0.9)}, (0.5 + 0.7) / 2},
		{"more beyond", []Point{at(1, 0.5), at(5, 0.9), at(6, 1)}, (0.5 + 0.7) / 2},
	} {
		is(t, c.name, area(table, c.points), c.want)
	}
	table.CostUSD = [][]float64{{1, 1}, {1, 1}}
	if got := area(table, nil); !math.IsNaN(got) {
		t.Errorf("models of one cost have the area %v", got)
	}
}

// The orders to try are all models by cost, and those that are better than all cheaper ones.
func TestCandidates(t *testing.T) {
	table := qualitiesOf([]float64{1, 0, 0}, []float64{1, 1, 0}, []float64{0, 0, 0})
	table.CostUSD = [][]float64{{1, 3, 2}, {1, 3, 2}, {1, 3, 2}}
	if got := fmt.Sprint(orders(cascade.Params{}, table), orders(cascade.Params{Order: []int{2, 0}}, table)); got != "[[0 1] [0 2 1]] [[2 0]]" {
		t.Error(got)
	}
	for _, c := range []struct {
		name  string
		fixed cascade.Params
		count int
		usual int // the place of the one with the estimators' own deviations, -1 for none
	}{
		{cascade.NameRoute, cascade.Params{Scale: 1}, 1, 0},
		{cascade.NameThreshold, cascade.Params{}, 2 + 3, -1},
		{cascade.NameThreshold, cascade.Params{MaxDepth: 2}, 2 + 2, -1},
		{cascade.NameThreshold, cascade.Params{MaxDepth: 9}, 2 + 3, -1},
		{cascade.NameCascade, cascade.Params{}, 2 * 7, 0},
		{cascade.NameIndex, cascade.Params{}, 7 + 2, 0},
		{cascade.NameIndex, cascade.Params{MaxDepth: 2}, 7 + 1, 0},
		{cascade.NameIndex, cascade.Params{MaxDepth: 1}, 7, 0},
	} {
		list, err := candidates(c.name, c.fixed, table)
		if err != nil {
			t.Fatal(err)
		}
		usual := slices.IndexFunc(list, func(c *candidate) bool { return c.isDefault })
		if len(list) != c.count || usual != c.usual {
			t.Errorf("%s %+v: %d candidates, the usual one at %d; want %d, %d", c.name, c.fixed, len(list), usual, c.count, c.usual)
		}
		for _, one := range list {
			if p := one.params; p.NoExpect != (p.Scale == 0) && c.name != cascade.NameRoute && c.name != cascade.NameThreshold || c.fixed.MaxDepth > 0 && p.MaxDepth > c.fixed.MaxDepth {
				t.Errorf("%s %+v: %+v", c.name, c.fixed, p)
			}
		}
	}
	// Points beyond the cheapest of the best quality are dropped.
	c := &candidate{}
	for _, p := range []Point{{Value: 0, CostUSD: 9, Quality: 0.5}, {Value: 1, CostUSD: 3, Quality: 0.5}, {Value: 2, CostUSD: 1, Quality: 0.25}} {
		r := newReplayRow(4)
		for q := range r.cost {
			r.cost[q], r.quality[q] = p.CostUSD, p.Quality
		}
		c.values, c.results = append(c.values, p.Value), append(c.results, r)
	}
	if c = c.trim(c.points()); !slices.Equal(c.values, []float64{1, 2}) || c.results[0].cost[0] != 3 || len(c.results) != 2 {
		t.Errorf("%v are left", c.values)
	}
}

// Estimates are binned by tenths, and an estimate of 1 belongs to the last.
func TestReliability(t *testing.T) {
	r := &Reliability{}
	for _, x := range []struct{ estimate, quality, mean float64 }{{0, 0, 0.5}, {0.05, 1, 0.5}, {0.3, 0, 0.4}, {1, 1, 0.5}, {-0.1, 0, 0.5}, {0.5, math.NaN(), 0.5}} {
		r.add(x.estimate, x.quality, x.mean)
	}
	r.finish()
	is(t, "Brier", r.Brier, (0+0.95*0.95+0.09+0+0.01)/5)
	is(t, "reference", r.Reference, (4*0.25+0.16)/5)
	for i, want := range map[int]Bin{0: {3, -0.05 / 3, 1.0 / 3}, 3: {1, 0.3, 0}, 9: {1, 1, 1}, 5: {}} {
		if got := r.Bins[i]; got.Count != want.Count || math.Abs(got.Estimate-want.Estimate) > 1e-12 || math.Abs(got.Quality-want.Quality) > 1e-12 {
			t.Errorf("bin %d: %+v, want %+v", i, got, want)
		}
	}
	empty := &Reliability{}
	if empty.finish(); empty.Brier != 0 || empty.Reference != 0 {
		t.Errorf("of nothing: %+v", empty)
	}
}

// For qualities between 0 and 1, the sampled tail agrees with an enumeration of all draws.
func TestDealtTail(t *testing.T) {
	all := []float64{0.1, 0.9, 0.3, 0.7, 0.5, 0.2, 0.8, 0.6, 0.4, 1, 0, 0.95}
	for _, c := range []struct {
		n           int
		sum, within float64
	}{{6, 4.2, 0.03}, {6, 3, 0.03}, {4, 3.2, 0.03}, {8, 4, 0.03}, {6, 4.8, 0.01}} {
		reached, ways := 0, 0
		for set := range 1 << len(all) {
			dealt, taken := 0.0, 0
			for i, v := range all {
				if set>>i&1 == 1 {
					dealt, taken = dealt+v, taken+1
				}
			}
			if taken == c.n {
				ways++
				if dealt >= c.sum-1e-9 {
					reached++
				}
			}
		}
		if got, want := dealtTail(all, c.n, c.sum), float64(reached)/float64(ways); math.Abs(got-want) > c.within {
			t.Errorf("%d with a sum of %v: %v, want %v", c.n, c.sum, got, want)
		}
	}
	if got := dealtTail([]float64{1, 1, 1}, 2, 2); got != 1 {
		t.Errorf("all alike: %v", got)
	}
	// As many are set to the least as it takes.
	values := []float64{0.2, 0.6, 1}
	got, sum := valuesBelow(values, 0, 0.5, 6), 0.0
	for _, v := range got {
		sum += v
	}
	if len(got) != 6 || sum > 3 || sum+1 <= 3 {
		t.Errorf("%v sums to %v", got, sum)
	}
	if got := valuesBelow(values, 0, 0.7, 6); got != nil {
		t.Errorf("%v is below the floor by itself", values)
	}
	if got := valuesBelow(values, -1, 0.6, 3); !slices.Contains(got, -1) {
		t.Errorf("%v, with values from -1 up", got)
	}
}

// With known rates, posteriors of verdicts follow Bayes' rule over the ease of a query.
func TestPosteriorsOfVerdicts(t *testing.T) {
	nan := math.NaN()
	rates := cascade.Rates{FalsePass: 0.2, FalseReject: 0.1}
	table := qualitiesOf([]float64{1, 0, 1, 1, nan}, []float64{0, 0, 1, nan, 1})
	v := fitVerdicts(table, &rates)
	sum := 0.0
	for k, z := range v.node {
		sum += math.Exp(v.logPrior[k])
		if want := easeSpan * (2*float64(k)/(easeNodes-1) - 1); math.Abs(z-want) > 1e-12 || math.Abs(v.logPrior[k]-v.logPrior[easeNodes-1-k]) > 1e-12 {
			t.Errorf("node %d is %v of %v", k, z, v.logPrior[k])
		}
	}
	is(t, "prior", sum, 1)
	is(t, "from node to node", v.logPrior[1]-v.logPrior[0], (v.node[0]*v.node[0]-v.node[1]*v.node[1])/2)
	quality, verdicts := v.posteriors(table)
	for q, row := range table.Quality {
		var mass float64
		right := make([]float64, 2)
		for k, z := range v.node {
			joint, isRight := math.Exp(v.logPrior[k]), make([]float64, 2)
			for m, said := range row {
				p := 1 / (1 + math.Exp(-v.slope*z-v.level[m]))
				a, b := p, 1-p
				if !math.IsNaN(said) {
					ifRight, ifWrong := rates.Likelihoods(said == 1)
					a, b = a*ifRight, b*ifWrong
				}
				joint, isRight[m] = joint*(a+b), a/(a+b)
			}
			mass += joint
			for m := range right {
				right[m] += joint * isRight[m]
			}
		}
		for m, said := range row {
			if math.IsNaN(said) {
				if !math.IsNaN(quality[q][m]) || !math.IsNaN(verdicts[q][m]) {
					t.Errorf("nothing was said of %d, %d: %v", q, m, quality[q][m])
				}
				continue
			}
			if got, want := quality[q][m], right[m]/mass; math.Abs(got-want) > 1e-9 || verdicts[q][m] != said {
				t.Errorf("%d, %d: %v, want %v", q, m, got, want)
			}
		}
	}
}
