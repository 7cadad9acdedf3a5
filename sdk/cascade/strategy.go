package cascade

// Stop is the Decision.Run of a decision to stop.
const Stop = -1

// None is the Decision.Answer of a decision made before any model has run.
const None = -1

// A Belief is the estimate of one model's quality on this query.
//
// For a model that has not run it is the predictive distribution of its future post-hoc estimate:
// Normal(Mean, StdDev²), or, if Bernoulli is set (a verifier will judge it), the posterior after a
// pass or a fail; see [Rates.Look]. For a model that has run, Mean is its post-hoc estimate, and the
// other fields except Look are ignored.
type Belief struct {
	Mean   float64
	StdDev float64
	// Bernoulli says that a verifier will judge the answer, which is right with
	// probability Mean; StdDev is ignored. Judge is how often it errs.
	Bernoulli bool
	Judge     Rates
	// Shared is the share of a verdict's effect that also applies to the best answer so far, and therefore
	// gains nothing: the covariance of both being right divided by the variance of this one. Only for a
	// Bernoulli.
	Shared float64
	// Unseen says that nothing will judge the answer: its estimate will be Mean, and StdDev is ignored.
	// Such models are only routed to; no strategy plans to run another model after one.
	Unseen bool
	// Look is the look that can be bought at the model's answer: the next one if it has run, otherwise the
	// first one after it has run. With Bernoulli it is the verdict itself: a strategy that [Buys] pays its
	// price for it, and others get it for every answer.
	Look Look
}

// State is the state of one step: the models, by index, that have run and those that could still run.
// Strategies only read it.
type State struct {
	// Beliefs has one entry for each model.
	Beliefs []Belief
	// Costs has the predicted cost of each model in US dollars (or in any one unit, whose price is
	// lambda). The cost of a model that has run is spent and is not read.
	Costs []float64
	// Ran lists the models that have run, in order.
	Ran []int
	// Infeasible marks the models that must not be run; nil means none.
	Infeasible []bool
	// Coin is drawn once per step, uniform in [0, 1): below Gamma, the step
	// takes the cheapest of tied optima, otherwise the most expensive.
	Coin float64
}

// Decision says what to do next.
type Decision struct {
	// Run is the index of the model to run, or Stop.
	Run int
	// Answer is the index of the model whose answer to return if the step ends
	// here, or None before any model has run.
	Answer int
	// Look says that no model runs: instead, the [Belief].Look at the answer of model Run, which has run,
	// is bought.
	Look bool
	// Approximate is true if the search hit its node limit: the decision is the best one found, not proved
	// optimal.
	Approximate bool
}

// Strategy decides what to do next in one step.
//
// Decide does not modify the state and keeps no reference to it. It is safe for concurrent use and
// allocates nothing after warm-up. It panics if the slices of the state differ in length or an index
// is out of range; check for NaN or negative beliefs and costs with [State.Validate].
type Strategy interface {
	Decide(s *State) Decision
}

// Description is a strategy's name and parameters, for traces and reports.
type Description struct {
	// Name is the strategy's name, for those of this package one of [Names].
	Name string
	// Params are its parameters. Their slices are the strategy's own and must not be modified.
	Params
}

// Describer is an optional interface of a [Strategy] that can describe itself. Every strategy of this
// package implements it.
type Describer interface {
	Describe() Description
}

// Describe returns the description of s; if s is not a [Describer] the name is empty.
func Describe(s Strategy) Description {
	if d, ok := s.(Describer); ok {
		return d.Describe()
	}
	return Description{}
}

// Describe implements [Describer].
func (c *common) Describe() Description { return Description{c.name, c.params} }
