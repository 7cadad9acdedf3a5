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

// historyDepth is how many commits before its own an attempt may look at.
const historyDepth = 50

// history returns a repository that holds a commit, some of those before it, and
// nothing else: no later commit, which may hold the very fix, no branch, and none of
// the repository's settings, which may hold a token. It is made once for a commit.
// There is none ("") where git cannot make it.
func (r *Repository) history(ctx context.Context, commit string) (string, error) {
	r.histories.Lock()
	defer r.histories.Unlock()
	dir := filepath.Join(r.trees, "history-"+commit)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	// What a killed run left: its git may still write there, so that it need not go.
	if left, err := filepath.Glob(dir + ".new*"); err == nil {
		for _, old := range left {
			_ = os.RemoveAll(old)
		}
	}
	making, err := os.MkdirTemp(r.trees, filepath.Base(dir)+".new")
	if err != nil {
		return "", err
	}
	err = func() error {
		if err := os.Chmod(making, 0o755); err != nil { //nolint:gosec // the jail's user reads it
			return err
		}
		if _, err := git(ctx, r.trees, "init", "--quiet", "--bare", "--template=", making); err != nil {
			return err
		}
		// The repository is asked for a commit by its name, which it need not allow to others.
		_, err := git(ctx, making, "fetch-pack", "--quiet", fmt.Sprintf("--depth=%d", historyDepth),
			"--upload-pack=git -c uploadpack.allowAnySHA1InWant=true upload-pack", "file://"+r.dir, commit)
		if err != nil {
			return err
		}
		return os.Rename(making, dir)
	}()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", os.RemoveAll(making)
	}
	return dir, nil
}

// show makes .git of the tree lead to what an attempt may know of the repository,
// and leaves out files that look like secrets.
func (c *Checkout) show(ctx context.Context) error {
	if err := errors.Join(c.leaveOut(ctx), os.RemoveAll(c.cache())); err != nil {
		return err
	}
	if err := c.linkDependencies(); err != nil {
		return err
	}
	link := filepath.Join(c.Dir, ".git")
	if err := errors.Join(os.RemoveAll(link), os.RemoveAll(c.shadow())); err != nil {
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
	if err := os.Mkdir(c.shadow(), 0o755); err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"HEAD": []byte(c.Commit + "\n"), "commondir": []byte(history + "\n"), "gitdir": []byte(link + "\n"), "index": index,
	} {
		if err := os.WriteFile(filepath.Join(c.shadow(), name), text, 0o644); err != nil {
			return err
		}
	}
	c.readable = append(c.readable, c.shadow(), history)
	return os.WriteFile(link, []byte("gitdir: "+c.shadow()+"\n"), 0o644)
}

// shadow is the folder that git has for the tree in the eyes of an attempt.
func (c *Checkout) shadow() string { return c.Dir + ".git" }

// leaveOut removes the files that look like secrets from the tree. Git is told that
// they are not checked out, so that no diff has them as removed.
func (c *Checkout) leaveOut(ctx context.Context) error {
	var err error
	if c.LeftOut, err = c.repo.secretsOf(ctx, c); err != nil || len(c.LeftOut) == 0 {
		return err
	}
	if err := c.gitFrom(ctx, "leaving out secrets", strings.Join(c.LeftOut, "\x00")+"\x00", "update-index", "--skip-worktree", "-z", "--stdin"); err != nil {
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

// secretsOf returns the files that look like secrets of the commit that was just checked
// out as c. It is looked up once for a commit.
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
	if r.secrets == nil {
		r.secrets = map[string][]string{}
	}
	r.secrets[c.Commit] = found
	return found, nil
}

// cache is the folder of what the commands in the tree have compiled. It begins
// empty for every attempt.
func (c *Checkout) cache() string { return c.Dir + ".cache" }
