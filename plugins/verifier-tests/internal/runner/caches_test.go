package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSweep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "go-build")
	if err := sweep(dir); err != nil {
		t.Fatalf("a cache that is not there yet: %v", err)
	}
	if err := os.RemoveAll(dir + ".swept"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "00"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name string, age time.Duration) string {
		path, at := filepath.Join(dir, "00", name), time.Now().Add(-age)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fresh, old := write("fresh", time.Hour), write("old", 2*maxUnused)
	if err := sweep(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("an old file is left")
	}
	again := write("again", 2*maxUnused)
	if err := sweep(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(again); err != nil {
		t.Error("it was swept twice in a day")
	}
}

func TestKeepOf(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cargo")
	for i := range maxTargets + 3 {
		keep, err := cacheDir(dir, fmt.Sprintf("tree%02d", i))
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(i-100) * time.Minute)
		if err := os.Chtimes(keep, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cacheDir(dir, "tree03"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > maxTargets {
		t.Errorf("%d folders are left: %v", len(entries), err)
	}
	if _, err := os.Stat(filepath.Join(dir, fmt.Sprintf("tree%02d", maxTargets+2))); err != nil {
		t.Error(err)
	}
}
