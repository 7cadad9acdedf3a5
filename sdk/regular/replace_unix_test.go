//go:build unix

package regular_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stepfall/stepfall/sdk/regular"
)

// TestReplace: the file is either the new one with its mode or unchanged, and no temporary file is left.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "file"), filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(folder, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first and long", "second"} {
		if err := regular.Replace(file, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil || string(data) != text {
			t.Errorf("%q, %v", data, err)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != fs.FileMode(0o640) {
		t.Errorf("%v, %v", info, err)
	}
	if regular.Replace(folder, nil, 0o640) == nil {
		t.Error("a folder was replaced")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
}
