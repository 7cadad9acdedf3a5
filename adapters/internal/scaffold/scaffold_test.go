package scaffold_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/scaffold"
	"github.com/stepfall/stepfall/sdk/plugintest"
)

func project(t *testing.T, o scaffold.Options) string {
	t.Helper()
	o.Dir = filepath.Join(t.TempDir(), o.Name)
	if _, err := scaffold.Write(o); err != nil {
		t.Fatal(err)
	}
	return o.Dir
}

// kinds returns the projects whose own tests are run: a verifier, and with all attacks an estimator too.
func kinds() []string {
	list := []string{"verifier-words", "estimator-words"}
	if os.Getenv("STEPFALL_ATTACKS") != "all" {
		return list[:1]
	}
	return list
}

// A new Go project builds offline, and its tests pass, including conformance.
func TestGoProjects(t *testing.T) {
	if testing.Short() {
		t.Skip("builds projects and runs their tests")
	}
	if os.Getenv("STEPFALL_ATTACKS") != "all" {
		t.Skip("STEPFALL_ATTACKS is not all: the third walk of docs runs the tests of a new project in Go")
	}
	for _, name := range kinds() {
		t.Run(name, func(t *testing.T) {
			dir := project(t, scaffold.Options{Name: name, Lang: "go", Source: scaffold.FindSource(".")})
			cmd := exec.Command("go", "test", "-vet=all", "./...")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", cmd, err, out)
			}
		})
	}
}

// The tests of a new Python project pass too.
func TestPythonProjects(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the tests of projects, some of which wait")
	}
	interpreter, ok := scaffold.FindPython()
	if !ok {
		t.Skip("there is no python3 with grpcio, protobuf and cryptography")
	}
	for _, name := range kinds() {
		t.Run(name, func(t *testing.T) {
			dir := project(t, scaffold.Options{Name: name, Lang: "python", Python: interpreter})
			cmd := exec.Command(cmp.Or(interpreter, "python3"), "-m", "unittest")
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("unittest: %v\n%s", err, out)
			}
			plugintest.Test(t, plugintest.Options{Path: filepath.Join(dir, name)})
		})
	}
}

func TestRefusals(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]scaffold.Options{
		"is no name for a plugin":  {Name: "Bad Name", Lang: "go"},
		"there is no template for": {Name: "verifier-x", Lang: "rust", Dir: t.TempDir()},
		"is not empty":             {Name: "verifier-x", Lang: "go", Dir: full},
		"for the role":             {Name: "verifier-x", Lang: "go", Role: "oracle", Dir: t.TempDir()},
	} {
		if _, err := scaffold.Write(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", o, err, want)
		}
	}
}
