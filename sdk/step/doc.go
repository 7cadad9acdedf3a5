// Package step runs one step of an agent: it asks models one after another, as long as the strategy
// expects a further one to be worth its price, and returns the best answer. It depends on no
// framework. The caller defines what a call is: one chat completion, or a whole run of an agent.
//
//	engine, err := step.New(step.Config{
//		Candidates: []step.Candidate{{Model: small}, {Model: large}},
//		Strategy:   strategy,
//	})
//	result, err := engine.Run(ctx, step.Request{Query: query, Caller: caller})
//
// # How a step runs
//
// First, models that cannot serve the query are excluded (context length, tools, images, JSON). Then,
// in a loop: the estimators give their estimates for every model, the strategy decides, the worst-case
// cost of the chosen call is reserved under the caps, the model is called, the real cost is settled,
// and the answer is checked and verified. The loop ends when the strategy stops, when a cap or the
// context ends it, or when no model is left.
//
// # Checks, verifiers, estimators
//
// A [Check] is free and can only reject, for instance an empty answer or arguments that are not JSON.
// A [Verifier] can cost time and money, and decides whether an answer is right: for models that one
// judges, beliefs are Bernoulli. If neither says anything, the quality estimator's post-hoc estimate
// counts, and if that abstains, the candidate's prior.
//
// # Failures
//
// A failed call is no evidence about quality. It is retried within the retry limits if the error
// allows it ([CallError]). A model that stays unavailable leaves the step, and the strategy decides
// again. Panics of callers, checks, estimators and verifiers are recovered.
//
// If no model is left, the best answer so far is returned, even a rejected one: it may be good enough,
// and [sdk.StopExhausted] or [sdk.StopBudget] tells the caller. Of several equally rejected answers it
// is the last, which is what a stream shows too. There is one exception. A request that a server refuses
// ([CallError].Refused) was malformed for that model, and would be in every step: if all other answers
// are rejected, the step fails with [sdk.ErrRequestRefused] and [sdk.StopRefused].
//
// # Budgets
//
// A [Ledger] reserves the most that a call can cost before the call, so concurrent steps never exceed
// a cap. If a model's worst case does not fit, the step waits for room ([Config].CapWait) or continues
// without the model; a cheaper one can still be called.
package step
