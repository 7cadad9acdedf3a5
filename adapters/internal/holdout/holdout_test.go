package holdout_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/holdout"
	"github.com/stepfall/stepfall/sdk"
)

func TestAssign(t *testing.T) {
	drawn, moved := 0, 0
	const n = 20_000
	for i := range n {
		run := fmt.Sprint("run-", i)
		a := holdout.Assign(run, 1, 0.05)
		if a != holdout.Assign(run, 1, 0.05) {
			t.Fatal("the same run is drawn twice")
		}
		if a && !holdout.Assign(run, 1, 0.2) {
			t.Fatal("a run leaves the holdout when its share grows")
		}
		if a {
			drawn++
		}
		if a != holdout.Assign(run, 2, 0.05) {
			moved++
		}
	}
	// 1,000 expected, deviation 31; of two seeds about 1,900 differ.
	if drawn < 870 || drawn > 1130 || moved < 1600 || moved > 2200 {
		t.Errorf("%d of %d runs are drawn, %d otherwise with another seed", drawn, n, moved)
	}
	if holdout.Assign("x", 0, 0) || !holdout.Assign("x", 0, 1) {
		t.Error("shares of 0 and 1 are not nobody and everybody")
	}
}

// The account agrees with a count by hand.
func TestAccount(t *testing.T) {
	var a holdout.Account
	ctx := context.Background()
	var base, policy []float64
	for i := range 100 {
		baseline := i%2 == 0
		run := fmt.Sprint(i)
		cost := 0.0
		for step := range 1 + i%3 {
			usd := float64(1+i+step) / 100
			cost += usd
			a.Record(ctx, &sdk.Trace{Run: run, CostUSD: usd, Holdout: &sdk.Holdout{Share: 0.5, Baseline: baseline}})
		}
		if baseline {
			base = append(base, cost)
		} else {
			policy = append(policy, cost)
		}
		verdict := sdk.Passed
		if i%10 == 1 || i%10 == 2 {
			verdict = sdk.Failed
		}
		if i < 40 {
			a.Record(ctx, &sdk.Trace{Mode: sdk.ModeVerdict, Run: run, Verdict: &sdk.Verdict{Outcome: verdict}})
		}
	}
	// Nor do runs of which a cap refused a step, whenever it did.
	for _, steps := range [][]sdk.Trace{{{Stop: sdk.StopBudget}, {Chosen: "m", CostUSD: 5}}, {{Chosen: "m", CostUSD: 7}, {Stop: sdk.StopBudget}}} {
		for i := range steps {
			steps[i].Run, steps[i].Holdout = fmt.Sprint("refused", len(steps[0].Chosen)), &sdk.Holdout{Share: 0.5, Baseline: true}
			a.Record(ctx, &steps[i])
		}
		a.Record(ctx, &sdk.Trace{Mode: sdk.ModeVerdict, Run: steps[0].Run, Verdict: &sdk.Verdict{Outcome: sdk.Passed}})
	}
	// Nor does a run with a step that the baseline did not answer.
	for _, h := range []sdk.Holdout{{Share: 0.5, Baseline: true}, {Share: 0.5, Baseline: true, BaselineFailed: true}, {Share: 0.5, Baseline: true}} {
		a.Record(ctx, &sdk.Trace{Run: "unanswered", Chosen: "m", CostUSD: 3, Holdout: &h})
	}
	// None of these counts: no holdout, a fallback, a run that is not known. A second verdict
	// takes the place of the first, and one that is inconclusive takes it back.
	a.Record(ctx, &sdk.Trace{Run: "0", CostUSD: 100})
	a.Record(ctx, &sdk.Trace{Run: "0", CostUSD: 100, Holdout: &sdk.Holdout{Share: 0.5, Baseline: true, Fallback: true}})
	a.Record(ctx, &sdk.Trace{Mode: sdk.ModeVerdict, Run: "unknown", Verdict: &sdk.Verdict{Outcome: sdk.Failed}})
	a.Record(ctx, &sdk.Trace{Mode: sdk.ModeVerdict, Run: "3", Verdict: &sdk.Verdict{}})
	a.Record(ctx, &sdk.Trace{Mode: sdk.ModeVerdict, Run: "1", Verdict: &sdk.Verdict{Outcome: sdk.Passed}})

	sum := func(list []float64) (s, squares float64) {
		for _, x := range list {
			s, squares = s+x, squares+x*x
		}
		return s, squares
	}
	c := a.Compare()
	baseSum, baseSquares := sum(base)
	policySum, policySquares := sum(policy)
	for _, x := range [][2]float64{
		{c.Baseline.USD, baseSum}, {c.Baseline.Squares, baseSquares}, {c.Policy.USD, policySum}, {c.Policy.Squares, policySquares},
		{c.Saved.Estimate, 1 - policySum/baseSum},
		{c.Success.Estimate, 16.0/19 - 16.0/20},
	} {
		if math.Abs(x[0]-x[1]) > 1e-9 {
			t.Errorf("%v, by hand %v", x[0], x[1])
		}
	}
	if c.Baseline.Runs != 50 || c.Policy.Runs != 50 || c.Baseline.Judged != 20 || c.Policy.Judged != 19 || c.Dearer() || c.Worse() {
		t.Errorf("%+v", c)
	}
}

