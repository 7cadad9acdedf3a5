// Package cascade decides, at each turn of a step, which model to run next, or to
// stop with the best answer so far. It works on indexes and numbers only, and
// imports nothing but the standard library.
//
//	s, err := cascade.New("cascade_route", cascade.Params{Lambdas: []float64{20}})
//	...
//	for {
//		d := s.Decide(&state) // a microsecond
//		if d.Run == cascade.Stop {
//			return answers[d.Answer]
//		}
//		// call model d.Run, append it to state.Ran, update state.Beliefs
//	}
//
// # Beliefs
//
// A [State] lists the models. The [Belief] about a model that has not run is the
// predictive distribution of the estimate that it would get once it has run: normal,
// or Bernoulli if a verifier will judge the answer. For a model that has run it is
// the estimate itself, a number. Costs holds the predicted costs of the models that
// have not run. Lambda is the price of cost in quality: 20 means that a dollar must
// buy 20 units of quality, or a tenth of a cent 0.02.
//
// # The value of a set of models
//
// A supermodel is a set of models that run on one query; the best of their answers
// is returned. Its value is
//
//	tau(S) = E[max over S] - lambda·(cost of what has not run),
//
// where E[max] is the expected quality of the best answer. For independent estimates
// with distribution functions F_i, and v the best estimate so far,
//
//	E[max] = v + integral from v to Inf of (1 - F_1(x)···F_n(x)) dx:
//
// the integrand is the probability that something better than x turns up. See
// [ExpectedMax].
//
// E[max] is submodular: a model adds no more to a larger set than to a smaller one,
// since it counts only where all others fall short. So a model that is not worth its
// price in addition to some models is not worth it in addition to more.
//
// # The strategies
//
// [Route] runs one model, the one with the greatest mean - lambda·cost. [Threshold]
// follows an order and stops when the last estimate is high enough. [Cascade] follows
// an order and stops when tau of what has run exceeds that of all continuations.
// [CascadeRoute] chooses among all supermodels that contain what has run, and runs
// the cheapest model of the best; that is the method of Dekoninck, Baader and Vechev
// (ICML 2025), of which the others are special cases. [Index] goes beyond it: it runs
// the model with the greatest reservation value, which is optimal among all adaptive
// policies if estimates are independent (Weitzman 1979), whereas CascadeRoute plans
// as if it had to run the whole set.
//
// # Budgets, ties and gamma
//
// For a budget, the best random choice of one alternative for each query maximises
// mean quality under a constraint on mean cost: a linear programme with one
// constraint, whose dual variable is lambda. Its solution takes for each query an
// alternative with the greatest quality - lambda·cost; if several tie (within 1e-8),
// only their total cost over all queries is determined. So two choices suffice,
// always the cheapest of the tied and always the most expensive, mixed with
// probability gamma for the cheapest. [State].Coin, drawn once per step, says which
// one the step follows.
//
// Among ties of equal cost, the choice is deterministic but unspecified.
//
// # Cost of a decision
//
// A decision takes a microsecond or so and allocates nothing after the first; a
// strategy is safe for concurrent use. CascadeRoute searches exactly, at any number
// of models and any depth: reduction by dominance and threshold bounds, closed forms
// where they suffice, otherwise branch and bound on one quadrature, with a convex
// relaxation for many models. docs/design/0010-supermodel-search.md explains how and
// why it is exact. A node limit guards against cases not yet met in practice.
package cascade
