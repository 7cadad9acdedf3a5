package main

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/stepfall/stepfall/plugins/internal/goflags"
	"github.com/stepfall/stepfall/sdk/jail"
)

// isGo reports whether a command is Go's, which may have to compile its library first.
func isGo(argv []string) bool { return filepath.Base(argv[0]) == "go" }

// withGo lets a command of Go read the user's caches, which fit with the user's flags of builds. What it writes to them is gone
// with the run.
func withGo(ctx context.Context, spec *jail.Spec, argv []string) error {
	if !isGo(argv) {
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
