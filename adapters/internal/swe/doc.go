// Package swe fixes defects in repositories: a small coding agent runs with the cheapest sequence of models whose
// patch the unit tests accept.
//
//	solver := swe.Solver{Setup: setup, Agent: swe.Agent{}}
//	result, err := solver.Solve(ctx, repo, task)
//	// result.Patch, result.Verdict, result.CostUSD
//
// # The two cascades
//
// With [WholeTrajectory] one step of the step engine is one task. Calling a model means running the whole agent with
// it on a clean work tree; its answer is the patch, and the verifiers decide whether the next model is tried. With
// [PerStep] there is one trajectory, and each of its calls is routed.
//
// # Work trees
//
// Each attempt works in a git work tree of its own ([Checkout]), detached at the task's base commit, so concurrent
// runs on one repository do not see each other and the user's tree is never touched. Whatever a killed run leaves
// behind is removed by the next run with the same state folder.
//
// # Isolation
//
// Commands that models request run in a [Jail]: no network, the user's files out of reach, bounded time and output,
// and no process left behind. The result lists the layers that the machine does not offer.
//
// # Batches
//
// [Batch] runs many tasks. Its [Journal] is append-only and synced: a run that is killed at any moment resumes where
// it was, without losing a finished attempt and without paying for one twice.
package swe
