package verify_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// poisoner plants entries in the build cache beside which it runs. In the place of a
// compiled package they would be linked into other trees' tests.
const poisoner = `package calc

import (
	"os"
	"path/filepath"
)

func init() {
	folders, _ := filepath.Glob(filepath.Join(os.Getenv("GOCACHE"), "[0-9a-f][0-9a-f]"))
	for _, folder := range folders {
		_ = os.WriteFile(filepath.Join(folder, "planted-d"), []byte("evil"), 0o644)
	}
}

func Add(a, b int) int {
	return a - b
}
`

// finder fails when it finds what another tree planted.
const finder = `package calc

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAdd(t *testing.T) {
	if planted, _ := filepath.Glob(filepath.Join(os.Getenv("GOCACHE"), "*", "planted-d")); len(planted) > 0 {
		t.Errorf("planted: %d", len(planted))
	}
	if got := Add(2, 3); got != 5 {
		t.Errorf("Add(2, 3) = %d", got)
	}
}
`

// TestAttackCacheOfAnotherTree: code in the tests of one tree, even in a trusted run of the untouched tree, leaves
// nothing in the build cache of another tree, in this or a later process; what was only compiled is kept.
func TestAttackCacheOfAnotherTree(t *testing.T) {
	long(t)
	state := t.TempDir()
	config := verify.Config{Command: []string{"go", "test", "./..."}, CacheDir: state, Reruns: -1, Timeout: 5 * time.Minute}
	poisoned := write(t, with(map[string]string{"calc/add.go": poisoner}))
	wrong := strings.Replace(addRight, "a + b", "a * b", 1) // whose tests run once
	if verdict := judge(t, open(t, config).CompileFrom(1), &sdk.Query{WorkDir: poisoned}, wrong); verdict.Outcome != sdk.Failed {
		t.Fatalf("%s: %s", verdict.Outcome, verdict.Evidence)
	}
	entries := 0
	err := filepath.WalkDir(state, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.Contains(entry.Name(), "planted") {
			t.Errorf("kept: %s", path)
		}
		if err == nil && strings.HasSuffix(path, "-a") {
			entries++
		}
		return err
	})
	if err != nil || entries == 0 {
		t.Errorf("%d compiled packages were kept, %v", entries, err)
	}
	clean := write(t, with(map[string]string{"calc/add_test.go": finder}))
	if verdict := judge(t, open(t, config).CompileFrom(1), &sdk.Query{WorkDir: clean}, addRight); verdict.Outcome != sdk.Passed {
		t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
	}
}
