package jail

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Runs that end at once may keep files of the same names: each is process 1 of its own.
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
