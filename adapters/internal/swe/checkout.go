package swe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Repository is a git repository whose commits are checked out for attempts. Work trees are reused: only what an
// attempt changed is restored. It is safe for concurrent use, also by several processes.
type Repository struct {
	dir   string
	trees string

	mu   sync.Mutex // held during "git worktree" commands: git does not wait for its lock
	made []*Checkout
	idle []*Checkout // not in use
	next int         // number of the last tree

	histories sync.Mutex          // guards secrets, and the creation of history repositories
	secrets   map[string][]string // files that look like secrets, by commit

	ignored func() (ignoredFiles, error)
}

// OpenRepository opens the repository at dir. Work trees are made under trees, which belongs to this repository and
// this process; the leftovers of an earlier process are removed. The caller closes the repository.
func OpenRepository(ctx context.Context, dir, trees string) (*Repository, error) {
	top, err := git(ctx, dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, fmt.Errorf("opening repository %s, which must be a folder of a git repository with a work tree (not a bare one): %w", dir, err)
	}
	r := &Repository{dir: strings.TrimSpace(top), trees: trees, secrets: map[string][]string{}}
	r.ignored = sync.OnceValues(func() (ignoredFiles, error) { return listIgnored(context.WithoutCancel(ctx), r.dir) })
	if err := removeAll(trees); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(trees, 0o755); err != nil {
		return nil, err
	}
	if _, err := git(ctx, r.dir, "worktree", "prune"); err != nil {
		return nil, err
	}
	return r, nil
}

// CountUncommitted returns how many files of the work tree at dir differ from its commit, untracked files included.
func CountUncommitted(ctx context.Context, dir string) (int, error) {
	out, err := git(ctx, dir, "status", "--porcelain")
	if err != nil {
		return 0, err
	}
	return strings.Count(out, "\n"), nil
}

// Commit resolves a commit name to the full hash; "" means HEAD.
func (r *Repository) Commit(ctx context.Context, name string) (string, error) {
	if name = cmp.Or(name, "HEAD"); fullName.MatchString(name) {
		return name, nil // Checkout fails if there is no such commit
	}
	out, err := git(ctx, r.dir, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("no commit %s in %s", name, r.dir)
	}
	return strings.TrimSpace(out), nil
}

var fullName = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// Close removes the work trees and git's records of them.
func (r *Repository) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var faults []error
	for _, c := range r.made {
		faults = append(faults, c.remove())
	}
	r.made, r.idle = nil, nil
	return errors.Join(faults...)
}

// Checkout is a clean work tree of one commit.
type Checkout struct {
	Dir    string
	Commit string
	// LeftOut lists the files of the commit that look like secrets, see [jail.LooksSecret].
	LeftOut []string
	repo    *Repository
	// readable lists the paths outside the tree that commands need: those that .git points to, and linked
	// dependencies.
	readable []string
	// linked lists the dependency folders that are symbolic links in the tree.
	linked []string
	// admin is git's administrative folder for the tree. It is never read from the tree's .git, which a command in
	// the tree can change.
	admin string
}

// Checkout returns a clean work tree of commit, either an idle one or a new one. The caller closes it.
func (r *Repository) Checkout(ctx context.Context, commit string) (*Checkout, error) {
	for {
		c := r.takeIdle()
		if c == nil {
			return r.add(ctx, commit)
		}
		err := c.reset(ctx, commit)
		if err == nil {
			return c, nil
		}
		// The tree cannot be restored: another one replaces it.
		r.mu.Lock()
		r.made = slices.DeleteFunc(r.made, func(made *Checkout) bool { return made == c })
		fault := c.remove()
		r.mu.Unlock()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if fault != nil {
			return nil, errors.Join(err, fault)
		}
	}
}

func (r *Repository) takeIdle() *Checkout {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.idle) == 0 {
		return nil
	}
	c := r.idle[len(r.idle)-1]
	r.idle = r.idle[:len(r.idle)-1]
	return c
}

