package verify_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// noted are walls that run nothing: they note what was to be kept, and make its folder.
type noted struct {
	layers []string

	mu   sync.Mutex
	kept []string
}

func (n *noted) Layers() ([]string, map[string]string) { return n.layers, nil }

func (n *noted) Run(_ context.Context, spec *jail.Spec) (*jail.Result, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, cache := range spec.Caches {
		if cache.Keep != "" {
			n.kept = append(n.kept, cache.Keep)
			if err := os.MkdirAll(cache.Keep, 0o755); err != nil {
				return nil, err
			}
		}
	}
	return &jail.Result{End: jail.EndExit, CPU: time.Millisecond}, nil
}

// TestCompilesWithoutMounts: if the machine's build cache cannot be mounted, even cheap tests are worth their own small
// cache, since runs would otherwise compile the standard library or copy the whole cache.
func TestCompilesWithoutMounts(t *testing.T) {
	for _, c := range []struct {
		layers []string
		keeps  bool
	}{
		{[]string{jail.LayerLandlock, jail.LayerSeccomp}, true},
		{[]string{jail.LayerLandlock, jail.LayerSeccomp, jail.LayerMount}, false},
	} {
		walls := &noted{layers: c.layers}
		v := verify.New(withDefaults(verify.Config{Command: []string{"go", "test", "./..."}, CacheDir: t.TempDir(), Reruns: -1}), walls).CompileFrom(time.Hour)
		judge(t, v, &sdk.Query{WorkDir: write(t, with(nil))}, addRight)
		if len(walls.kept) == 0 {
			t.Errorf("with %v the first compiles nothing", c.layers)
		}
		walls.kept = nil
		judge(t, v, &sdk.Query{WorkDir: write(t, with(map[string]string{"other": "tree"}))}, addRight)
		if keeps := len(slices.Compact(walls.kept)) > 0; keeps != c.keeps {
			t.Errorf("with %v what the second compiled is kept: %v", c.layers, keeps)
		}
	}
}
