package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/regular"
)

// store keeps pre-flights and verdicts on disk, for other work trees of the same content
// and for later processes. Several processes may use it at once.
type store struct {
	dir string
	// maxFiles, maxBytes and maxAge bound it; the oldest go first.
	maxFiles int
	maxBytes int64
	maxAge   time.Duration
}

// newStore returns the store in the folder state; nil when there is none.
func newStore(state string) *store {
	if state == "" {
		return nil
	}
	return &store{filepath.Join(state, "preflight"), 512, 64 << 20, 24 * time.Hour}
}

// storedTree is one pre-flight that said something about its tests.
type storedTree struct {
	Report *runner.Report
	Result *jail.Result
}

// key names what a pre-flight depends on: this judge itself, which another build may be better
// than, the content of the tree, the command and what it may use, its program, and the walls.
func (v *Verifier) key(t *tree) (string, error) {
	content, err := t.Content()
	if err != nil {
		return "", err
	}
	judge, err := os.Executable()
	if err != nil {
		return "", err
	}
	layers, _ := t.walls.Layers()
	c := &v.config
	what := []any{
		program(judge), content, c.Command, program(c.Command[0]), c.Env, c.Report, c.ReadOnly, c.Timeout, c.MemoryMiB, c.DiskMiB, c.Processes,
		c.ShowSecrets, layers, jail.ToolEnv(), os.Getenv("GOFLAGS"), v.programs().env, v.programs().paths, t.image, c.Log,
	}
	return hashOf(what)
}

// hashOf returns a name for what can be written as JSON.
func hashOf(what any) (string, error) {
	data, err := json.Marshal(what)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// program tells a program from another version of it.
func program(name string) []any {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return []any{path, info.Size(), info.ModTime().UnixNano()}
}

// get reads what is stored under a key, unless it is unknown or too old.
func (s *store) get(key string, into any) bool {
	path := s.path(key)
	info, err := os.Stat(path)
	if err != nil || time.Since(info.ModTime()) > s.maxAge {
		return false
	}
	data, err := os.ReadFile(path)
	return err == nil && json.Unmarshal(data, into) == nil // else written by a program that was killed, or by another
}

func (s *store) path(key string) string { return filepath.Join(s.dir, key+".json") }

// lock keeps other processes from the same pre-flight meanwhile.
func (s *store) lock(ctx context.Context, key string) (unlock func(), err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	return lockFile(ctx, filepath.Join(s.dir, key+".lock"))
}

// put stores something in one step, so that nobody reads half of it.
func (s *store) put(key string, what any) error {
	data, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if err := regular.Replace(s.path(key), data, 0o600); err != nil {
		return err
	}
	return s.prune()
}

// prune removes the oldest files until the rest is within bounds.
func (s *store) prune() error {
	files, err := runner.Newest(s.dir)
	if err != nil {
		return err
	}
	kept, bytes := 0, int64(0)
	for _, info := range files {
		if strings.HasSuffix(info.Name(), ".json") {
			kept++
			bytes += info.Size()
		}
		old := time.Since(info.ModTime())
		// A lock or a new file may be in use for as long as a pre-flight takes.
		if old > s.maxAge || strings.HasSuffix(info.Name(), ".json") && (kept > s.maxFiles || bytes > s.maxBytes) {
			if err := os.Remove(filepath.Join(s.dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
