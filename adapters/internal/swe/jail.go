package swe

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/jail/container"
)

// Jail runs commands that models ask for in a work tree, which they change. The
// zero value refuses them.
type Jail struct {
	// Layers and Missing say what holds the commands and what could not be had.
	Layers  []string
	Missing map[string]string

	jail jail.Walls
	// image says that toolchains are those of a container.
	image bool
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
	return newJail(opened, false), nil
}

// NewContainerJail has what models ask for run in containers. The image is fetched
// before it returns.
func NewContainerJail(ctx context.Context, options container.Options) (*Jail, error) {
	engine, err := container.Open(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := engine.Pull(); err != nil {
		return nil, err
	}
	return newJail(engine, true), nil
}

func newJail(walls jail.Walls, image bool) *Jail {
	layers, missing := walls.Layers()
	return &Jail{layers, missing, walls, image}
}

// maxOutput is the largest output of a command that is kept.
const maxOutput = 1 << 20

// Run runs a command in dir; it may also read the further paths. Cache, where it is not empty, is a
// folder for what the commands in dir compile, which is kept for later ones in dir alone: code that
// ran beside a cache may have written to it. The error is only for what the command could not help.
func (j *Jail) Run(ctx context.Context, dir string, readable []string, cache string, timeout time.Duration, args ...string) (*Ran, error) {
	if j.jail == nil {
		return nil, errors.New("no commands are run without a jail")
	}
	spec := j.spec(dir, timeout, args)
	spec.ReadOnly = append(spec.ReadOnly, readable...)
	if !j.image {
		j.addCache(spec, cache)
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

func (j *Jail) spec(dir string, timeout time.Duration, args []string) *jail.Spec {
	spec := &jail.Spec{
		Dir: dir, InPlace: true, Argv: args, CombineOutput: true,
		Env: append(jail.ToolEnv(),
			"PWD="+dir, "GOWORK=off", "GOFLAGS=-trimpath", "GOPROXY=off", "GOTELEMETRY=off", "GOTOOLCHAIN=local", "PYTHONDONTWRITEBYTECODE=1"),
		ReadOnly: slices.Concat(jail.SystemPaths(), jail.PathTools()),
		Limits:   jail.Limits{Wall: timeout, Output: maxOutput},
	}
	if modules := moduleCache(); modules != "" && !j.image {
		spec.Env = append(spec.Env, "GOMODCACHE="+modules)
		spec.ReadOnly = append(spec.ReadOnly, modules)
	}
	return spec
}

// buildCache is where commands see their build cache.
const buildCache = "/tmp/go-build"

// addCache adds Go's build cache to a run: what [Jail.compile] compiled, and what earlier
// commands in the same tree left in own.
func (j *Jail) addCache(spec *jail.Spec, own string) {
	cache := jail.Cache{Path: buildCache, Keep: own, Files: map[string][]byte{
		// A fresh date keeps go from sweeping through the cache in every run.
		"trim.txt": []byte(strconv.FormatInt(time.Now().Unix(), 10) + "\n"),
	}}
	if own != "" {
		cache.Lower = append(cache.Lower, own)
	}
	if compiled := compiledCache(); compiled != "" {
		cache.Lower = append(cache.Lower, compiled)
	}
	if slices.Contains(j.Layers, jail.LayerMount) || own == "" {
		spec.Env, spec.Caches = append(spec.Env, "GOCACHE="+buildCache), []jail.Cache{cache}
		return
	}
	// Without mounts, what is discarded would be compiled anew by every command.
	if os.MkdirAll(own, 0o755) == nil {
		spec.Env, spec.Writable = append(spec.Env, "GOCACHE="+own), []string{own}
	}
}

// compile fills the build cache that all trees begin with, by a command that runs no code of
// the tree. If it fails, later commands are only slower.
func (j *Jail) compile(ctx context.Context, dir string) error {
	compiled := compiledCache()
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil || j.jail == nil || j.image || compiled == "" || !slices.Contains(j.Layers, jail.LayerMount) {
		return nil
	}
	const enough = 5 * time.Minute
	spec := j.spec(dir, enough, []string{"go", "list", "-e", "-export", "-deps", "-test", "-f=", "./..."})
	spec.Limits.Disk = 4 << 30
	j.addCache(spec, "")
	spec.Caches[0].Keep = compiled
	_, err := j.jail.Run(ctx, spec)
	return err
}

// moduleCache is the folder of Go's modules; empty when there is none.
var moduleCache = sync.OnceValue(func() string {
	modules := os.Getenv("GOMODCACHE")
	if home, err := os.UserHomeDir(); err == nil && modules == "" {
		modules = filepath.Join(home, "go", "pkg", "mod")
	}
	if info, err := os.Stat(modules); err != nil || !info.IsDir() {
		return ""
	}
	return modules
})

// compiledCache is the folder of what was only compiled; empty when it cannot be made.
var compiledCache = sync.OnceValue(func() string {
	base, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	own := filepath.Join(base, "stepfall", "agent-go-compiled")
	if os.MkdirAll(own, 0o755) != nil {
		return ""
	}
	return own
})
