package goflags

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/stepfall/stepfall/sdk/jail"
)

// Env has the settings of this machine's go command that are passed into the jail.
type Env struct{ GOROOT, GOMODCACHE, GOCACHE, GOVERSION, GOFLAGS string }

// ReadEnv runs go env in the folder of a module.
func ReadEnv(ctx context.Context, program, dir string) (Env, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, program, "env", "-json", "GOROOT", "GOMODCACHE", "GOCACHE", "GOVERSION", "GOFLAGS")
	command.Dir = dir
	command.Env = append(os.Environ(), "GOTOOLCHAIN=local")
	out, err := command.Output()
	if err != nil {
		return Env{}, fmt.Errorf("asking %s for its environment: %w", program, err)
	}
	var env Env
	if err := json.Unmarshal(out, &env); err != nil {
		return Env{}, fmt.Errorf("reading go env: %w", err)
	}
	if env.GOCACHE == "off" || env.GOCACHE == "" {
		env.GOCACHE = "/tmp/go-build" // no home directory: go compiles nothing without a cache
	}
	return env, nil
}

// Offline are environment variables that keep the go command from using the network.
var Offline = []string{"GOPROXY=off", "GOTOOLCHAIN=local", "GOTELEMETRY=off"}

// Variables returns the environment with which the go command finds this machine's toolchain and modules,
// and the paths that it reads.
func (e *Env) Variables() (variables, paths []string) {
	variables = []string{"GOROOT=" + e.GOROOT, "GOCACHE=" + e.GOCACHE, "GOPATH=/tmp/go", "GOENV=off", "GOFLAGS=" + Builds(e.GOFLAGS)}
	paths = []string{e.GOROOT}
	if e.GOMODCACHE != "" {
		variables, paths = append(variables, "GOMODCACHE="+e.GOMODCACHE), append(paths, e.GOMODCACHE)
	}
	return variables, paths
}

// Cache returns a jail cache of the user's build cache below the lower ones. Writes are discarded after the run.
func (e *Env) Cache(lower ...string) jail.Cache {
	return jail.Cache{
		Path: e.GOCACHE, Lower: append(lower, e.GOCACHE),
		// A recent date keeps go from trimming the cache in every run.
		Files: map[string][]byte{"trim.txt": fmt.Appendf(nil, "%d\n", time.Now().Unix())},
	}
}
