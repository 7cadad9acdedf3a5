package main

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/stepfall/stepfall/plugins/internal/goflags"
	"github.com/stepfall/stepfall/sdk/jail"
)

// isGo reports whether the command is the go tool, which may have to compile the standard library first.
func isGo(argv []string) bool { return filepath.Base(argv[0]) == "go" }

// withGo gives a go command the user's build flags and caches. Writes to the caches are discarded after the
// run. A container has its own caches.
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
