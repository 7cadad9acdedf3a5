package swe_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/swe"
)

// Ignored dependencies are installed in the repository only: work trees link to them, and the links are in no patch.
// Ignored files that .worktreeinclude lists are copied, and secrets among them are not.
func TestIgnoredFilesOfWorkTrees(t *testing.T) {
	dir := t.TempDir()
	repo := filepath.Join(dir, "repo")
	for name, text := range map[string]string{
		".gitignore": "node_modules/\n.venv\nbuild\n_version.py\n.env\n*.link\n", ".worktreeinclude": "_version.py\n.env\nunknown.py\nb.js\nnew.py\n*.link\n",
		"pkg/_version.py": "version = 1\n", ".env": "KEY=1\n", "a.js": "require('left');\n", "web/b.js": "\n", "node_modules/left/index.js": "// left\n", "web/node_modules/right/index.js": "\n", ".venv/pyvenv.cfg": "home = /usr/bin\n", "build/out": "x\n",
	} {
		path := filepath.Join(repo, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	shell(t, repo, "git init -q && git add . && git -c user.name=u -c user.email=u@example.com commit -qm first")
	// Since the commit, another file is ignored, and there are links.
	shell(t, repo, "touch unknown.py; mkdir tests; cp .env tests; ln -s .env a.link; ln -s nowhere b.link; ln -s pkg c.link; echo new.py >> .gitignore; touch new.py")
	opened, err := swe.OpenRepository(t.Context(), repo, filepath.Join(dir, "trees"))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	head, err := opened.Commit(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a tree that is new, and one that is used again
		tree, err := opened.Checkout(t.Context(), head)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"node_modules/left/index.js", "web/node_modules/right/index.js", ".venv/pyvenv.cfg"} {
			if _, err := os.Stat(filepath.Join(tree.Dir, name)); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Stat(filepath.Join(tree.Dir, "build")); err == nil {
			t.Error("what was built is linked too")
		}
		if text, err := os.ReadFile(filepath.Join(tree.Dir, "pkg/_version.py")); err != nil || string(text) != "version = 1\n" {
			t.Errorf("an included file: %q, %v", text, err)
		}
		for _, name := range []string{".env", "tests/.env", "unknown.py", "new.py", "a.link", "b.link", "c.link"} {
			if _, err := os.Lstat(filepath.Join(tree.Dir, name)); err == nil {
				t.Errorf("%s is copied", name)
			}
		}
		shell(t, tree.Dir, "echo 1 >> a.js; echo 2 > pkg/_version.py")
		diff, _, err := tree.Diff(t.Context())
		if err != nil || strings.Contains(diff, "node_modules") || strings.Contains(diff, ".venv") || strings.Contains(diff, "version") || !strings.Contains(diff, "+1") {
			t.Errorf("%v: %s", err, diff)
		}
		tree.Close()
	}
	if text, err := os.ReadFile(filepath.Join(repo, "node_modules/left/index.js")); err != nil || string(text) != "// left\n" {
		t.Errorf("the repository's own: %q, %v", text, err)
	}
}
