package swe

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/sdk/jail"
)

// attacked returns a jail and a repository whose second commit fixes the first, with keys beside the code and in
// git's settings.
func attacked(t *testing.T) (*Jail, *Repository, string) {
	t.Helper()
	dir := t.TempDir()
	repo := filepath.Join(dir, "repo")
	script := `mkdir -p repo && cd repo && git init -q && git config user.name u && git config user.email u@example.com &&
git remote add origin https://user:token-in-remote@example.com/x.git &&
echo 'API_KEY=committed-key' > .env && echo broken > a.txt && printf 'module example.com/m\n\ngo 1.24\n' > go.mod &&
printf 'package m\n\nimport "testing"\n\nfunc TestM(t *testing.T) {}\n' > m_test.go &&
git add -A && git commit -qm first && git rev-parse HEAD && echo the-very-fix > a.txt && git commit -qam second && git tag v2`
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	opened, err := OpenRepository(t.Context(), repo, filepath.Join(dir, "trees"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	j, err := NewJail(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return j, opened, strings.TrimSpace(string(out))
}

// asAgent runs a script as an agent's command in the tree.
func asAgent(t *testing.T, j *Jail, tree *Checkout, script string) string {
	t.Helper()
	ran, err := j.Run(t.Context(), tree.Dir, tree.readable, tree.cacheDir(), time.Minute, "sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	return ran.Output
}

// TestAttackLaterCommits: git shows an attempt its commit, but no later one and none of the repository's settings.
func TestAttackLaterCommits(t *testing.T) {
	j, repo, commit := attacked(t)
	tree, err := repo.Checkout(t.Context(), commit)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	seen := asAgent(t, j, tree, `git log --all -p; git reflog; git tag; git branch -a; git remote -v; git config -l; git fsck --lost-found; git cat-file --batch-check --batch-all-objects; git show v2; git show origin/HEAD;
for o in $(git cat-file --batch-all-objects --batch-check='%(objectname)'); do git cat-file -p $o; done; cat .git; cat $(sed 's/gitdir: //' .git)/*`)
	if strings.Contains(seen, "the-very-fix") || strings.Contains(seen, "second") || strings.Contains(seen, "token-in-remote") {
		t.Errorf("an attempt saw what came later:\n%s", seen)
	}
	if !strings.Contains(seen, "first") {
		t.Errorf("git does not work in an attempt:\n%s", seen)
	}
	if status := asAgent(t, j, tree, "git status --porcelain; echo new > b.txt; echo more >> a.txt; git status --porcelain; git diff"); !strings.HasPrefix(status, " M a.txt\n?? b.txt\n") || !strings.Contains(status, "+more") {
		t.Errorf("git status says %q", status)
	}
	patch, _, err := tree.Diff(t.Context())
	if err != nil || !strings.Contains(patch, "+more") || !strings.Contains(patch, "b/b.txt") || strings.Contains(patch, ".env") {
		t.Errorf("the patch is %q, %v", patch, err)
	}
}

// TestAttackRepositoryInTheTree: git outside the jail runs no command that an attempt named in the settings or
// attributes of a repository of its own.
func TestAttackRepositoryInTheTree(t *testing.T) {
	j, repo, commit := attacked(t)
	tree, err := repo.Checkout(t.Context(), commit)
	if err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(t.TempDir(), "ran")
	asAgent(t, j, tree, `for name in sub sub/deeper; do
  (git init -q $name && cd $name && git config user.name u && git config user.email u@example.com && echo x > x && git add x && git commit -qm x &&
  printf '* filter=evil diff=evil\n' > .gitattributes &&
  for key in core.fsmonitor core.sshCommand core.pager filter.evil.clean filter.evil.smudge filter.evil.process diff.evil.command diff.evil.textconv diff.external; do git config $key 'touch `+mark+`'; done
  echo y > x && touch -d 2001-01-01 x); done
printf '* filter=evil diff=evil\n' > .gitattributes; echo more >> a.txt; touch -d 2001-01-01 a.txt
rm -f .git; printf '[filter "evil"]\nclean = touch `+mark+`\n[core]\nfsmonitor = touch `+mark+`\n' > config; mkdir .git && cp config .git/config && cp -r sub/.git/* .git/; cp config .git/config`)
	if err := os.RemoveAll(mark); err != nil { // where files are not confined, the agent's own commands may make it
		t.Fatal(err)
	}
	patch, _, err := tree.Diff(t.Context())
	if err != nil || !strings.Contains(patch, "+more") {
		t.Errorf("the patch is %q, %v", patch, err)
	}
	tree.Close()
	if tree, err = repo.Checkout(t.Context(), commit); err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if _, err := os.Lstat(mark); err == nil {
		t.Error("a command of the attempt ran outside of its walls")
	}
	if _, err := os.Lstat(filepath.Join(tree.Dir, "sub")); err == nil {
		t.Error("its repository is still there")
	}
}

// TestAttackSecretsOfTheTree: files that look like secrets are not checked out, and
// a patch does not remove them.
func TestAttackSecretsOfTheTree(t *testing.T) {
	j, repo, commit := attacked(t)
	for range 2 { // the second time in the same tree
		tree, err := repo.Checkout(t.Context(), commit)
		if err != nil {
			t.Fatal(err)
		}
		if seen := asAgent(t, j, tree, "cat .env; grep -r committed-key . ; env"); strings.Contains(seen, "committed-key") {
			t.Errorf("an attempt saw a key:\n%s", seen)
		}
		if patch, _, err := tree.Diff(t.Context()); err != nil || patch != "" {
			t.Errorf("patch %q, %v", patch, err)
		}
		if !slices.Equal(tree.LeftOut, []string{".env"}) {
			t.Errorf("left out %v", tree.LeftOut)
		}
		tree.Close()
	}
}

// Build output in the tree is not part of the patch.
func TestPatchWithoutBinaries(t *testing.T) {
	j, repo, commit := attacked(t)
	tree, err := repo.Checkout(t.Context(), commit)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	asAgent(t, j, tree, `printf 'a\000b' > 'm[1].test'; echo text > 'm[2].txt'`)
	patch, _, err := tree.Diff(t.Context())
	if err != nil || strings.Contains(patch, "m[1]") || !strings.Contains(patch, "m[2]") {
		t.Errorf("the patch is %q, %v", patch, err)
	}
}

// TestAttackFoldersBesidePath: siblings of a folder in PATH are not visible.
func TestAttackFoldersBesidePath(t *testing.T) {
	j, repo, commit := attacked(t)
	if len(jail.Lacks([]string{"filesystem"}, j.Layers)) > 0 {
		t.Skip("files are not confined here:", j.Missing)
	}
	app := filepath.Join(t.TempDir(), "app")
	for name, text := range map[string]string{".env": "beside-path", "bin/tool": "#!/bin/sh\necho the tool ran\n", "src/main.py": "beside-path"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(app, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(app, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(app, "bin")+":"+app+":"+os.Getenv("PATH"))
	tree, err := repo.Checkout(t.Context(), commit)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if seen := asAgent(t, j, tree, "tool; cat "+app+"/.env "+app+"/src/*"); strings.Contains(seen, "beside-path") || !strings.Contains(seen, "the tool ran") {
		t.Errorf("an attempt saw %q", seen)
	}
}

// TestAttackCacheOfAnAttempt: what an attempt adds to Go's build cache is visible to its own commands only.
func TestAttackCacheOfAnAttempt(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs Go tests")
	}
	j, repo, commit := attacked(t)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go here")
	}
	first, err := repo.Checkout(t.Context(), commit)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.compile(t.Context(), first.Dir); err != nil {
		t.Fatal(err)
	}
	out := asAgent(t, j, first, `go test ./... && mkdir -p "$GOCACHE/00" && echo evil > "$GOCACHE/00/planted-d" && ls "$GOCACHE/00"`)
	if !strings.Contains(out, "ok") || !strings.Contains(out, "planted-d") {
		t.Fatalf("output %q", out)
	}
	if again := asAgent(t, j, first, `ls "$GOCACHE/00"`); !strings.Contains(again, "planted-d") {
		t.Errorf("an attempt's own cache is not kept: %q", again)
	}
	second, err := repo.Checkout(t.Context(), commit)
	if err != nil {
		t.Fatal(err)
	}
	if out := asAgent(t, j, second, `ls "$GOCACHE/00"`); strings.Contains(out, "planted") {
		t.Errorf("another attempt finds it: %q", out)
	}
	second.Close()
	first.Close()
	again, err := repo.Checkout(t.Context(), commit)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if out := asAgent(t, j, again, `ls "$GOCACHE/00"`); strings.Contains(out, "planted") {
		t.Errorf("a later attempt in the same tree finds it: %q", out)
	}
}
