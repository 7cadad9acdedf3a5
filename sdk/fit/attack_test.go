package fit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/fit"
)

// What is no profile is refused, whatever its size.
func TestAttackProfile(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.json")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 1<<40); err != nil { // a hole
		t.Fatal(err)
	}
	deep := filepath.Join(dir, "deep.json")
	if err := os.WriteFile(deep, []byte(strings.Repeat(`{"estimator":`, 100_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{large: "is larger than 64 MiB", dir: "is no regular file", os.DevNull: "is no regular file", deep: "deep.json"} {
		if _, err := fit.Load(path, nil); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 1000 {
			t.Errorf("%s: err = %.1000v", path, err)
		}
	}
}
