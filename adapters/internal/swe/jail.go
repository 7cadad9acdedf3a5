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

// Jail runs the commands of models in a work tree, which they can change. The zero value refuses them.
type Jail struct {
	// Layers are the isolation layers in force; Missing maps each unavailable layer to the reason.
	Layers  []string
	Missing map[string]string

	jail jail.Walls
	// image reports that the toolchains are those of a container image.
	image bool
}

// Ran is the outcome of a command.
type Ran struct {
	Code     int
	Output   string
	TimedOut bool
}

// NewJail probes which isolation layers this machine offers. The program must call [jail.Main] before anything else.
func NewJail(ctx context.Context) (*Jail, error) {
	opened, err := jail.Open(ctx, jail.Options{})
	if err != nil {
		return nil, err
	}
	return newJail(opened, false), nil
}

// NewContainerJail returns a jail that runs commands in containers. It pulls the image before it returns.
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

// maxOutput bounds the output of a command, in bytes.
const maxOutput = 1 << 20

// Run runs a command in dir, with read access to the paths in readable. cache, when not empty, is a folder that keeps
// the build cache for later commands in dir. It must not serve other trees: code that ran beside a cache can have
// written to it. A failing command is no error.
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

const buildCache = "/tmp/go-build"

// addCache gives a run Go's build cache: the output of [Jail.compile] below, and that of earlier commands in the same
// tree, own, above it.
func (j *Jail) addCache(spec *jail.Spec, own string) {
	cache := jail.Cache{Path: buildCache, Keep: own, Files: map[string][]byte{
		// A recent date keeps go from trimming the cache in every run.
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
	// Without mounts there is no overlay to discard, so commands write to own directly; otherwise each would compile
	// everything anew.
	if os.MkdirAll(own, 0o755) == nil {
		spec.Env, spec.Writable = append(spec.Env, "GOCACHE="+own), []string{own}
	}
}

// compile fills the build cache that all trees start with. It runs no code of the tree. If it fails, later commands
// are only slower.
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

// moduleCache returns the folder of Go's module cache, or "" when there is none.
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

// compiledCache returns the folder for the output of [Jail.compile], or "" when it cannot be made.
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
