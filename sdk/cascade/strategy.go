package cascade

// Stop is the Decision.Run of a decision to stop.
const Stop = -1

// None is the Decision.Answer of a decision made before any model has run.
const None = -1

// A Belief is what is believed about one model's quality on this query.
//
// For a model that has not run it is the predictive distribution of the post-hoc
// estimate that it would get: Normal(Mean, StdDev²), or, when Bernoulli is set (a
// verifier will judge it), what is believed after a pass or a fail; see [Rates.Look].
// For a model that has run, Mean is its post-hoc estimate and the other fields but Look
// are ignored.
type Belief struct {
	Mean   float64
	StdDev float64
	// Bernoulli says that a verifier will judge the answer, which is right with
	// probability Mean; StdDev is ignored. Judge is how often it errs.
	Bernoulli bool
	Judge     Rates
	// Shared is the share of what a verdict is expected to change that it changes in the
	// best answer at hand as well, by which nothing is gained: the covariance of both being
	// right over the variance of this one. Only of a Bernoulli.
	Shared float64
	// Unseen says that nothing will look at the answer: the estimate will be Mean
	// whatever it says, and StdDev is ignored. Such models are only routed to. No
	// strategy runs one on the way to another.
	Unseen bool
	// Look is what can be bought about the model's answer: of one that has run, the next
	// thing; of one that has not, the first once it has run. Beside Bernoulli it is the
	// verdict itself: a strategy that [Buys] has it at its price, and others have it of
	// every answer.
	Look Look
}

// State is the state of one step: the models, by index, that have run and those
// that could still be run. Strategies only read it.
type State struct {
	// Beliefs has one entry for each model.
	Beliefs []Belief
	// Costs has the predicted cost of each model in US dollars (or in any one
	// unit of which lambda is the price). The cost of a model that has run is
	// spent and is not read.
	Costs []float64
	// Ran lists the models that have run, in the order in which they ran.
	Ran []int
	// Infeasible marks the models that must not be run; nil means none.
	Infeasible []bool
	// Coin is drawn once per step, uniform in [0, 1): below Gamma, the step
	// follows the cheapest of tied optima, otherwise the dearest.
	Coin float64
}

// Decision says what to do next.
type Decision struct {
	// Run is the index of the model to run, or Stop.
	Run int
	// Answer is the index of the model whose answer to return if the step ends
	// here, or None before any model has run.
	Answer int
	// Look says that nothing is to be run: the [Belief].Look at the answer of model Run,
	// which has run, is to be bought.
	Look bool
	// Approximate is true when the search hit its node limit, and the decision is
	// the best one found and not proved optimal.
	Approximate bool
}

// Strategy decides what to do next in one step.
//
// Decide does not modify the state and keeps no reference to it. It is safe for
// concurrent use and allocates nothing after warm-up. It panics when the slices
// of the state disagree in length or an index is out of range; beliefs and costs
// that are NaN or negative are refused before, by [State.Validate].
type Strategy interface {
	Decide(s *State) Decision
}

// Description is what a strategy says of itself, for traces and reports.
type Description struct {
	// Name is the strategy's name, for those of this package one of [Names].
	Name string
	// Params are what it goes by. Their slices are the strategy's own and must not be
	// modified.
	Params
}

// Describer is the optional ability of a [Strategy] to name itself. Every strategy of
// this package has it.
type Describer interface {
	Describe() Description
}

// Describe returns what s says of itself; of a strategy that is no [Describer] the
// name is empty.
func Describe(s Strategy) Description {
	if d, ok := s.(Describer); ok {
		return d.Describe()
	}
	return Description{}
}
