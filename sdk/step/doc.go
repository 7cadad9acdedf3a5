// Package step runs one step of an agent: it asks models one after another,
// cheapest sensible first, until nothing further is worth its price, and returns
// the best answer that was paid for. It knows no framework: what a call is, is the
// caller's business; one chat completion or a whole agent trajectory.
//
//	engine, err := step.New(step.Config{
//		Candidates: []step.Candidate{{Model: small}, {Model: large}},
//		Strategy:   strategy,
//	})
//	result, err := engine.Run(ctx, step.Request{Query: query, Caller: caller})
//
// # The way of a query
//
// Models that cannot be asked (context length, tools, images, JSON) leave first.
// Then, in a loop: the estimators say what is believed about every model, the
// strategy decides, the worst-case cost of the chosen call is reserved under the
// caps, the model is called, the real cost is settled, and the answer is checked
// and verified. The loop ends when the strategy stops, when a cap or the context
// ends it, or when no model is left.
//
// # Checks, verifiers, estimators
//
// A [Check] is free and can only reject: an empty answer, arguments that are not
// JSON. A [Verifier] may cost time and money and decides: where one applies, a
// model's quality is a yes-or-no matter and beliefs are Bernoulli. Where neither
// speaks, the quality estimator's post-hoc estimate counts, and where that
// abstains the candidate's prior.
//
// # Failures
//
// A failed call is no evidence about quality. It is tried again as far as the
// error allows ([CallError]) and the retry limits say; a model that stays
// unavailable leaves the step, and the strategy decides anew. Panics of callers,
// estimators and verifiers are recovered.
//
// Where no model is left, the best answer that was paid for is returned, also one that was
// rejected: it may be good enough, and [sdk.StopExhausted] or [sdk.StopBudget] say so. Of
// answers that are rejected alike it is the last, which a stream shows too. There is one
// exception. A request that a server refuses ([CallError].Refused) was put together wrongly for
// that model, which would happen in every step: if a rejected answer is all that there is then,
// the step fails with [sdk.ErrRequestRefused] and [sdk.StopRefused].
//
// # Budgets
//
// A [Ledger] reserves before each call what the call can cost at most, so that
// concurrent steps never pass a cap. A model that a cap leaves no room for leaves
// the step; a cheaper one may still be asked.
package step
