// Package sdk defines the types that all packages of stepfall share. It imports only the standard
// library, and holds data and small interfaces: nothing in it needs a network, a file or a clock.
//
// # One step
//
// A [Query] is the input of one agent step: a conversation, the tools on offer, and where it comes
// from. Candidates are [Model] values: data about a model (prices, limits, capabilities), not
// something to call. A model returns an [Answer].
//
// Before a model runs, a [QualityEstimator] and a [CostEstimator] predict its quality and cost
// (ex-ante); after it has run, they estimate the quality of its answer (post-hoc). Both use the same
// call: a [QualityRequest] lists the attempts made so far, and an empty list means ex-ante. A
// [Verifier] checks an answer, for instance by running unit tests, and returns a [Verdict].
//
// A strategy (package cascade) turns these numbers into a decision: run this model next, or stop with
// that answer. A [Trace] records the step.
//
// # Units
//
// Quality is in [0, 1]. Money is in US dollars, in names that end in USD; prices are per million
// tokens. Fields named StdDev are standard deviations. Durations are [time.Duration].
//
// # Concurrency
//
// Values of this package are plain data. They are safe for concurrent reads, and stepfall does not
// modify values passed to it. Estimators and verifiers must be safe for concurrent use.
package sdk
