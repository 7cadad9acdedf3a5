package swe_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/swe"
)

func TestScratchOfKilledRunsIsRemoved(t *testing.T) {
	base := t.TempDir()
	make := func(name string, files ...string) string {
		t.Helper()
		dir := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Join(dir, "trees", "1"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	dead := make("stepfall-swe-dead", "lock", "trees/1/a")
	young := make("stepfall-swe-young") // its process has not come to lock it
	other := make("somebody-elses", "lock")

	first, err := swe.NewScratch(base)
	if err != nil {
		t.Fatal(err)
	}
	second, err := swe.NewScratch(base)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{dead: false, young: true, other: true, first.Dir: true, second.Dir: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", filepath.Base(path), err == nil, want)
		}
	}
	for _, s := range []*swe.Scratch{first, second} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.Dir); err == nil {
			t.Errorf("%s is still there", s.Dir)
		}
	}
}
