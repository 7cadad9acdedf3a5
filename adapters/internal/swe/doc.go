// Package swe mends repositories: a small coding agent, run by the cheapest
// sequence of models whose patch the unit tests accept.
//
//	solver := swe.Solver{Setup: setup, Agent: swe.Agent{}}
//	result, err := solver.Solve(ctx, task)
//	// result.Patch, result.Verdict, result.CostUSD
//
// # The two cascades
//
// With [WholeTrajectory] one step of the step engine is one task, and calling a
// model means running the whole agent with it on a clean work tree; its answer is
// the patch, and the verifiers decide whether the next model gets its turn. With
// [PerStep] there is one trajectory, each of whose calls is routed.
//
// # Work trees
//
// Each attempt works in a git work tree of its own ([Checkout]), detached at the
// task's base commit, so that concurrent runs on one repository do not see each
// other and the user's tree is never touched. What a killed run leaves behind is
// removed by the next one with the same state folder.
//
// # Isolation
//
// What models ask to run is run in a [Jail]: no network, the user's files out of
// reach, bounded time and output, and no process left behind. What could not be
// had on a machine is said in the result.
//
// # Batches
//
// [Batch] runs many tasks. Its [Journal] is append-only and synced after each
// record: killed at any moment, a run goes on where it was, without losing a
// finished attempt and without paying for one twice.
package swe
