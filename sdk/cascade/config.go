package cascade

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// AnswerRule says which answer a cascade returns.
type AnswerRule int

// The rules for the answer.
const (
	// Best returns the answer with the highest post-hoc estimate.
	Best AnswerRule = iota
	// Last returns the answer of the model that ran last, and values a supermodel
	// by its last model, like cascades that never go back to an earlier answer.
	Last
)

// Params holds the parameters of all strategies; each reads its own. The zero value is a sensible
// default for all.
type Params struct {
	// Lambdas are the prices of one unit of cost in quality, one for each depth
	// (number of models that have run); the last one repeats. Nil means a price of 0:
	// quality at any cost.
	Lambdas []float64
	// Gamma in [0, 1] is the probability of the cheapest of tied optima; see
	// [State.Coin].
	Gamma float64
	// MaxDepth is the greatest number of models run in one step; 0 is no limit.
	MaxDepth int
	// Scale in (0, 1] multiplies the predictive deviations: below 1, further models are expected to gain
	// less. If the errors of estimates are correlated, E[max] is overstated, and a fitted scale corrects
	// part of that. 0 means 1; for a scale of 0 set NoExpect.
	Scale float64
	// NoExpect treats every estimate as certain: Scale 0.
	NoExpect bool
	// Order is the order in which the models run. Nil means 0, 1, 2, ... for cascade and
	// threshold, and any order for cascade_route. A model that is not listed never runs.
	Order []int
	// Thresholds are the post-hoc estimates at which the threshold strategy stops, one for each depth from
	// the first model on; the last one repeats. Nil means a threshold of 0.
	Thresholds []float64
	// Answer says which answer a cascade or threshold returns.
	Answer AnswerRule
	// NodeLimit is the number of supermodels that the search of cascade_route may evaluate. 0 means
	// 50,000, and a negative number no limit.
	NodeLimit int
}

// Strategies by name, as in policies, profiles and on the command line.
const (
	NameRoute                = "route"
	NameThreshold            = "threshold"
	NameCascade              = "cascade"
	NameCascadeRoute         = "cascade_route"
	NameCascadeRouteSlow     = "cascade_route_slow"
	NameCascadeRouteGreedy   = "cascade_route_greedy"
	NameCascadeRouteNoExpect = "cascade_route_no_expect"
	NameIndex                = "index"
)

// Names returns the names that [New] knows.
func Names() []string {
	return []string{
		NameRoute, NameThreshold, NameCascade, NameCascadeRoute,
		NameCascadeRouteSlow, NameCascadeRouteGreedy, NameCascadeRouteNoExpect, NameIndex,
	}
}

// errUnknownStrategy is what New's error wraps for a name that is not in [Names].
var errUnknownStrategy = errors.New("unknown strategy")

// New returns the strategy with the given name.
func New(name string, p Params) (Strategy, error) {
	switch name {
	case NameRoute:
		return wrap(newRoute(p))
	case NameThreshold:
		return wrap(newThreshold(p))
	case NameCascade:
		return wrap(newCascade(p))
	case NameCascadeRoute:
		return wrap(newCascadeRoute(p, exactSearch))
	case NameCascadeRouteSlow:
		return wrap(newCascadeRoute(p, slowSearch))
	case NameCascadeRouteGreedy:
		return wrap(newCascadeRoute(p, greedySearch))
	case NameCascadeRouteNoExpect:
		p.Scale, p.NoExpect = 0, true
		return wrap(newCascadeRoute(p, exactSearch))
	case NameIndex:
		return wrap(newIndex(p))
	}
	return nil, fmt.Errorf("cascade: %w %q", errUnknownStrategy, name)
}

