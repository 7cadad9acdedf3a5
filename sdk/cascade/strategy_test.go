package cascade

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
)

func newStrategy(t testing.TB, name string, p Params) Strategy {
	t.Helper()
	s, err := New(name, p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNewKnowsItsNamesAndNoOthers(t *testing.T) {
	for _, name := range Names() {
		s := newStrategy(t, name, Params{})
		if _, ok := s.(Tunable); !ok {
			t.Errorf("%s is not Tunable", name)
		}
		if _, ok := s.(Explainer); !ok {
			t.Errorf("%s is not an Explainer", name)
		}
	}
	s, err := New("oracle", Params{})
	if !errors.Is(err, errUnknownStrategy) || s != nil || !strings.Contains(err.Error(), "oracle") {
		t.Errorf("unknown strategy: %v %v", s, err)
	}
}

func TestNewRefusesBadParameters(t *testing.T) {
	nan := math.NaN()
	for _, p := range []Params{
		{Lambdas: []float64{-1}}, {Lambdas: []float64{nan}}, {Lambdas: []float64{math.Inf(1)}},
		{Gamma: -0.1}, {Gamma: 1.1}, {Gamma: nan}, {MaxDepth: -1},
		{Scale: -1}, {Scale: 2}, {Scale: nan}, {Scale: 0.5, NoExpect: true},
		{Order: []int{0, -1}}, {Order: []int{1, 2, 1}}, {Answer: 7}, {Thresholds: []float64{nan}},
	} {
		for _, name := range Names() {
			if s, err := New(name, p); err == nil && !(name == NameCascadeRouteNoExpect && (p.NoExpect || p.Scale != 0)) || s != nil && err != nil {
				t.Errorf("%s accepts %+v", name, p)
			}
		}
	}
	_, err := newRoute(Params{Lambdas: []float64{-1}, Gamma: 2})
	if err == nil || !strings.Contains(err.Error(), "lambda 0") || !strings.Contains(err.Error(), "gamma 2") {
		t.Errorf("not all faults are reported: %v", err)
	}
	for _, name := range Names() {
		s := newStrategy(t, name, Params{}).(Tunable)
		if _, err := s.Tune([]float64{nan}, 0); err == nil {
			t.Errorf("%s is tuned to NaN", name)
		}
		if _, err := s.Tune(nil, 2); err == nil {
			t.Errorf("%s is tuned to gamma 2", name)
		}
	}
}

func TestTuneIsNew(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 1))
	for range 200 {
		s := randomState(rng, 1+rng.IntN(8))
		values, gamma := []float64{rng.Float64(), 0.3 * rng.Float64()}, rng.Float64()
		p := Params{MaxDepth: rng.IntN(5), Scale: rng.Float64()}
		for _, name := range Names() {
			tuned, err := newStrategy(t, name, p).(Tunable).Tune(values, gamma)
			if err != nil {
				t.Fatal(err)
			}
			q := p
			q.Lambdas, q.Thresholds, q.Gamma = values, values, gamma
			if a, b := tuned.Decide(s), newStrategy(t, name, q).Decide(s); a != b {
				t.Errorf("%s: tuned decides %+v, new %+v", name, a, b)
			}
		}
	}
}

func TestValidateReportsEveryFault(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	s := &State{
		Beliefs: []Belief{{Mean: nan}, {Mean: 0.5, StdDev: -1}, {Mean: 1.5, Bernoulli: true}, {Mean: 0.5}, {Mean: 0.5}, {Mean: inf}, {Mean: nan}, {Mean: nan}},
		Costs:   []float64{0, 0, 0, -1, nan, 0, nan, nan},
		Ran:     []int{9, 3, 3, 6}, Coin: 1,
		Infeasible: []bool{7: true},
	}
	err := s.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"coin 1", "model 0: mean quality NaN", "model 1: standard deviation -1", "model 2: probability 1.5",
		"model 9 ran, of 8", "model 3 ran twice", "model 4: cost NaN", "model 5: mean quality +Inf", "model 6: post-hoc quality NaN"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing from:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "model 7") || strings.Contains(err.Error(), "model 3: cost") {
		t.Errorf("reports what no strategy reads:\n%v", err)
	}
	for _, s := range []*State{{}, {Beliefs: make([]Belief, 2), Costs: make([]float64, 1)}, {Beliefs: make([]Belief, 1), Costs: make([]float64, 1), Infeasible: make([]bool, 2)}} {
		if s.Validate() == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
	rng := rand.New(rand.NewPCG(21, 2))
	for range 100 {
		if err := randomState(rng, 5).Validate(); err != nil {
			t.Error(err)
		}
	}
}

