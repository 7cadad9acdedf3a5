package estimate

import (
	"math"
	"sync/atomic"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// queryFacts is what is known about a query before any model has run. Zero values and
// NaN are unknown.
type queryFacts struct {
	Group  string
	Prompt string
	// InputTokens is the length of the prompt, 0 when unknown.
	InputTokens float64
	// Troubles are those that the run has had with tools so far ([feature.ToolTroubles]).
	Troubles float64
	// Ante has one signal of quality for each model, on the scale of the table
	// that the estimator was fitted to; nil or NaN when there is none.
	Ante []float64

	// text remembers what one estimator predicts from the words of the prompt, as the
	// bits of a number, 0 while it does not; nil remembers nothing.
	text *atomic.Uint64
}

// runFacts is what running one model on a query has shown. NaN is unknown.
type runFacts struct {
	// Verdict is the probability that the answer is right by a check of it.
	Verdict float64
	// IfRight and IfWrong are how probable what judges that err have said of it is where
	// the answer is right, and where it is wrong; both 0 where they said nothing.
	IfRight, IfWrong float64
	// Post is a signal of quality seen on the answer.
	Post         float64
	CostUSD      float64
	OutputTokens float64
	// Answer is the answer in a form in which two can be compared, "" if unknown.
	Answer string
	// Signals are the numbers that [Quality.Signals] names, in that order.
	Signals []float64
}

func unknownRun() runFacts {
	nan := math.NaN()
	return runFacts{Verdict: nan, Post: nan, CostUSD: nan, OutputTokens: nan}
}

// Quality is a fitted quality estimator.
type Quality interface {
	// Kind is its name in profiles.
	Kind() string
	// Signals names the post-hoc signals that it reads.
	Signals() []string
	// Cursor returns a new cursor.
	Cursor() qualityCursor
	fit(t *outcome.Table, o Options) error
	checker
}

// qualityCursor follows one query at a time. [latentCursor] can do more: it takes verdicts of
// judges that err into what it believes of all models, and is shown what was bought of an answer.
type qualityCursor interface {
	// Begin starts a query, none run. The query must stay unchanged until the next.
	Begin(q *queryFacts)
	// Observe takes in what running a model has shown. A model is observed once
	// for each query. The run is not kept.
	Observe(model int, r *runFacts)
	// Beliefs fills in what is believed of every model.
	Beliefs(dst []cascade.Belief)
}

// Cost is a fitted cost estimator.
type Cost interface {
	// Kind returns the name under which a profile holds the estimator.
	Kind() string
	// Cursor returns a cursor of its own for each goroutine.
	Cursor() costCursor
	fit(t *outcome.Table)
	checker
}

// costCursor follows one query at a time, like [qualityCursor].
type costCursor interface {
	// Begin starts a query, none run.
	Begin(q *queryFacts)
	// Observe takes in what a run has cost.
	Observe(model int, r *runFacts)
	// Costs fills in the predicted cost of every model; of one that has run, its
	// cost when known.
	Costs(dst []float64)
}

// Estimator is a fitted pair of estimators for a list of models, with how often the
// judges of their answers err, by name.
type Estimator struct {
	Models  []string
	Quality Quality
	Cost    Cost
	Judges  map[string]cascade.Rates
	// JudgeOrder is the order in which the judges are asked, as in [Options].
	JudgeOrder []string
	// VerdictsUSD is what a verdict of the only judge, by its name, costs on average, by model,
	// where it has a price and the estimator tells what it gains; nil where every answer is judged.
	VerdictsUSD map[string][]float64
}
