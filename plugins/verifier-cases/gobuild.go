package main

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/stepfall/stepfall/plugins/internal/goflags"
	"github.com/stepfall/stepfall/sdk/jail"
)

// isGo reports whether the command is the go tool, which may have to compile the standard
// library first.
func isGo(argv []string) bool { return filepath.Base(argv[0]) == "go" }

// withGo lets a go command use the user's build flags and read the user's caches. What it
// writes to them is discarded after the run. A container has caches of its own.
func (r *run) withGo(ctx context.Context, spec *jail.Spec, argv []string) error {
	if r.v.containers != nil || !isGo(argv) {
		return nil
	}
	env, err := goflags.ReadEnv(ctx, argv[0], "")
	if err != nil {
		return err
	}
	variables, paths := env.Variables()
	spec.Env, spec.ReadOnly = slices.Concat(spec.Env, goflags.Offline, variables), append(spec.ReadOnly, paths...)
	spec.Caches = append(spec.Caches, env.Cache())
	return nil
}