// Values at the ends of their ranges are valid, and values just beyond are not.
func TestValidateAtTheLimits(t *testing.T) {
	judge := Rates{0.5, 0.49}
	for _, c := range []struct {
		b     Belief
		valid bool
	}{
		{Belief{Mean: 0, Bernoulli: true, Judge: judge}, true}, {Belief{Mean: 1, Bernoulli: true}, true}, {Belief{Mean: -0.01, Bernoulli: true}, false}, {Belief{Mean: 1.01, Bernoulli: true}, false},
		{Belief{Mean: 0.5, Bernoulli: true, Judge: Rates{0.5, 0.5}}, false}, {Belief{Mean: 0.5, Bernoulli: true, Judge: Rates{-0.1, 0}}, false}, {Belief{Mean: 0.5, Bernoulli: true, Judge: Rates{0, -0.1}}, false},
		{Belief{Mean: 0.5, Bernoulli: true, Shared: 1}, true}, {Belief{Mean: 0.5, Bernoulli: true, Shared: 1.01}, false}, {Belief{Mean: 0.5, Shared: -0.01}, false},
		{Belief{Mean: -3, StdDev: 0}, true}, {Belief{Mean: 3, StdDev: -0.01}, false}, {Belief{Mean: 0.5, StdDev: math.Inf(1)}, false}, {Belief{Mean: math.Inf(1), Unseen: true}, false}, {Belief{Mean: 0.5, StdDev: -1, Unseen: true}, true},
		{Belief{Mean: 0.5, Look: Look{StdDev: 1}}, true}, {Belief{Mean: 0.5, Look: Look{StdDev: -1}}, false}, {Belief{Mean: 0.5, Look: Look{CostUSD: -1}}, false}, {Belief{Mean: 0.5, Look: Look{Bernoulli: true, Judge: Rates{1, 1}}}, false},
	} {
		if err := (&State{Beliefs: []Belief{c.b}, Costs: []float64{0}}).Validate(); (err == nil) != c.valid {
			t.Errorf("%+v: %v", c.b, err)
		}
	}
	for coin, valid := range map[float64]bool{0: true, 0.999: true, 1: false, -0.001: false} {
		if err := (&State{Beliefs: make([]Belief, 1), Costs: []float64{1}, Coin: coin}).Validate(); (err == nil) != valid {
			t.Errorf("coin %v: %v", coin, err)
		}
	}
}

func TestDecideOnStatesThatDisagreePanics(t *testing.T) {
	for _, name := range Names() {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s decides on 2 beliefs and 1 cost", name)
				}
			}()
			newStrategy(t, name, Params{}).Decide(&State{Beliefs: make([]Belief, 2), Costs: make([]float64, 1)})
		}()
	}
}

// checkDecision checks what must hold for every strategy and state.
func checkDecision(t *testing.T, name string, st Strategy, s *State, maxDepth int) Decision {
	t.Helper()
	before := State{slices.Clone(s.Beliefs), slices.Clone(s.Costs), slices.Clone(s.Ran), slices.Clone(s.Infeasible), s.Coin}
	d := st.Decide(s)
	if !reflect.DeepEqual(before, *s) {
		t.Fatalf("%s changes the state", name)
	}
	if again := st.Decide(s); again != d {
		t.Fatalf("%s decides %+v, then %+v", name, d, again)
	}
	best, _ := s.best()
	switch {
	case d.Answer != best:
		t.Fatalf("%s answers %d, best is %d: %+v", name, d.Answer, best, s)
	case d.Run == Stop:
		feasible := false
		for i := range s.Beliefs {
			feasible = feasible || s.open(i)
		}
		if len(s.Ran) == 0 && feasible {
			t.Fatalf("%s runs nothing at all: %+v", name, s)
		}
	case d.Run < 0 || d.Run >= len(s.Beliefs) || !s.open(d.Run):
		t.Fatalf("%s runs %d: %+v", name, d.Run, s)
	case maxDepth > 0 && len(s.Ran) >= maxDepth:
		t.Fatalf("%s runs a model beyond depth %d", name, maxDepth)
	}
	return d
}

func TestDecisionsAreSound(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 3))
	for range rounds(1500) {
		s := randomState(rng, 1+rng.IntN(9))
		p := Params{Lambdas: []float64{rng.Float64(), 0.1 * rng.Float64()}, Gamma: rng.Float64(), MaxDepth: rng.IntN(5)}
		for _, name := range Names() {
			checkDecision(t, name, newStrategy(t, name, p), s, p.MaxDepth)
		}
	}
}

