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

// store keeps pre-flights and verdicts on disk, for other work trees with the same content and for later processes.
// Several processes can use it concurrently.
type store struct {
	dir string
	// maxFiles, maxBytes and maxAge limit its size; the oldest files are removed first.
	maxFiles int
	maxBytes int64
	maxAge   time.Duration
}

// newStore returns the store in the directory state, or nil if that is empty.
func newStore(state string) *store {
	if state == "" {
		return nil
	}
	return &store{filepath.Join(state, "preflight"), 512, 64 << 20, 24 * time.Hour}
}

// storedTree is a usable pre-flight.
type storedTree struct {
	Report *runner.Report
	Result *jail.Result
	Pruned []jail.Change
	Rest   runner.Report
}

// key returns the key of a pre-flight, a hash of everything that it depends on: this program, which another build may
// have improved, the content of the tree, the command with its settings and program, and the isolation.
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

// hashOf returns a hash of the JSON encoding of what.
func hashOf(what any) (string, error) {
	data, err := json.Marshal(what)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// program identifies the version of a program.
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

// get reads the entry of a key, unless it does not exist or is too old.
func (s *store) get(key string, into any) bool {
	path := s.path(key)
	info, err := os.Stat(path)
	if err != nil || time.Since(info.ModTime()) > s.maxAge {
		return false
	}
	data, err := os.ReadFile(path)
	return err == nil && json.Unmarshal(data, into) == nil // it may be damaged, or of another format
}

func (s *store) path(key string) string { return filepath.Join(s.dir, key+".json") }

// lock keeps other processes from running the same pre-flight concurrently.
func (s *store) lock(ctx context.Context, key string) (unlock func(), err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	return lockFile(ctx, filepath.Join(s.dir, key+".lock"))
}

// put writes an entry atomically.
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

// prune removes the oldest files until the rest is within the limits.
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
		// A lock or a new file can be in use for as long as a pre-flight takes.
		if old > s.maxAge || strings.HasSuffix(info.Name(), ".json") && (kept > s.maxFiles || bytes > s.maxBytes) {
			if err := os.Remove(filepath.Join(s.dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
