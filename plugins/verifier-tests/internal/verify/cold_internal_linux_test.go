package verify

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// slowWalls are those of a machine on which nothing ends in time before it was compiled.
type slowWalls struct {
	isCompiled bool
	compiles   int
	cpu        time.Duration
}

func (s *slowWalls) Layers() ([]string, map[string]string) {
	return []string{jail.LayerMount}, nil
}

func (s *slowWalls) Run(_ context.Context, spec *jail.Spec) (*jail.Result, error) {
	switch {
	case slices.Contains(spec.Argv, "-exec=true"):
		s.isCompiled = true
		s.compiles++
	case !s.isCompiled:
		return &jail.Result{End: jail.EndTimeout}, nil
	}
	pass := `{"Action":"run","Package":"m","Test":"TestF"}` + "\n" + `{"Action":"pass","Package":"m","Test":"TestF"}` + "\n" + `{"Action":"pass","Package":"m"}` + "\n"
	return &jail.Result{End: jail.EndExit, Stdout: []byte(pass), CPU: s.cpu}, nil
}

// A toolchain that must compile first gets the time for it, on a tree that is seen for the first time.
func TestColdToolchain(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no Go here")
	}
	cache := t.TempDir() // which has something of another project
	t.Setenv("GOCACHE", cache)
	writeTo(t, filepath.Join(cache, "00"), "x-d", "")
	for _, command := range [][]string{{"go", "test", "./..."}, {"make", "check"}} {
		v := New(Config{Command: command, Preflight: true, CacheDir: t.TempDir()}, &slowWalls{})
		dir := t.TempDir()
		writeTo(t, dir, "go.mod", "module m\n")
		verdict, err := v.Verify(t.Context(), &sdk.VerifyRequest{Query: &sdk.Query{WorkDir: dir}, Answer: &sdk.Answer{}})
		if err != nil || verdict.Outcome == sdk.Inconclusive {
			t.Errorf("%q: %v %+v", command, err, verdict)
		}
	}
}

// Without a pre-flight the first run on an answer tells whether its packages are compiled once for
// all that follow.
func TestCompilesWithoutAPreflight(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no Go here")
	}
	for name, c := range map[string]struct {
		walls   slowWalls
		hasWarm bool
		want    int
	}{
		"nothing is compiled": {slowWalls{isCompiled: true}, false, 1},
		"small":               {slowWalls{isCompiled: true, cpu: time.Millisecond}, true, 0},
		"large":               {slowWalls{isCompiled: true, cpu: time.Minute}, true, 1},
		"not in time":         {slowWalls{}, true, 1},
	} {
		dir, state := t.TempDir(), t.TempDir()
		writeTo(t, dir, "go.mod", "module m\n")
		writeTo(t, dir, "a_test.go", "package m\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n\tif F() != 1 {\n\t\tt.Fail()\n\t}\n}\n")
		if c.hasWarm {
			writeTo(t, filepath.Join(state, "go-compiled-"+runtime.Version()), "README", "")
		}
		v := New(Config{Command: []string{"go", "test", "./..."}, CacheDir: state}, &c.walls)
		for range 2 {
			verdict, err := v.Verify(t.Context(), &sdk.VerifyRequest{Query: &sdk.Query{WorkDir: dir}, Answer: &sdk.Answer{Text: "```go path=a.go\npackage m\n\nfunc F() int { return 1 }\n```\n"}})
			if err != nil || verdict.Outcome == sdk.Inconclusive {
				t.Errorf("%s: %v %+v", name, err, verdict)
			}
		}
		if c.walls.compiles != c.want {
			t.Errorf("%s: compiled %d times, want %d", name, c.walls.compiles, c.want)
		}
	}
}

func writeTo(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// Other build flags make another command.
func TestKeyHoldsFlagsOfBuilds(t *testing.T) {
	v := New(Config{Command: []string{"make", "check"}, Preflight: true, CacheDir: t.TempDir()}, &slowWalls{})
	tree, err := openTree(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer tree.close()
	tree.walls = &slowWalls{}
	keys := map[string]bool{}
	for _, flags := range []string{"-tags=a", "-tags=b"} {
		t.Setenv("GOFLAGS", flags)
		key, err := v.key(tree)
		if err != nil {
			t.Fatal(err)
		}
		keys[key] = true
	}
	if len(keys) != 2 {
		t.Error("both have the same key")
	}
}