// The unit of cost does not matter, and neither does the order in which the models
// are listed.
func TestDecisionsFollowUnitsAndNames(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 4))
	for range rounds(500) {
		n := 1 + rng.IntN(10)
		s := uniformState(rng, n)
		lambda := rng.Float64()
		scaled := *s
		scaled.Costs = make([]float64, n)
		for i, c := range s.Costs {
			scaled.Costs[i] = 1024 * c
		}
		perm := rng.Perm(n)
		renamed := *s
		renamed.Beliefs, renamed.Costs = make([]Belief, n), make([]float64, n)
		for i, k := range perm {
			renamed.Beliefs[k], renamed.Costs[k] = s.Beliefs[i], s.Costs[i]
		}
		for _, name := range []string{NameRoute, NameCascadeRoute, NameCascadeRouteGreedy, NameCascadeRouteNoExpect, NameIndex} {
			d := newStrategy(t, name, Params{Lambdas: []float64{lambda}}).Decide(s)
			if got := newStrategy(t, name, Params{Lambdas: []float64{lambda / 1024}}).Decide(&scaled); got != d {
				t.Errorf("%s: costs 1024 times as large at lambda/1024: %+v, not %+v", name, got, d)
			}
			got := newStrategy(t, name, Params{Lambdas: []float64{lambda}}).Decide(&renamed)
			if want := perm[d.Run]; got.Run != want {
				t.Errorf("%s: renamed runs %d, want %d", name, got.Run, want)
			}
		}
	}
}

func TestGammaIsTheProbabilityOfTheCheapest(t *testing.T) {
	// Both are worth 0.3 at lambda 1; the pair is worth less.
	s := &State{Beliefs: []Belief{{Mean: 0.5}, {Mean: 0.4}}, Costs: []float64{0.2, 0.1}}
	rng := rand.New(rand.NewPCG(21, 5))
	const gamma, draws = 0.3, 20000
	for _, name := range []string{NameRoute, NameCascadeRoute, NameIndex} {
		st := newStrategy(t, name, Params{Lambdas: []float64{1}, Gamma: gamma})
		cheapest := 0
		for range draws {
			s.Coin = rng.Float64()
			if st.Decide(s).Run == 1 {
				cheapest++
			}
		}
		if got := float64(cheapest) / draws; math.Abs(got-gamma) > 4*math.Sqrt(gamma*(1-gamma)/draws) {
			t.Errorf("%s follows the cheapest with frequency %v, want %v", name, got, gamma)
		}
	}
	// Stopping is the cheapest of all: a model exactly worth its price.
	s = &State{Beliefs: []Belief{{Mean: 0.5}, {Mean: 0.6}}, Costs: []float64{0, 0.1}, Ran: []int{0}}
	for _, name := range []string{NameCascade, NameCascadeRoute, NameCascadeRouteGreedy, NameIndex} {
		for coin, want := range map[float64]int{0.2: Stop, 0.7: 1} {
			s.Coin = coin
			if got := newStrategy(t, name, Params{Lambdas: []float64{1}, Gamma: 0.5}).Decide(s).Run; got != want {
				t.Errorf("%s with coin %v runs %d, want %d", name, coin, got, want)
			}
		}
	}
}

// Of ties the most expensive is taken, unless the coin lies below gamma, which it never does if both are 0.
func TestTies(t *testing.T) {
	tied := []Belief{{Mean: 0.5}, {Mean: 0.4}}
	unseen := []Belief{{Mean: 0.5, Unseen: true}, {Mean: 0.4, Unseen: true}}
	for _, c := range []struct {
		coin, gamma float64
		want        int
	}{{0, 0, 0}, {0.25, 0.25, 0}, {0.25, 0.26, 1}, {0, 1, 1}} {
		for _, beliefs := range [][]Belief{tied, unseen} {
			for _, name := range []string{NameRoute, NameCascade, NameCascadeRoute, NameCascadeRouteGreedy, NameIndex} {
				if name == NameCascade && !beliefs[0].Unseen {
					continue // it follows its order
				}
				// At a lambda of 1 both are worth 0.3; with a hundred millionth less, the second one still is.
				for _, less := range []float64{0, 0.9e-8} {
					s := &State{Beliefs: beliefs, Costs: []float64{0.2, 0.1 + less}, Coin: c.coin}
					if got := newStrategy(t, name, Params{Lambdas: []float64{1}, Gamma: c.gamma}).Decide(s).Run; got != c.want {
						t.Errorf("%s with coin %v, gamma %v, %v less: runs %d, want %d", name, c.coin, c.gamma, less, got, c.want)
					}
				}
			}
		}
	}
}

