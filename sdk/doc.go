// Package sdk is the vocabulary of stepfall: the words that every other package
// speaks. It imports the standard library only, and holds data and small
// interfaces, no behaviour that needs a network, a file or a clock.
//
// # One step
//
// A [Query] is the input of one agent step: a conversation, the tools on offer
// and what is known about where it comes from. Candidates are [Model] values:
// data about a model (prices, limits, capabilities), not something to call.
// What a model returns is an [Answer].
//
// Before a model has run, a [QualityEstimator] and a [CostEstimator] say what to
// expect of it (ex-ante); after it has run they say what the answer is worth
// (post-hoc). Both are the same call: a [QualityRequest] carries the attempts
// made so far, and an empty list means ex-ante. A [Verifier] checks an answer,
// for instance by running unit tests, and returns a [Verdict].
//
// A strategy (package cascade) turns these numbers into a decision: run this
// model next, or stop with that answer. The record of it all is a [Trace].
//
// # Units
//
// Quality is in [0, 1]. Money is in US dollars and its names end in USD; prices
// are per million tokens. Deviations are standard deviations and are called
// StdDev. Durations are [time.Duration].
//
// # Concurrency
//
// Values of this package are plain data: safe to read from many goroutines,
// never modified by stepfall after they were handed over. Estimators and
// verifiers must be safe for concurrent use.
package sdk
