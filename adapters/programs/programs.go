package programs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// environ is that of the test's start: a test that gives itself another home or
// cache folder would compile everything anew.
var environ = os.Environ()

// Build returns a folder with the programs, see [Into].
func Build(t testing.TB, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := Into(dir, names...); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Into puts programs of the project into a folder: stepfall, or plugins by their
// names. They are copies, to do with as one likes. Several processes may call it at
// once.
func Into(dir string, names ...string) error {
	root, err := cloneRoot()
	if err != nil {
		return err
	}
	bin := filepath.Join(root, "bin")
	if err := os.MkdirAll(filepath.Join(bin, "plugins"), 0o755); err != nil { //nolint:gosec // as the Makefile makes it
		return err
	}
	unlock, err := lockedfile.MutexAt(filepath.Join(bin, ".lock")).Lock()
	if err != nil {
		return err
	}
	defer unlock()
	var plugins, built []string
	for _, name := range names {
		if name == "stepfall" {
			// What is up to date is left as it is.
			if err := build(root, filepath.Join("bin", name), "./adapters/cli/stepfall"); err != nil {
				return err
			}
			built = append(built, filepath.Join(bin, name))
			continue
		}
		plugins, built = append(plugins, "./plugins/"+name), append(built, filepath.Join(bin, "plugins", name))
	}
	if len(plugins) > 0 {
		if err := build(root, filepath.Join("bin", "plugins")+string(filepath.Separator), plugins...); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, program := range built {
		if err := copyProgram(program, filepath.Join(dir, filepath.Base(program))); err != nil {
			return err
		}
	}
	return nil
}

// build does what the Makefile does, with the same flags: what one of them has built
// is not stale to the other.
func build(root, to string, packages ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-ldflags=-w", "-o", to}, packages...)...)
	cmd.Dir, cmd.Env = root, environ
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

func cloneRoot() (string, error) {
	cmd := exec.Command("go", "env", "GOMOD")
	cmd.Env = environ
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("asking go for the module's folder: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

func copyProgram(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755) //nolint:gosec // a program
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}
