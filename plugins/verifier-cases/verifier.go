package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepfall/stepfall/plugins/verifier-cases/internal/cases"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/jail/container"
)

// verifier verifies answers by test cases. It is safe for concurrent use.
type verifier struct {
	config Config
	// walls is nil if cases run in containers.
	walls      jail.Walls
	containers *container.Pool
	temp       string
	slots      chan struct{}

	mu    sync.Mutex
	known map[string]*cases.Set
}

// maxKnown is the number of queries whose cases are cached.
const maxKnown = 64

// Verify runs the answer's program on the cases of its query. It only returns an error when ctx ends.
func (v *verifier) Verify(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	start := time.Now()
	verdict, err := v.verify(ctx, req)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		verdict = &sdk.Verdict{Evidence: "the cases could not be run: " + err.Error()}
	}
	verdict.Duration = time.Since(start)
	return verdict, nil
}

func (v *verifier) verify(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	query := cmp.Or(req.Query, &sdk.Query{})
	walls, err := v.wallsOf(ctx, query)
	if err != nil {
		return nil, err
	}
	layers, missing := walls.Layers()
	if lacks := jail.Lacks(requiredLayers(v.config.Require), layers); len(lacks) > 0 {
		return &sdk.Verdict{Evidence: "required isolation is unavailable here: " + strings.Join(lacks, ", "), IsolationMissing: missing}, nil
	}
	if req.Answer == nil {
		return nil, errors.New("there is no answer")
	}
	set, err := v.casesOf(query.ID)
	if err != nil {
		return nil, err
	}
	dir := cmp.Or(query.WorkDir, v.config.WorkDir)
	if dir == "" {
		dir, err = v.emptyDir("cases-")
		defer os.RemoveAll(dir)
		if err != nil {
			return nil, err
		}
	}
	if dir, err = realPath(dir); err != nil {
		return nil, err
	}
	r := &run{v: v, walls: walls, dir: dir, sources: append([]string{v.config.Cases}, set.Files...)}
	return r.judge(ctx, req.Answer, set.Cases)
}

// emptyDir creates a directory that a sandbox can read. The caller removes it, also after an error.
func (v *verifier) emptyDir(prefix string) (string, error) {
	dir, err := os.MkdirTemp(v.temp, prefix)
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

func realPath(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

func (v *verifier) wallsOf(ctx context.Context, query *sdk.Query) (jail.Walls, error) {
	if v.containers == nil {
		return v.walls, nil
	}
	return v.containers.For(ctx, query.ID, query.Labels["image"])
}

// casesOf returns the cases of a query, which are cached.
func (v *verifier) casesOf(query string) (*cases.Set, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if set, ok := v.known[query]; ok {
		return set, nil
	}
	set, err := cases.Load(v.config.Cases, query)
	if err != nil {
		return nil, err
	}
	if len(v.known) >= maxKnown {
		clear(v.known)
	}
	v.known[query] = set
	return set, nil
}

// requiredLayers adds the layer without which an answer could read the cases.
func requiredLayers(layers []string) []string { return append(slices.Clip(layers), "filesystem") }
