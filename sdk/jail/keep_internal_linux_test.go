package jail

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// Concurrent runs can keep files of the same name: each is process 1 in its namespace.
func TestRunsKeepTheSameFilesAtOnce(t *testing.T) {
	const runs, files = 8, 100
	keep, content := t.TempDir(), bytes.Repeat([]byte("compiled"), 1000)
	var all sync.WaitGroup
	begin := make(chan struct{})
	for run := range runs {
		from := t.TempDir()
		if err := os.Mkdir(filepath.Join(from, "deps"), 0o755); err != nil {
			t.Fatal(err)
		}
		for i := range files {
			if err := os.WriteFile(filepath.Join(from, "deps", fmt.Sprint(i)), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		all.Go(func() {
			<-begin
			if err := mergeNew(from, keep, true); err != nil {
				t.Errorf("run %d: %v", run, err)
			}
		})
	}
	close(begin)
	all.Wait()
	kept, err := os.ReadDir(filepath.Join(keep, "deps"))
	if err != nil || len(kept) != files {
		t.Fatalf("%d files, %v", len(kept), err)
	}
	for _, file := range kept {
		if got, err := os.ReadFile(filepath.Join(keep, "deps", file.Name())); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes, %v", file.Name(), len(got), err)
		}
	}
}

// A cache can be a link to a folder elsewhere, like ~/.m2/repository on a machine with a small home.
func TestLinkedCacheIsFilled(t *testing.T) {
	dir := t.TempDir()
	cache, linked, to := filepath.Join(dir, "cache"), filepath.Join(dir, "linked"), filepath.Join(dir, "to")
	for _, folder := range []string{filepath.Join(cache, "org"), to} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(cache, "org", "a.jar"), []byte("compiled"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(cache, linked); err != nil {
		t.Fatal(err)
	}
	if err := (&order{}).linkTree(linked, to, ""); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(to, "org", "a.jar")); err != nil || string(got) != "compiled" {
		t.Errorf("%q, %v", got, err)
	}
}

// A cache that could not be filled is not given to the command.
func TestFileInThePlaceOfAFolderKeepsItsOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a file away")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	made := &tree{order: &order{UID: 12345, GID: 12345}}
	if err := made.makeForCommand(file); err == nil {
		t.Error("no error")
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 {
		t.Errorf("it belongs to %d", owner)
	}
}
