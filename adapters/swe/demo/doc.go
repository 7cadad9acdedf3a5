// Package demo solves the bundled repair tasks with several strategies and compares
// what they cost. Each task is one step through adapters/router: the model answers
// with edits, the plugin verifier-tests runs the unit tests on them, and the
// strategy decides whether the next model gets its turn.
//
// An answer that was verified already, of the same model to the same task, is not
// verified again; its first verdict counts, with the time that it took.
package demo