// The probability that any interval misses is within the promise, however often one looks.
func TestCoverage(t *testing.T) {
	trials := 100
	if os.Getenv("STEPFALL_ATTACKS") == "all" {
		trials = 400
	}
	// Two standard errors more than the twentieth that may miss.
	most := trials/20 + int(2*math.Sqrt(float64(trials)/20))
	rng := rand.New(rand.NewPCG(1, 2))
	misses := func(interval func(n int) holdout.Interval, runs int, truth func(n int) float64) bool {
		for n := 1; n <= runs; n++ {
			if i, x := interval(n), truth(n); i.Low > x || i.High < x {
				return true
			}
		}
		return false
	}
	for _, p := range []float64{0.5, 0.95} {
		missed := 0
		for range trials {
			right := 0
			if misses(func(n int) holdout.Interval {
				if rng.Float64() < p {
					right++
				}
				return holdout.Proportion(right, n, 0.05)
			}, 400, func(int) float64 { return p }) {
				missed++
			}
		}
		if missed > most {
			t.Errorf("proportion %v: missed in %d of %d", p, missed, trials)
		}
	}
	// Costs of runs have a long tail, and a few runs cost many times the others: the small arm of the
	// baseline may have met none of those.
	lognormal := func(sigma float64) func() float64 {
		return func() float64 { return math.Exp(sigma * rng.NormFloat64()) }
	}
	rare := func(share, times float64) func() float64 {
		return func() float64 {
			if rng.Float64() < share {
				return times * math.Exp(0.3*rng.NormFloat64())
			}
			return math.Exp(0.3 * rng.NormFloat64())
		}
	}
	for _, world := range []struct {
		name string
		cost func() float64
	}{
		{"deviation of the logarithm 0.3", lognormal(0.3)}, {"deviation of the logarithm 1.2", lognormal(1.2)},
		{"2 % of the runs cost 10 times the others", rare(0.02, 10)}, {"1 % of the runs cost 30 times the others", rare(0.01, 30)},
	} {
		missed := 0
		for range trials {
			var base, policy holdout.Arm
			if misses(func(int) holdout.Interval {
				x, arm := 0.6*world.cost(), &policy
				if rng.Float64() < 0.05 {
					x, arm = x/0.6, &base
				}
				arm.Runs, arm.USD, arm.Squares = arm.Runs+1, arm.USD+x, arm.Squares+x*x
				if c := holdout.Compare(base, policy); c.Saved != nil {
					return *c.Saved
				}
				return holdout.Interval{Low: math.Inf(-1), High: math.Inf(1)}
			}, 3000, func(int) float64 { return 0.4 }) {
				missed++
			}
		}
		if missed > most {
			t.Errorf("costs, %s: missed in %d of %d", world.name, missed, trials)
		}
	}
}

// A policy that costs more and is worse is detected within some hundred runs.
func TestHarmIsSeen(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var a holdout.Account
	ctx := context.Background()
	worse, dearer := 0, 0
	for i := range 4000 {
		run := fmt.Sprint(i)
		h := &sdk.Holdout{Share: 0.2, Baseline: holdout.Assign(run, 0, 0.2)}
		cost, right := 0.015*math.Exp(0.3*rng.NormFloat64()), rng.Float64() < 0.75
		if h.Baseline {
			cost, right = 0.01*math.Exp(0.3*rng.NormFloat64()), rng.Float64() < 0.95
		}
		verdict := sdk.Failed
		if right {
			verdict = sdk.Passed
		}
		a.Record(ctx, &sdk.Trace{Run: run, CostUSD: cost, Holdout: h})
		a.Record(ctx, &sdk.Trace{Mode: sdk.ModeVerdict, Run: run, Verdict: &sdk.Verdict{Outcome: verdict}})
		c := a.Compare()
		if c.Dearer() && dearer == 0 {
			dearer = i
		}
		if c.Worse() && worse == 0 {
			worse = i
		}
	}
	if dearer == 0 || dearer > 400 || worse == 0 || worse > 1500 {
		t.Errorf("seen to be dearer after %d runs, worse after %d", dearer, worse)
	}
}

func TestProportionAtTheEnds(t *testing.T) {
	for _, tt := range []struct{ right, n int }{{0, 0}, {0, 1}, {1, 1}, {0, 200}, {200, 200}, {7, 9}} {
		i := holdout.Proportion(tt.right, tt.n, 0.05)
		if i.Low < 0 || i.High > 1 || i.Low > i.High || tt.n > 0 && (i.Low > i.Estimate || i.High < i.Estimate) {
			t.Errorf("%d of %d: %+v", tt.right, tt.n, i)
		}
	}
	// By hand for 200 of 200: the mixture is 1/201, so that p^200 = alpha / 201.
	if got, want := holdout.Proportion(200, 200, 0.05).Low, math.Pow(0.05/201, 1.0/200); math.Abs(got-want) > 1e-9 {
		t.Errorf("%v, want %v", got, want)
	}
}
