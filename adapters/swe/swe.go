// Package swe fixes defects in repositories: a small coding agent runs with the cheapest sequence of models whose
// patch the unit tests accept. It is stepfall swe as a Go package:
//
//	results, err := swe.Run(ctx, model, swe.Options{CapUSD: 1}, swe.Task{Repo: "path/to/clone", ProblemStatement: "..."})
//	// results[0].Patch, results[0].CostUSD, and each attempt with its verdict
package swe

import (
	"context"
	"errors"
	"os"

	"github.com/stepfall/stepfall/adapters/internal/swe"
	"github.com/stepfall/stepfall/adapters/router"
)

// Task is a problem to be solved in a repository, with the fields of SWE-bench.
type Task = swe.Task

// Result is the outcome of one task: the patch, its verdict, the attempts and their cost.
type Result = swe.Result

// Options configures [Run].
type Options struct {
	// CapUSD bounds the cost of all tasks together; 0 means no cap.
	CapUSD float64
	// Parallel bounds the tasks in flight; 0 means 2.
	Parallel int
}

// Run lets each model attempt a task in a git work tree of its own, in the order of the policy's strategy, until the
// verifiers of the router's policy accept a patch. The repositories themselves are not changed. Commands of models
// run in a jail, for which the program must call jail.Main (package sdk/jail) before anything else. The results have
// the order of the tasks; the error says why not all were finished.
func Run(ctx context.Context, r *router.Router, o Options, tasks ...Task) (_ []*Result, err error) {
	walls, err := swe.NewJail(ctx)
	if err != nil {
		return nil, err
	}
	trees, err := os.MkdirTemp("", "stepfall-swe")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(trees)) }()
	solver := swe.Solver{Setup: swe.FromRouter(r), Mode: swe.WholeTrajectory, Jail: walls, Spend: &swe.Spend{CapUSD: o.CapUSD}}
	batch := swe.Batch{Solver: &solver, Trees: trees, Parallel: o.Parallel}
	return batch.Run(ctx, tasks)
}
