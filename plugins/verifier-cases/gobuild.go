package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/stepfall/stepfall/plugins/internal/goflags"
	"github.com/stepfall/stepfall/sdk/jail"
)

// goEnv is what the Go command is told within the walls.
type goEnv struct{ GOROOT, GOMODCACHE, GOCACHE, GOFLAGS string }

// isGo reports whether a command is Go's, which may have to compile its library first.
func isGo(argv []string) bool { return filepath.Base(argv[0]) == "go" }

// withGo lets a command of Go read the user's caches, which fit with the user's flags of builds. What it writes to them is gone
// with the run.
func withGo(ctx context.Context, spec *jail.Spec, argv []string) error {
	if !isGo(argv) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], "env", "-json", "GOROOT", "GOMODCACHE", "GOCACHE", "GOFLAGS").Output()
	if err != nil {
		return fmt.Errorf("asking %s for its environment: %w", argv[0], err)
	}
	var env goEnv
	if err := json.Unmarshal(out, &env); err != nil {
		return fmt.Errorf("reading go env: %w", err)
	}
	if env.GOCACHE == "off" || env.GOCACHE == "" {
		env.GOCACHE = "/tmp/go-build" // nobody's home: go compiles nothing without a cache
	}
	if env.GOMODCACHE != "" {
		spec.Env, spec.ReadOnly = append(spec.Env, "GOMODCACHE="+env.GOMODCACHE), append(spec.ReadOnly, env.GOMODCACHE)
	}
	spec.Env = append(spec.Env, "GOROOT="+env.GOROOT, "GOCACHE="+env.GOCACHE, "GOPATH=/tmp/go",
		"GOPROXY=off", "GOTOOLCHAIN=local", "GOTELEMETRY=off", "GOENV=off", "GOFLAGS="+goflags.Builds(env.GOFLAGS))
	spec.ReadOnly = append(spec.ReadOnly, env.GOROOT)
	spec.Caches = append(spec.Caches, jail.Cache{Path: env.GOCACHE, Lower: []string{env.GOCACHE}, Files: map[string][]byte{
		"trim.txt": fmt.Appendf(nil, "%d\n", time.Now().Unix()), // keeps go from sweeping through it
	}})
	return nil
}
