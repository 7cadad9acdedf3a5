package swe

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk/jail"
)

// Jail runs commands that models ask for in a work tree, which they change. The
// zero value refuses them.
type Jail struct {
	// Layers and Missing say what holds the commands and what could not be had.
	Layers  []string
	Missing map[string]string

	jail *jail.Jail
}

// Ran is what a command did.
type Ran struct {
	Code     int
	Output   string
	TimedOut bool
}

// NewJail probes what isolation can be had here. The program must call
// [jail.Main] before anything else.
func NewJail(ctx context.Context) (*Jail, error) {
	opened, err := jail.Open(ctx, jail.Options{})
	if err != nil {
		return nil, err
	}
	j := &Jail{jail: opened}
	j.Layers, j.Missing = opened.Layers()
	return j, nil
}

// maxOutput is the largest output of a command that is kept.
const maxOutput = 1 << 20

// Run runs a command in dir; it may also read the further paths. The error is only
// for what the command could not help.
func (j *Jail) Run(ctx context.Context, dir string, readable []string, timeout time.Duration, args ...string) (*Ran, error) {
	if j.jail == nil {
		return nil, errors.New("no commands are run without a jail")
	}
	spec := &jail.Spec{
		Dir: dir, InPlace: true, Argv: args, CombineOutput: true,
		Env: append(jail.ToolEnv(),
			"PWD="+dir, "GOWORK=off", "GOFLAGS=-trimpath", "GOPROXY=off", "GOTELEMETRY=off", "GOTOOLCHAIN=local", "PYTHONDONTWRITEBYTECODE=1"),
		ReadOnly: slices.Concat(jail.SystemPaths(), jail.PathTools(), readable),
		Limits:   jail.Limits{Wall: timeout, Output: maxOutput},
	}
	c := caches()
	if c.modules != "" {
		spec.Env = append(spec.Env, "GOMODCACHE="+c.modules)
		spec.ReadOnly = append(spec.ReadOnly, c.modules)
	}
	if c.build != "" {
		spec.Env = append(spec.Env, "GOCACHE="+c.build)
		spec.Writable = []string{c.build}
	}
	result, err := j.jail.Run(ctx, spec)
	if err != nil {
		return nil, err
	}
	ran := &Ran{Code: result.ExitCode, Output: strings.ToValidUTF8(string(result.Stdout), "?"), TimedOut: result.End == jail.EndTimeout}
	if result.End != jail.EndExit && !ran.TimedOut {
		ran.Output += "\n(stopped: " + string(result.End) + ")"
	}
	return ran, nil
}

type goCaches struct{ modules, build string }

// caches are the folders of the Go command that make a run fast. The build cache
// is one of the agent's own: what models run must not reach the cache that the
// verifier or the user builds from.
var caches = sync.OnceValue(func() goCaches {
	var found goCaches
	if home, err := os.UserHomeDir(); err == nil {
		modules := os.Getenv("GOMODCACHE")
		if modules == "" {
			modules = filepath.Join(home, "go", "pkg", "mod")
		}
		if info, err := os.Stat(modules); err == nil && info.IsDir() {
			found.modules = modules
		}
	}
	if base, err := os.UserCacheDir(); err == nil {
		own := filepath.Join(base, "stepfall", "agent-go-build")
		if os.MkdirAll(own, 0o755) == nil {
			found.build = own
		}
	}
	return found
})
