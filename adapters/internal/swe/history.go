package swe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// historyDepth is the number of commits of history that an attempt can see.
const historyDepth = 50

// history returns a repository that holds only a commit and some of its ancestors: no later commit, which could hold
// the very fix, no branch, and none of the repository's settings, which could hold a token. It is made once per
// commit; the result is "" where git cannot make it.
func (r *Repository) history(ctx context.Context, commit string) (string, error) {
	r.histories.Lock()
	defer r.histories.Unlock()
	dir := filepath.Join(r.trees, "history-"+commit)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	// The git of a killed run may still be writing there, so a failed removal is no error.
	left, _ := filepath.Glob(dir + ".new*")
	for _, old := range left {
		_ = os.RemoveAll(old)
	}
	making, err := os.MkdirTemp(r.trees, filepath.Base(dir)+".new")
	if err != nil {
		return "", err
	}
	if err = r.fetchHistory(ctx, making, commit); err == nil {
		err = os.Rename(making, dir)
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", os.RemoveAll(making)
	}
	return dir, nil
}

func (r *Repository) fetchHistory(ctx context.Context, dir, commit string) error {
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the jail's user reads it
		return err
	}
	if _, err := git(ctx, r.trees, "init", "--quiet", "--bare", "--template=", dir); err != nil {
		return err
	}
	// The repository's own configuration need not allow fetching a commit by hash, so upload-pack is told to.
	_, err := git(ctx, dir, "fetch-pack", "--quiet", fmt.Sprintf("--depth=%d", historyDepth),
		"--upload-pack=git -c uploadpack.allowAnySHA1InWant=true upload-pack", "file://"+r.dir, commit)
	return err
}

// prepare removes the files that look like secrets, links the dependencies, copies the included files, and points .git
// at the history that an attempt can see.
func (c *Checkout) prepare(ctx context.Context) error {
	if err := errors.Join(c.removeSecrets(ctx), os.RemoveAll(c.cacheDir())); err != nil {
		return err
	}
	if err := errors.Join(c.linkDependencies(), c.copyIncluded(ctx)); err != nil {
		return err
	}
	link := filepath.Join(c.Dir, ".git")
	if err := errors.Join(os.RemoveAll(link), os.RemoveAll(c.gitDir())); err != nil {
		return err
	}
	history, err := c.repo.history(ctx, c.Commit)
	if err != nil || history == "" {
		return err
	}
	index, err := os.ReadFile(filepath.Join(c.admin, "index"))
	if err != nil {
		return err
	}
	if err := os.Mkdir(c.gitDir(), 0o755); err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"HEAD": []byte(c.Commit + "\n"), "commondir": []byte(history + "\n"), "gitdir": []byte(link + "\n"), "index": index,
	} {
		if err := os.WriteFile(filepath.Join(c.gitDir(), name), text, 0o644); err != nil {
			return err
		}
	}
	c.readable = append(c.readable, c.gitDir(), history)
	return os.WriteFile(link, []byte("gitdir: "+c.gitDir()+"\n"), 0o644)
}

// gitDir is the git folder for the commands of an attempt.
func (c *Checkout) gitDir() string { return c.Dir + ".git" }

// removeSecrets removes the files that look like secrets from the tree, and marks them skip-worktree so that no diff
// shows them as deleted.
func (c *Checkout) removeSecrets(ctx context.Context) error {
	var err error
	if c.LeftOut, err = c.repo.secretsOf(ctx, c); err != nil || len(c.LeftOut) == 0 {
		return err
	}
	if err := c.gitWithInput(ctx, "leaving out secrets", strings.Join(c.LeftOut, "\x00")+"\x00", "update-index", "--skip-worktree", "-z", "--stdin"); err != nil {
		return err
	}
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range c.LeftOut {
		if err := root.RemoveAll(filepath.FromSlash(name)); err != nil {
			return fmt.Errorf("leaving out secrets: %w", err)
		}
	}
	return nil
}

// secretsOf returns the files of c, which must just have been checked out, that look like secrets. Results are cached
// by commit.
func (r *Repository) secretsOf(ctx context.Context, c *Checkout) ([]string, error) {
	r.histories.Lock()
	defer r.histories.Unlock()
	if known, ok := r.secrets[c.Commit]; ok {
		return known, nil
	}
	list, err := c.git(ctx, "ls-files", "-z")
	if err != nil {
		return nil, err
	}
	var found []string
	for name := range strings.SplitSeq(list, "\x00") {
		if name != "" && jail.LooksSecret(name) {
			found = append(found, name)
		}
	}
	r.secrets[c.Commit] = found
	return found, nil
}

// cacheDir is the build cache of commands in the tree. It is empty when an attempt starts.
func (c *Checkout) cacheDir() string { return c.Dir + ".cache" }
