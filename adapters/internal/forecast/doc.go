// Package forecast predicts what a policy would do, without calling anything: which models it would run for a sample
// of queries, what that would cost, how good the answers would be, and where caps would stop it. stepfall policy plan
// is built on it.
//
// The step engine itself makes the decisions. Only the models are replaced: their answers come from a [World], which
// is a table of recorded outcomes, a file of traces, or the policy's own beliefs. A world behaves the same for every
// policy that is tried in it, so that two policies can be compared query by query: a model, identified by provider
// and served name, gives the same answer whichever policy asks it.
//
// In a world with a history, such as a file of traces, queries follow each other: the accounts of runs and tenants,
// sessions and a paced budget carry over from step to step.
//
// A forecast from beliefs is as good as the beliefs. It shows what follows from a policy, not whether its numbers are
// right; outcomes and traces do that.
package forecast