// wrap returns s as a Strategy, which is nil if there is an error.
func wrap[S Strategy](s S, err error) (Strategy, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Tunable is a strategy that can be copied with other values of its main parameter: the lambdas, or for
// threshold the thresholds. This is cheap, so a sweep over hundreds of values hardly validates or
// allocates. Every strategy of this package is Tunable.
type Tunable interface {
	Strategy
	// Tune returns the strategy with these values and this gamma.
	Tune(values []float64, gamma float64) (Strategy, error)
}

// common is what the strategies share: their name and their parameters, with the scale resolved.
type common struct {
	name   string
	params Params
}

// newCommon returns an error that lists every invalid parameter, read or not.
func newCommon(name string, p Params) (common, error) {
	var f faults
	for i, l := range p.Lambdas {
		f.checkf(isAmount(l), "lambda %d is %v, want a finite number from 0 up", i, l)
	}
	f.checkf(isShare(p.Gamma), "gamma %v lies outside [0, 1]", p.Gamma)
	f.checkf(p.MaxDepth >= 0, "max depth %d is negative", p.MaxDepth)
	f.checkf(isShare(p.Scale), "scale %v lies outside [0, 1]", p.Scale)
	f.checkf(!p.NoExpect || p.Scale == 0, "scale %v together with no-expect", p.Scale)
	for i, v := range p.Order {
		f.checkf(v >= 0, "order lists model %d", v)
		f.checkf(!slices.Contains(p.Order[:i], v), "order lists model %d twice", v)
	}
	f.checkf(p.Answer == Best || p.Answer == Last, "answer rule %d", p.Answer)
	for i, t := range p.Thresholds {
		f.checkf(!math.IsNaN(t), "threshold %d is not a number", i)
	}
	if p.Scale == 0 && !p.NoExpect {
		p.Scale = 1
	}
	p.Lambdas, p.Thresholds, p.Order = slices.Clone(p.Lambdas), slices.Clone(p.Thresholds), slices.Clone(p.Order)
	return common{name, p}, errors.Join(f...)
}

type faults []error

func (f *faults) checkf(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf("cascade: "+format, args...))
	}
}

// tune sets the main parameter and gamma.
func (c *common) tune(values []float64, gamma float64) error {
	t, err := newCommon(c.name, Params{Lambdas: values, Gamma: gamma})
	c.params.Lambdas, c.params.Gamma = t.params.Lambdas, gamma
	return err
}

func (c *common) lambda(depth int) float64 { return at(c.params.Lambdas, depth) }

// at returns values[i]; the last value repeats, and no values mean 0.
func at(values []float64, i int) float64 {
	if len(values) == 0 {
		return 0
	}
	return values[min(i, len(values)-1)]
}

// DepthReached reports whether the limit on models per step is reached.
func (c *common) DepthReached(s *State) bool {
	return c.params.MaxDepth > 0 && len(s.Ran) >= c.params.MaxDepth
}

// room returns how many more models the depth limit allows.
func (c *common) room(s *State) int {
	if c.params.MaxDepth == 0 {
		return len(s.Beliefs)
	}
	return c.params.MaxDepth - len(s.Ran)
}

// cheap reports whether this step takes the cheapest of tied optima.
func (c *common) cheap(s *State) bool { return s.Coin < c.params.Gamma }

// open reports whether model i is feasible and has not run.
func (s *State) open(i int) bool {
	return (s.Infeasible == nil || !s.Infeasible[i]) && !slices.Contains(s.Ran, i)
}

// cannotImprove reports whether running model i cannot improve on the floor: nothing will judge
// its answer, and its mean is no higher.
func (s *State) cannotImprove(i int, floor float64) bool {
	return s.Beliefs[i].Unseen && s.Beliefs[i].Mean <= floor
}

// best returns the model with the highest post-hoc estimate among those that have run,
// and that estimate; None and -Inf before any has run. Of equals it takes the earliest,
// but of wrong answers the last, as a step does.
func (s *State) best() (int, float64) {
	answer, v := None, negInf
	for _, i := range s.Ran {
		if q := s.Beliefs[i].Mean; answer == None || q > v || q == v && q <= 0 {
			answer, v = i, q
		}
	}
	return answer, v
}

func (s *State) answer(rule AnswerRule) int {
	if rule == Last && len(s.Ran) > 0 {
		return s.Ran[len(s.Ran)-1]
	}
	a, _ := s.best()
	return a
}

// price returns lambda times a cost, kept finite.
func price(lambda, cost float64) float64 { return min(lambda*cost, 1e300) }