func (r *Repository) add(ctx context.Context, commit string) (*Checkout, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	dir := filepath.Join(r.trees, strconv.Itoa(r.next))
	if _, err := git(ctx, r.dir, "worktree", "add", "--quiet", "--detach", "--force", dir, commit); err != nil {
		return nil, fmt.Errorf("making a work tree: %w", err)
	}
	link, err := os.ReadFile(filepath.Join(dir, ".git"))
	if err != nil {
		return nil, fmt.Errorf("making a work tree: %w", err)
	}
	admin := strings.TrimSpace(strings.TrimPrefix(string(link), "gitdir: "))
	if filepath.Base(filepath.Dir(admin)) != "worktrees" {
		return nil, fmt.Errorf("making a work tree: git keeps it in %s", admin)
	}
	c := &Checkout{Dir: dir, Commit: commit, repo: r, admin: admin}
	r.made = append(r.made, c)
	head, err := os.ReadFile(filepath.Join(admin, "HEAD")) // HEAD is detached, so the file holds the hash
	if c.Commit = strings.TrimSpace(string(head)); err != nil || !fullName.MatchString(c.Commit) {
		return nil, fmt.Errorf("making a work tree: git says that it is at %q (%w)", c.Commit, err)
	}
	return c, c.prepare(ctx)
}

// reset checks out a commit and removes all other files, including ignored ones and .git.
func (c *Checkout) reset(ctx context.Context, commit string) error {
	link := filepath.Join(c.Dir, ".git")
	if err := os.RemoveAll(link); err != nil {
		return err
	}
	if _, err := c.git(ctx, "reset", "--quiet", "--hard", commit); err != nil {
		return err
	}
	if _, err := c.git(ctx, "clean", "--quiet", "-ffdx"); err != nil {
		return err
	}
	c.Commit = commit
	return c.prepare(ctx)
}

// git runs git on the tree with c.admin, never with the folder that the tree's .git names: a config there could name
// filters to run.
func (c *Checkout) git(ctx context.Context, args ...string) (string, error) {
	return git(ctx, c.Dir, append([]string{"--git-dir=" + c.admin, "--work-tree=" + c.Dir}, args...)...)
}

// diff compares the tree with its commit. It ignores changes within nested repositories: git would run the filters
// that their configs name, which an attempt can write.
func (c *Checkout) diff(ctx context.Context, options []string, paths ...string) (string, error) {
	args := append([]string{"diff", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"}, options...)
	return c.git(ctx, append(append(args, c.Commit, "--", "."), paths...)...)
}

// submoduleNotes returns a note that lists the commit's submodules, which are empty folders in the tree.
func (c *Checkout) submoduleNotes(ctx context.Context) ([]string, error) {
	if _, err := os.Lstat(filepath.Join(c.Dir, ".gitmodules")); err != nil {
		return nil, nil //nolint:nilerr // there are none
	}
	files, err := c.git(ctx, "ls-files", "--stage", "-z")
	if err != nil {
		return nil, err
	}
	var names []string
	for file := range strings.SplitSeq(files, "\x00") {
		if entry, name, _ := strings.Cut(file, "\t"); strings.HasPrefix(entry, "160000 ") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	return []string{"submodules are not checked out, so attempts and tests lack them: " + strings.Join(names, ", ")}, nil
}

// Apply applies a patch to the tree.
func (c *Checkout) Apply(ctx context.Context, patch string) error {
	return c.gitWithInput(ctx, "applying a patch", patch, "apply", "--whitespace=nowarn", "-")
}

func (c *Checkout) gitWithInput(ctx context.Context, what, input string, args ...string) error {
	args = append([]string{"--git-dir=" + c.admin, "--work-tree=" + c.Dir}, args...)
	if said, err := Git(ctx, c.Dir, strings.NewReader(input), nil, args...); err != nil {
		return fmt.Errorf("%s: %w: %s", what, err, firstLine(said))
	}
	return nil
}

// Close returns the tree to the pool of idle trees.
func (c *Checkout) Close() {
	c.repo.mu.Lock()
	defer c.repo.mu.Unlock()
	c.repo.idle = append(c.repo.idle, c)
}

func (c *Checkout) remove() error {
	if err := errors.Join(removeAll(c.Dir), os.RemoveAll(c.admin), os.RemoveAll(c.gitDir()), os.RemoveAll(c.cacheDir())); err != nil {
		return fmt.Errorf("removing a work tree: %w", err)
	}
	return nil
}

// removeAll removes dir, even where a command took write permission away or the git of a killed process is still
// writing.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	const tries, pause = 100, 50 * time.Millisecond
	for range tries {
		if err := os.RemoveAll(dir); !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
		time.Sleep(pause)
	}
	return os.RemoveAll(dir)
}

// Git runs git in a folder, without hooks, prompts and inherited GIT_* variables. said is its standard error.
func Git(ctx context.Context, dir string, in io.Reader, out io.Writer, args ...string) (said string, err error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"}, args...)...)
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "GIT_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &errs
	err = cmd.Run()
	return errs.String(), err
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	var out bytes.Buffer
	if said, err := Git(ctx, dir, nil, &out, args...); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, firstLine(said))
	}
	return out.String(), nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
