package cascade_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
)

func TestVerdictsAreEvidence(t *testing.T) {
	r := cascade.Rates{FalsePass: 0.2, FalseReject: 0.1}
	pass, passed, failed := r.Look(0.5)
	// Of 100 answers 45 right ones and 10 wrong ones pass, 5 right ones and 40 wrong ones fail.
	for _, c := range []struct{ got, want float64 }{{pass, 0.55}, {passed, 45.0 / 55}, {failed, 5.0 / 45}} {
		if math.Abs(c.got-c.want) > 1e-15 {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
	// The reservation value is a+ - price/pass and, where that is below a-, p - price.
	b := cascade.Belief{Mean: 0.5, Bernoulli: true, Judge: r}
	for price, want := range map[float64]float64{0.011: 45.0/55 - 0.02, 0.45: 0.05} {
		if got := cascade.ReservationValue(b, price); math.Abs(got-want) > 1e-12 {
			t.Errorf("reservation at %v: %v, want %v", price, got, want)
		}
	}
	for _, p := range []float64{0.1, 0.37, 0.9} {
		if got, want := cascade.ReservationValue(cascade.Belief{Mean: p, Bernoulli: true}, 0.05), 1-0.05/p; got != want {
			t.Errorf("a judge that is always right: %v, want %v", got, want)
		}
	}
	if both := r.And(cascade.Rates{FalsePass: 0.5, FalseReject: 0.2}); both.FalsePass != 0.1 || math.Abs(both.FalseReject-0.28) > 1e-15 {
		t.Errorf("two judges: %+v", both)
	}
	if (cascade.Rates{FalsePass: 0.6, FalseReject: 0.4}).Validate() == nil || r.Validate() != nil {
		t.Error("rates that say nothing are taken, or good ones are not")
	}
	if got := cascade.LearnRates(90, 9, 190, 0); math.Abs(got.FalsePass-0.105) > 1e-12 || math.Abs(got.FalseReject-0.0025) > 1e-12 {
		t.Errorf("learned %+v", got)
	}
}

// Every strategy values a further model by the information of a fallible verdict: if that is
// little, it does not run one that would be worth its price with a perfect judge.
func TestStrategiesWeighTheJudge(t *testing.T) {
	for _, name := range []string{cascade.NameIndex, cascade.NameCascade, cascade.NameCascadeRoute, cascade.NameCascadeRouteGreedy} {
		s, err := cascade.New(name, cascade.Params{Lambdas: []float64{1}, Gamma: 1})
		if err != nil {
			t.Fatal(err)
		}
		state := cascade.State{
			Beliefs: []cascade.Belief{{Mean: 0.6}, {Mean: 0.5, Bernoulli: true}},
			Costs:   []float64{0, 0.1}, Ran: []int{0},
		}
		if d := s.Decide(&state); d.Run != 1 {
			t.Errorf("%s with a judge that is always right: %+v", name, d)
		}
		state.Beliefs[1].Judge = cascade.Rates{FalsePass: 0.4, FalseReject: 0.4}
		if d := s.Decide(&state); d.Run != cascade.Stop || d.Answer != 0 {
			t.Errorf("%s with a judge that says little: %+v", name, d)
		}
		state.Beliefs[1].Judge, state.Beliefs[1].Shared = cascade.Rates{}, 0.9
		if d := s.Decide(&state); d.Run != cascade.Stop || d.Answer != 0 {
			t.Errorf("%s where a pass says nearly as much for the answer at hand: %+v", name, d)
		}
	}
}

// The gain of a verdict is the expected quality of the better answer with it, less that without it, over all four
// cases of an answer and its verdict.
func TestGainOfAVerdict(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for range 1000 {
		r, p, beside := cascade.Rates{FalsePass: 0.4 * rng.Float64(), FalseReject: 0.4 * rng.Float64()}, rng.Float64(), rng.Float64()
		want := -max(p, beside)
		for _, passed := range []bool{true, false} {
			right, wrong := r.Likelihoods(passed)
			// Whether to keep the answer or take the other can depend on the verdict only.
			want += max(p*right, (p*right+(1-p)*wrong)*beside)
		}
		if got := r.Gain(p, beside); math.Abs(got-want) > 1e-12 || got < -1e-12 {
			t.Fatalf("%+v on an answer of %v beside one of %v: %v, want %v", r, p, beside, got, want)
		}
	}
}

// A look is a verdict if it has error rates. Only index decides which to buy.
func TestWhatIsAVerdictAndWhoBuysIt(t *testing.T) {
	rates := cascade.Rates{FalsePass: 0.1}
	if l := cascade.LookOf(0.5, 0.25, nil); l != (cascade.Look{StdDev: 0.5, CostUSD: 0.25}) {
		t.Errorf("a number: %+v", l)
	}
	if l := cascade.LookOf(0.5, 0.25, &rates); l != (cascade.Look{StdDev: 0.5, CostUSD: 0.25, Bernoulli: true, Judge: rates}) {
		t.Errorf("a verdict: %+v", l)
	}
	for _, name := range cascade.Names() {
		s, err := cascade.New(name, cascade.Params{})
		if err != nil || cascade.Buys(s) != (name == cascade.NameIndex) {
			t.Errorf("%s buys: %v, %v", name, cascade.Buys(s), err)
		}
	}
}