// An answer that is exactly at its threshold ends the step if gamma is 0, and else with probability gamma.
func TestAnAnswerAtItsThreshold(t *testing.T) {
	for _, c := range []struct {
		mean, gamma, coin float64
		want              int
	}{
		{0.5, 0, 0.7, Stop}, {0.5, 0.5, 0.2, Stop}, {0.5, 0.5, 0.7, 1}, {0.5 + 2e-8, 0.5, 0.7, Stop}, {0.5 - 2e-8, 0, 0.7, 1}, {0.5 - 2e-8, 0.5, 0.2, 1},
	} {
		s := &State{Beliefs: []Belief{{Mean: c.mean}, {Mean: 0.4, StdDev: 0.1}}, Costs: []float64{1, 1}, Ran: []int{0}, Coin: c.coin}
		if got := newStrategy(t, NameThreshold, Params{Thresholds: []float64{0.5}, Gamma: c.gamma}).Decide(s).Run; got != c.want {
			t.Errorf("%+v: runs %d", c, got)
		}
	}
}

// With a depth limit the best models come first even if cost has no price.
func TestDepthLimitsFreeChoices(t *testing.T) {
	s := &State{Beliefs: []Belief{{Mean: 0.5}, {Mean: 0.6}, {Mean: 0.9}}, Costs: []float64{0.1, 0.2, 0.3}}
	for depth, want := range map[int]int{0: 0, 1: 2, 3: 0} {
		if got := newStrategy(t, NameCascadeRoute, Params{MaxDepth: depth}).Decide(s).Run; got != want {
			t.Errorf("depth %d: runs %d, want %d", depth, got, want)
		}
	}
}

func TestLambdasAreTakenByDepth(t *testing.T) {
	s := &State{Beliefs: []Belief{{Mean: 0.5}, {Mean: 0.6}, {Mean: 0.7}}, Costs: []float64{0.1, 0.2, 0.3}, Ran: []int{0}}
	for _, name := range []string{NameCascade, NameCascadeRoute, NameIndex} {
		for _, c := range []struct {
			lambdas []float64
			stops   bool
		}{{[]float64{0, 100}, true}, {[]float64{100, 0}, false}, {[]float64{100}, true}, {[]float64{0}, false}, {nil, false}} {
			if got := newStrategy(t, name, Params{Lambdas: c.lambdas}).Decide(s).Run == Stop; got != c.stops {
				t.Errorf("%s with lambdas %v: stops %v", name, c.lambdas, got)
			}
		}
	}
}

func TestOrderIsKept(t *testing.T) {
	s := &State{Beliefs: []Belief{{Mean: 0.9, StdDev: 0.1}, {Mean: 0.5, StdDev: 0.3}, {Mean: 0.4, StdDev: 0.3}}, Costs: []float64{0.5, 0.3, 0.1}}
	for _, name := range []string{NameThreshold, NameCascade} {
		st := newStrategy(t, name, Params{Order: []int{1, 0}, Thresholds: []float64{2}})
		if d := st.Decide(s); d.Run != 1 {
			t.Errorf("%s starts with %d, want 1", name, d.Run)
		}
		ran := *s
		ran.Ran = []int{1}
		if d := st.Decide(&ran); d.Run != 0 {
			t.Errorf("%s goes on with %d, want 0", name, d.Run)
		}
		ran.Ran = []int{1, 0}
		if d := st.Decide(&ran); d.Run != Stop {
			t.Errorf("%s runs %d, which is not listed", name, d.Run)
		}
		ran.Ran, ran.Infeasible = nil, []bool{1: true, 2: false}
		if d := st.Decide(&ran); d.Run != 0 {
			t.Errorf("%s does not pass over an infeasible model: %d", name, d.Run)
		}
	}
	// A forced order: the dear model comes first, and what lies before it is lost.
	st := newStrategy(t, NameCascadeRoute, Params{Order: []int{0, 1, 2}, Lambdas: []float64{0.01}})
	if d := st.Decide(s); d.Run != 0 {
		t.Errorf("forced order runs %d, want the first of the supermodel", d.Run)
	}
	ran := *s
	ran.Ran = []int{1}
	if d := st.Decide(&ran); d.Run == 0 {
		t.Error("forced order goes back")
	}
}

