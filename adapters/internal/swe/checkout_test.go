package swe_test

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/swe"
)

// Nothing that an attempt leaves in a work tree is visible to the next one.
func TestWorkTreesAreUsedAgainClean(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	repo := filepath.Join(dir, "repo")
	files := map[string]string{"a.txt": "one\n", "sub/b.txt": "two\n", "run.sh": "#!/bin/sh\n", ".gitignore": "*.tmp\n"}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(repo, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	shell(t, repo, "git init -q && git add . && git -c user.name=u -c user.email=u@example.com commit -qm first")
	opened, err := swe.OpenRepository(t.Context(), repo, filepath.Join(dir, "trees"))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	head, err := opened.Commit(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var first string
	for name, left := range map[string]string{
		"nothing":              "true",
		"new and ignored":      "echo x > new.txt; echo x > cache.tmp; mkdir -p deep/er; echo x > deep/er/f",
		"same size and time":   "touch -r a.txt t; echo ONE > a.txt; touch -r t a.txt; rm t",
		"removed":              "rm -r a.txt sub",
		"mode":                 "chmod +x run.sh",
		"a repository":         "git init -q nested; echo x > nested/f",
		"a link in place":      "rm -r sub; ln -s " + outside + " sub",
		"git's link removed":   "rm .git",
		"git's link elsewhere": "rm .git; ln -s " + outside + "/link .git",
		"a folder .git":        "rm .git; mkdir .git; echo x > .git/config",
		"index and commits":    "git add -A; echo y > y; git add y; git -c user.name=u -c user.email=u@example.com commit -qm second",
		"no permissions":       "mkdir shut; echo x > shut/f; chmod 0 shut",
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := opened.Checkout(t.Context(), head)
			if err != nil {
				t.Fatal(err)
			}
			if first == "" {
				first = tree.Dir
			}
			shell(t, tree.Dir, left)
			tree.Close()
			again, err := opened.Checkout(t.Context(), head)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if got := contents(t, again.Dir); !maps.Equal(got, files) {
				t.Errorf("the tree holds %q", got)
			}
			if patch, _, err := again.Diff(t.Context()); err != nil || patch != "" {
				t.Errorf("patch %q, %v", patch, err)
			}
			shell(t, again.Dir, "git rev-parse --verify HEAD && test ! -x run.sh")
		})
	}
	if left := contents(t, outside); len(left) > 0 {
		t.Errorf("written outside: %q", left)
	}
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Join(repo, ".git", "worktrees")); len(left) > 0 {
		t.Errorf("git still knows of %d work trees", len(left))
	}
	if _, err := os.Stat(first); err == nil {
		t.Error("a work tree is left")
	}
}

func TestWorkTreeIsUsedAgainAtAnotherCommit(t *testing.T) {
	b := newBench(t)
	repo := b.repo(t, "ledger")
	defer repo.Close()
	dirs := map[string]bool{}
	for _, id := range []string{"ledger-01", "ledger-02", "ledger-01"} {
		tree, err := repo.Checkout(t.Context(), b.tasks[id].BaseCommit)
		if err != nil {
			t.Fatal(err)
		}
		dirs[tree.Dir] = true
		if tree.Commit != b.tasks[id].BaseCommit {
			t.Errorf("commit %s, want %s", tree.Commit, b.tasks[id].BaseCommit)
		}
		if patch, _, err := tree.Diff(t.Context()); err != nil || patch != "" {
			t.Errorf("%s: patch %q, %v", id, patch, err)
		}
		tree.Close()
	}
	if len(dirs) != 1 {
		t.Errorf("%d work trees were made, want one", len(dirs))
	}
}

// Changes that no patch can hold are left out and listed; the rest of the attempt is a patch.
func TestDiffLeavesOutWhatNoPatchHolds(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	shell(t, dir, `git init -q . && printf 'a\0b' > dev.db && echo one > text && mkdir far && echo one > far/file && git add . && git -c user.name=u -c user.email=u@example.com commit -qm first`)
	repo, err := swe.OpenRepository(t.Context(), dir, filepath.Join(b.dir, "unfit"))
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	head, err := repo.Commit(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		leave string
		want  []string
	}{
		"nothing":              {"true", nil},
		"a link":               {"ln -s text here", []string{"here"}},
		"a file made a link":   {"rm dev.db; ln -s text dev.db", []string{"dev.db"}},
		"a changed database":   {`printf 'c\0d' > dev.db`, []string{"dev.db"}},
		"a new binary":         {`printf 'c\0d' > new.bin`, []string{"new.bin"}},
		"a virtual folder":     {"mkdir -p .v/lib && echo x > .v/pyvenv.cfg && echo y > .v/lib/a.py && ln -s /usr/bin/env .v/lib/z", []string{".v"}},
		"packages":             {"mkdir -p web/node_modules/a/node_modules/b && echo x > web/node_modules/a/i.js && echo x > web/node_modules/a/node_modules/b/i.js", []string{"web/node_modules"}},
		"words like packages":  {"echo node_modules/ > list", nil},
		"a new repository":     {"mkdir sub && cd sub && git init -q && echo x > f", []string{"sub"}},
		"one with a commit":    {"git init -q sub && cd sub && echo x > f && git add . && git -c user.name=u -c user.email=u@example.com commit -qm own", []string{"sub"}},
		"a line break":         {"echo x > 'a\nb'", []string{"a\nb"}},
		"an unreadable file":   {"echo x > shut; chmod 0 shut", []string{"shut"}},
		"one that was there":   {"echo x >> far/file; chmod 0 far/file", []string{"far/file"}},
		"an unreadable folder": {"chmod 0 far", []string{"far"}},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(test.leave, "chmod 0") && os.Geteuid() == 0 {
				t.Skip("root reads everything")
			}
			tree, err := repo.Checkout(t.Context(), head)
			if err != nil {
				t.Fatal(err)
			}
			defer tree.Close()
			shell(t, tree.Dir, "echo two > text;"+test.leave)
			patch, left, err := tree.Diff(t.Context())
			slices.Sort(left)
			if err != nil || !slices.Equal(left, test.want) {
				t.Fatalf("left out %q, want %q (%v)", left, test.want, err)
			}
			if !strings.Contains(patch, "+two") || strings.Contains(patch, "120000") || strings.Contains(patch, "Binary") || len(left) > 0 && strings.Count(patch, "diff --git") != 1 {
				t.Errorf("patch:\n%s", patch)
			}
		})
	}
}

func shell(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// contents returns the regular files below dir except git's, and links as links.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case name == ".git" && entry.IsDir():
			return filepath.SkipDir
		case entry.IsDir() || name == ".git":
			return nil
		case entry.Type()&fs.ModeSymlink != 0:
			found[name] = "link"
			return nil
		}
		data, err := os.ReadFile(path)
		found[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
