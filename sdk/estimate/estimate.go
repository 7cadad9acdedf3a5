package estimate

import (
	"math"
	"sync/atomic"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// queryFacts holds what is known about a query before any model has run. Zero values
// and NaN mean unknown.
type queryFacts struct {
	Group  string
	Prompt string
	// InputTokens is the length of the prompt, 0 if unknown.
	InputTokens float64
	// Troubles counts the run's troubles with tools so far ([feature.ToolTroubles]).
	Troubles float64
	// Ante has one signal of quality for each model, on the scale of the table
	// that the estimator was fitted to; nil or NaN if there is none.
	Ante []float64

	// text caches one estimator's prediction from the words of the prompt, as the
	// bits of a number; 0 means not yet computed, and nil no cache.
	text *atomic.Uint64
}

// runFacts holds the result of running one model on a query. NaN means unknown.
type runFacts struct {
	// Verdict is the probability that the answer is right according to a final check.
	Verdict float64
	// IfRight and IfWrong are the probabilities of the fallible judges' verdicts if the
	// answer is right and if it is wrong; both are 0 if there are none.
	IfRight, IfWrong float64
	// Post is a post-hoc signal of quality.
	Post         float64
	CostUSD      float64
	OutputTokens float64
	// Answer is the answer in canonical form, for comparison; "" if unknown.
	Answer string
	// Signals are the signals named by [Quality.Signals], in that order.
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
	// Signals returns the names of the post-hoc signals that it uses.
	Signals() []string
	// Cursor returns a new cursor.
	Cursor() qualityCursor
	fit(t *outcome.Table, o Options) error
	checker
}

// qualityCursor follows one query at a time. [latentCursor] can do more: it takes verdicts of
// fallible judges into account for all models, and accepts looks bought at an answer.
type qualityCursor interface {
	// Begin starts a query before any model has run. The query must stay unchanged until the next.
	Begin(q *queryFacts)
	// Observe adds the result of running a model, which must be observed at most once
	// per query. It does not retain r.
	Observe(model int, r *runFacts)
	// Beliefs fills in the belief about every model.
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
	// Begin starts a query before any model has run.
	Begin(q *queryFacts)
	// Observe adds the cost of a run.
	Observe(model int, r *runFacts)
	// Costs fills in the predicted cost of every model or, for models that have run,
	// the actual cost if known.
	Costs(dst []float64)
}

// Estimator is a fitted pair of estimators for a list of models, with the error rates
// of the judges of their answers, by name.
type Estimator struct {
	Models  []string
	Quality Quality
	Cost    Cost
	Judges  map[string]cascade.Rates
	// JudgeOrder is the order in which the judges are asked, as in [Options].
	JudgeOrder []string
	// VerdictsUSD has the mean cost of a verdict of the sole judge, by its name and then by
	// model, if verdicts have a price and the estimator can compute their gain; nil if every
	// answer is judged.
	VerdictsUSD map[string][]float64
}