func TestAnswerRules(t *testing.T) {
	s := &State{Beliefs: []Belief{{Mean: 0.9}, {Mean: 0.2}}, Costs: []float64{1, 1}, Ran: []int{0, 1}}
	for _, name := range []string{NameThreshold, NameCascade} {
		for rule, want := range map[AnswerRule]int{Best: 0, Last: 1} {
			if d := newStrategy(t, name, Params{Answer: rule}).Decide(s); d.Answer != want || d.Run != Stop {
				t.Errorf("%s by rule %d: %+v, want answer %d", name, rule, d, want)
			}
		}
	}
}

func TestExtremeCosts(t *testing.T) {
	s := &State{Beliefs: []Belief{{Mean: 0.9, StdDev: 0.1}, {Mean: 0.5, StdDev: 0.1}}, Costs: []float64{math.MaxFloat64, 1e300}}
	three := &State{Beliefs: []Belief{{Mean: 0.9, StdDev: 0.1}, {Mean: 0.5, StdDev: 0.3}, {Mean: 0.4, StdDev: 0.5}}, Costs: []float64{1e300, 1e300, 1e300}}
	for _, name := range Names() {
		st := newStrategy(t, name, Params{Lambdas: []float64{math.MaxFloat64}, Gamma: 1})
		checkDecision(t, name, st, s, 0)
		checkDecision(t, name, st, three, 0)
		// However little there is to gain, it is worth nothing paid.
		free := &State{Beliefs: s.Beliefs, Costs: []float64{0, 0}, Ran: []int{0}}
		d := checkDecision(t, name, st, free, 0)
		if d.Run != 1 && name != NameRoute && name != NameThreshold && name != NameCascadeRouteNoExpect {
			t.Errorf("%s: a free model that could be better is not run", name)
		}
	}
}

func TestNodeLimitFallsBackAndSaysSo(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 6))
	approximate, worst, trials := 0, 0.0, rounds(400)
	for range trials {
		s := uniformState(rng, 11)
		for i := range s.Beliefs {
			s.Beliefs[i].StdDev = 0.4
		}
		p := Params{Lambdas: []float64{0.5 * rng.Float64()}, NodeLimit: 2}
		d := checkDecision(t, "limited", newStrategy(t, NameCascadeRoute, p), s, 0)
		if !d.Approximate {
			continue
		}
		approximate++
		tau, top := bruteForce(s, p.Lambdas[0], 1, 0)
		worth := negInf
		for set := range tau {
			if cheapestNew(s, set) == d.Run {
				worth = max(worth, tau[set])
			}
		}
		worst = max(worst, top-worth)
	}
	t.Logf("%d of %d hit the limit, the worst loses %.1e", approximate, trials, worst)
	if approximate < trials/20 {
		t.Errorf("only %d decisions hit the limit", approximate)
	}
	if worst > 1e-3 {
		t.Errorf("a fallback loses %v", worst)
	}
}

func TestConcurrentDecisionsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 8))
	states := make([]*State, 64)
	for i := range states {
		states[i] = randomState(rng, 1+rng.IntN(12))
	}
	for _, name := range Names() {
		st := newStrategy(t, name, Params{Lambdas: []float64{0.05}, MaxDepth: 4})
		want := make([]Decision, len(states))
		for i, s := range states {
			want[i] = st.Decide(s)
		}
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for i, s := range states {
					if d := st.Decide(s); d != want[i] {
						t.Errorf("%s: %+v, alone %+v", name, d, want[i])
					}
				}
			})
		}
		group.Wait()
	}
}

func TestDecideAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool drop what it holds")
	}
	rng := rand.New(rand.NewPCG(21, 9))
	for _, name := range Names() {
		if name == NameCascadeRouteSlow {
			continue
		}
		for _, hard := range []bool{false, true} {
			s := uniformState(rng, 24)
			if hard {
				s = hardState(rng, 24, false)
			}
			s.Ran = []int{3}
			st := newStrategy(t, name, Params{Lambdas: []float64{0.01}})
			st.Decide(s)
			if n := testing.AllocsPerRun(100, func() { st.Decide(s) }); n != 0 {
				t.Errorf("%s allocates %v times", name, n)
			}
		}
	}
}

// rounds returns all, or a tenth of it under -short.
func rounds(all int) int {
	if testing.Short() {
		return max(all/10, 1)
	}
	return all
}
