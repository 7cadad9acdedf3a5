//go:build unix

package regular_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stepfall/stepfall/sdk/regular"
)

// Nobody writes to the pipe, so a blocking open would never return.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.Mkdir(at("tree"), 0o755), os.WriteFile(at("secret"), []byte("s"), 0o600), os.WriteFile(at("tree/file"), []byte("content"), 0o600),
		syscall.Mkfifo(at("tree/pipe"), 0o600), os.Symlink("file", at("tree/link")), os.Symlink("pipe", at("tree/to-pipe")),
		os.Symlink("../secret", at("tree/out")), os.Symlink("/dev/zero", at("tree/zero")), os.Mkdir(at("tree/folder"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(at("tree"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	tree := regular.FS(root)
	for _, c := range []struct {
		name            string
		most            int64
		inTree, outside bool
	}{
		{"file", 7, true, true}, {"file", 6, false, false}, {"link", 7, true, true}, {"pipe", 7, false, false}, {"to-pipe", 7, false, false},
		{"folder", 7, false, false}, {"zero", 7, false, false}, {"out", 7, false, true}, {"none", 7, false, false},
	} {
		data, err := regular.Read(root.OpenFile, c.name, c.most)
		if (err == nil) != c.inTree || c.inTree && string(data) != "content" {
			t.Errorf("%s of a root, %d bytes: %q, %v", c.name, c.most, data, err)
		}
		if _, err := regular.Read(os.OpenFile, filepath.Join(root.Name(), c.name), c.most); (err == nil) != c.outside {
			t.Errorf("%s, %d bytes: %v", c.name, c.most, err)
		}
		if _, err := fs.ReadFile(tree, c.name); (err == nil) != (c.inTree || c.name == "file") {
			t.Errorf("%s of a file system: %v", c.name, err)
		}
	}
	if _, err := regular.Read(root.OpenFile, "pipe", 1); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a pipe: %v", err)
	}
	if entries, err := fs.ReadDir(tree, "."); err != nil || len(entries) != 7 {
		t.Errorf("the folder itself: %v, %v", entries, err)
	}
}
