package fit_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// A file that is not a profile is rejected, whatever its size.
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
	for path, want := range map[string]string{large: "larger than 67108864 bytes", dir: "no regular file", os.DevNull: "no regular file", deep: "deep.json"} {
		if _, err := fit.Load(path, nil); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 1000 {
			t.Errorf("%s: err = %.1000v", path, err)
		}
	}
}

// More models than a replay can distinguish are rejected, not confused with each other.
func TestAttackManyModels(t *testing.T) {
	table := &outcome.Table{Models: make([]string, 129)}
	for m := range table.Models {
		table.Models[m] = fmt.Sprint("m", m)
	}
	_, err := fit.Fit(t.Context(), table, fit.Options{})
	if err == nil || err.Error() != "129 models: a fit takes at most 128" {
		t.Errorf("err = %v", err)
	}
	table.Models = table.Models[:128]
	if _, err = fit.Fit(t.Context(), table, fit.Options{}); !errors.Is(err, fit.ErrTooFew) {
		t.Errorf("128 models without outcomes: err = %v, want ErrTooFew", err)
	}
}
