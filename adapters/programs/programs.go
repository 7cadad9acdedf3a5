package programs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// environ is the environment at the start of the test: with the home or cache folder that a test sets, everything
// would be compiled anew. CGO is off as in the Makefile, even where the race detector needs it for the test itself.
var environ = append(os.Environ(), "CGO_ENABLED=0")

// Build returns a folder with the programs, see [Into].
func Build(t testing.TB, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := Into(dir, names...); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Plugins makes plugins available by name until done is called, in an example, which has no [testing.TB]. TestMain is
// too early for it: go test does not track the files that TestMain reads.
func Plugins(names ...string) (done func()) {
	dir, err := os.MkdirTemp("", "stepfall-plugins")
	if err == nil {
		err = errors.Join(Into(dir, names...), os.Setenv("STEPFALL_PLUGIN_PATH", dir))
	}
	if err != nil {
		panic(err)
	}
	return func() { _ = os.RemoveAll(dir) }
}

// Into copies programs of the project into a folder: stepfall, or plugins by name. The caller owns the copies.
// Concurrent processes can call it. In bin/ it opens only the lock: go updates the time of a program that it leaves
// unchanged, and a test that opens such a file would never be cached by go test.
func Into(dir string, names ...string) error {
	root, err := cloneRoot()
	if err != nil {
		return err
	}
	bin := filepath.Join(root, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // as the Makefile makes it
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
			// Up-to-date programs are left as they are.
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
	_, err = run(root, "cp", append(built, dir)...)
	return err
}

// build builds with the flags of the Makefile, so that neither rebuilds the other's output. It stats the sources, so
// that go test does not use cached results after they change.
func build(root, to string, packages ...string) error {
	if _, err := run(root, "go", append([]string{"build", "-ldflags=-w", "-o", to}, packages...)...); err != nil {
		return err
	}
	sources, err := run(root, "go", append([]string{"list", "-deps", "-f", ownFiles}, packages...)...)
	for file := range strings.SplitSeq(strings.TrimSpace(sources), "\n") {
		_, _ = os.Stat(file)
	}
	return err
}

// ownFiles is the go list template for the source files of packages of this module.
const ownFiles = `{{if and .Module .Module.Main}}{{.Module.GoMod}}
{{.Dir}}{{range .GoFiles}}
{{$.Dir}}/{{.}}{{end}}{{range .EmbedFiles}}
{{$.Dir}}/{{.}}{{end}}{{end}}`

func cloneRoot() (string, error) {
	mod, err := run("", "go", "env", "GOMOD")
	return filepath.Dir(strings.TrimSpace(mod)), err
}

func run(dir, program string, args ...string) (string, error) {
	var said bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, environ, &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, &said)
	}
	return string(out), nil
}
