package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk/jail"
)

func TestStoreIsBounded(t *testing.T) {
	s := &store{dir: t.TempDir(), maxFiles: 3, maxBytes: 1 << 20, maxAge: time.Hour}
	for i := range 8 {
		key := fmt.Sprintf("key%d", i)
		if err := s.put(key, &storedTree{Report: &runner.Report{}, Result: &jail.Result{ExitCode: i}}); err != nil {
			t.Fatal(err)
		}
		// Older ones first, whatever the clock's grain.
		at := time.Now().Add(time.Duration(i-100) * time.Second)
		if err := os.Chtimes(s.path(key), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.prune(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(s.dir, "*"))
	if err != nil || len(files) != 3 {
		t.Errorf("%d files are left: %v", len(files), err)
	}
	var found storedTree
	if !s.get("key7", &found) || found.Result.ExitCode != 7 {
		t.Errorf("the newest is %v", found)
	}
	if s.get("key0", &found) {
		t.Error("the oldest is still there")
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(s.path("key7"), old, old); err != nil {
		t.Fatal(err)
	}
	if s.get("key7", &found) {
		t.Error("one that is too old was used")
	}
	s.maxBytes = 1
	if err := s.prune(); err != nil {
		t.Fatal(err)
	}
	if files, err := filepath.Glob(filepath.Join(s.dir, "*.json")); err != nil || len(files) != 0 {
		t.Errorf("%d files are left: %v", len(files), err)
	}
}

func TestStoreLetsOneIn(t *testing.T) {
	s := &store{dir: filepath.Join(t.TempDir(), "new"), maxFiles: 3, maxBytes: 1 << 20, maxAge: time.Hour}
	var inside, most atomic.Int32
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			unlock, err := s.lock(t.Context(), "key")
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			most.Store(max(most.Load(), inside.Add(1)))
			if !s.get("key", &storedTree{}) {
				if err := s.put("key", &storedTree{Report: &runner.Report{}}); err != nil {
					t.Error(err)
				}
			}
			inside.Add(-1)
		})
	}
	wait.Wait()
	if most.Load() != 1 {
		t.Errorf("%d were inside at once", most.Load())
	}
}
