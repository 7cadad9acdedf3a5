// Package replay runs the online path, middleware and step engine, over recorded
// outcomes: each candidate is an llms.Model that answers from a row of an outcome
// table ([NewModel]), and a verifier that repeats recorded verdicts ([Verifier]).
//
// Package eval replays strategies too, directly and much faster. The two take the
// same decisions for the same inputs; a test of this package holds them to it.
//
// # Money
//
// A recorded cost cannot be derived from a price list. Replayed models therefore
// count nano-dollars as output tokens and have the price [NanoPrice], so that the
// engine's own accounting arrives at the recorded amounts.
package replay
