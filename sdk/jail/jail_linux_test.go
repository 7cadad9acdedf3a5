package jail_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stepfall/stepfall/sdk/jail"
)

func TestMain(m *testing.M) {
	jail.Main()
	if len(os.Args) > 2 && os.Args[1] == "hostile" {
		os.Exit(hostile(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

var system = []string{"/usr", "/bin", "/lib", "/lib64", "/lib32"}

func open(t testing.TB) *jail.Jail {
	t.Helper()
	j, err := jail.Open(t.Context(), jail.Options{Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// need skips the test if its layers are unavailable on this machine.
func need(t *testing.T, j *jail.Jail, names ...string) {
	t.Helper()
	layers, missing := j.Layers()
	if lacks := jail.Lacks(names, layers); len(lacks) > 0 {
		t.Skipf("the machine lacks %s: %v", strings.Join(lacks, ", "), missing)
	}
}

func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func shell(dir, script string) *jail.Spec {
	return &jail.Spec{Dir: dir, Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, ReadOnly: system}
}

func run(t *testing.T, j *jail.Jail, spec *jail.Spec) *jail.Result {
	t.Helper()
	result, err := j.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %d in %s (command %s)\n%s%s", result.End, result.ExitCode, result.Duration, result.Command, result.Stdout, result.Stderr)
	return result
}

// Files of the tree that another process changes while the command runs are not taken for written by it.
func TestDisturbedFiles(t *testing.T) {
	j := open(t)
	need(t, j, jail.LayerMount)
	dir := tree(t, map[string]string{"linked": "x", "chmod": "x", "edited": "x", "gone": "x", "written": "x", "removed": "x", "kept": "x"})
	for _, folder := range []string{"whited", "replaced", "beside"} {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, folder), 0o755), os.WriteFile(filepath.Join(dir, folder, "file"), []byte("x"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("beside", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	signal := t.TempDir()
	if err := os.Chmod(signal, 0o777); err != nil { //nolint:gosec // the command has another uid
		t.Fatal(err)
	}
	const script = `rm written; echo y > written; rm removed; rm -r whited replaced; mkdir replaced; touch beside/new; echo > $SIGNAL/running; while ! test -e $SIGNAL/done; do sleep 0.05; done`
	spec := shell(dir, script)
	spec.Env, spec.Writable = append(spec.Env, "SIGNAL="+signal), []string{signal}
	spec.Guarded = []string{"linked", "chmod", "edited", "gone", "written", "removed", "kept", "whited/file", "replaced/file", "beside/file", "link/file"}
	go func() {
		for !exists(filepath.Join(signal, "running")) && t.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		at := func(name string) string { return filepath.Join(dir, name) }
		if err := errors.Join(os.Link(at("linked"), at("second")), os.Chmod(at("chmod"), 0o600), os.WriteFile(at("edited"), []byte("z"), 0o644), os.Remove(at("gone")),
			os.Chmod(at("beside/file"), 0o600), os.WriteFile(filepath.Join(signal, "done"), nil, 0o644)); err != nil {
			t.Error(err)
		}
	}()
	result := run(t, j, spec)
	if want := []string{"written", "removed", "whited/file", "replaced/file"}; !slices.Equal(result.Touched, want) {
		t.Errorf("touched %q", result.Touched)
	}
	if want := []string{"linked", "chmod", "edited", "gone", "beside/file", "link/file"}; !slices.Equal(result.Disturbed, want) {
		t.Errorf("disturbed %q", result.Disturbed)
	}
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// What a run writes through a link to a folder is its own.
func TestTouchedThroughALink(t *testing.T) {
	dir := tree(t, nil)
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o755), os.WriteFile(filepath.Join(dir, "real", "file"), []byte("x"), 0o644),
		os.Symlink("real", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	spec := shell(dir, `rm real/file; echo y > real/file`)
	spec.Guarded = []string{"link/file"}
	if result := run(t, open(t), spec); !slices.Equal(result.Touched, spec.Guarded) {
		t.Errorf("touched %q, disturbed %q", result.Touched, result.Disturbed)
	}
}

func TestTree(t *testing.T) { treeIsAView(t, open(t)) }

func treeIsAView(t *testing.T, j *jail.Jail) {
	dir := tree(t, map[string]string{"a": "old\n", "gone": "x", "guarded": "keep", "kept": "keep"})
	spec := shell(dir, `cat a; test ! -e gone && cat sub/new; echo made > b; echo report > out.xml; rm guarded; echo keep > guarded; exit 3`)
	spec.Changes = []jail.Change{{Path: "a", Data: []byte("new\n")}, {Path: "gone", Delete: true}, {Path: "sub/new", Data: []byte("deep\n")}}
	spec.Reports, spec.Guarded = []string{"out.xml", "none.xml"}, []string{"guarded", "kept"}
	result := run(t, j, spec)
	if got := string(result.Stdout); got != "new\ndeep\n" {
		t.Errorf("the command saw %q", got)
	}
	if result.End != jail.EndExit || result.ExitCode != 3 {
		t.Errorf("end %s, exit code %d", result.End, result.ExitCode)
	}
	if got := string(result.Reports["out.xml"]); got != "report\n" || len(result.Reports) != 1 {
		t.Errorf("reports %q", result.Reports)
	}
	if !slices.Equal(result.Touched, []string{"guarded"}) {
		t.Errorf("touched %q", result.Touched)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(data) != "old\n" {
		t.Errorf("the tree on disk was written to: %q %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "b")); err == nil {
		t.Error("a file was made in the tree on disk")
	}
}

// Tools keep caches in installation folders, which are not copied for every run.
func TestInstalledFolderIsWritable(t *testing.T) {
	dir := tree(t, nil)
	if err := os.CopyFS(filepath.Join(dir, "node_modules"), fstest.MapFS{"left/index.js": {Data: []byte("left")}}); err != nil {
		t.Fatal(err)
	}
	spec := shell(dir, `mkdir node_modules/.vite && echo x > node_modules/.vite/results && cat node_modules/left/index.js`)
	if result := run(t, open(t), spec); result.ExitCode != 0 || string(result.Stdout) != "left" {
		t.Errorf("exit code %d, %q", result.ExitCode, result.Stdout)
	}
}

// TestLargeCacheIsNotCopied: without mounts, a large cache is not copied for every run, unless trusted runs kept it.
func TestLargeCacheIsNotCopied(t *testing.T) {
	j, err := jail.Open(t.Context(), jail.Options{Temp: t.TempDir(), NoNamespaces: true})
	if err != nil {
		t.Fatal(err)
	}
	large := tree(t, map[string]string{"large": strings.Repeat("x", 65<<20)})
	small := tree(t, map[string]string{"small": "x"})
	for _, c := range []struct {
		lower []string
		want  string
	}{ // of caches that are copied
		{[]string{small}, "small\n"}, {[]string{large}, ""}, {[]string{large, small}, "large\n"}, {[]string{small, large}, "small\n"},
		{[]string{filepath.Join(small, "none"), large}, ""},
	} {
		spec := shell(tree(t, nil), `ls "$BUILT"`)
		spec.Env = append(slices.Clone(spec.Env), "BUILT=/tmp/built")
		spec.Caches = []jail.Cache{{Path: "/tmp/built", Lower: c.lower, Deep: true}}
		if result := run(t, j, spec); string(result.Stdout) != c.want {
			t.Errorf("below %v is seen %q, want %q; end %s", c.lower, result.Stdout, c.want, result.End)
		}
	}
}

// Without mounts, a cache of any size begins with links to its content: the run can read that and write beside it,
// but not write to it.
func TestCacheIsLinked(t *testing.T) {
	j, err := jail.Open(t.Context(), jail.Options{Temp: t.TempDir(), NoNamespaces: true})
	if err != nil {
		t.Fatal(err)
	}
	if layers, _ := j.Layers(); !slices.Contains(layers, jail.LayerLandlock) {
		t.Skip("the kernel has no Landlock")
	}
	lower := tree(t, map[string]string{"first": "1"})
	if err := os.Mkdir(filepath.Join(lower, "00"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"00/a": "old", "00/large": strings.Repeat("x", 65<<20)} {
		if err := os.WriteFile(filepath.Join(lower, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	keep := t.TempDir()
	spec := shell(tree(t, nil), `cd "$BUILT" && cat 00/a first && wc -c <00/large; echo bad >00/a; rm 00/large && echo mine >00/large; echo new >00/b; cat 00/*`)
	spec.Env = append(slices.Clone(spec.Env), "BUILT=/tmp/built")
	none := filepath.Join(lower, "none")
	// What is the first of several is linked to by links that are used again.
	for _, dirs := range [][]string{{none, lower}, {lower, none}, {lower, none}} {
		spec.Caches = []jail.Cache{{Path: "/tmp/built", Lower: dirs, Keep: keep}}
		if result := run(t, j, spec); string(result.Stdout) != "old1"+"68157440\n"+"oldnew\nmine\n" {
			t.Errorf("the run saw %q, %q, end %s", result.Stdout, result.Stderr, result.End)
		}
	}
	if old, err := os.ReadFile(filepath.Join(lower, "00/a")); string(old) != "old" {
		t.Errorf("what was linked to holds %q, %v", old, err)
	}
	if info, err := os.Stat(filepath.Join(lower, "00/large")); err != nil || info.Size() != 65<<20 {
		t.Errorf("what was linked to is %v, %v", info, err)
	}
	kept, err := filepath.Glob(filepath.Join(keep, "00/*"))
	if want := []string{filepath.Join(keep, "00/b"), filepath.Join(keep, "00/large")}; err != nil || !slices.Equal(kept, want) {
		t.Errorf("kept %v, %v, want what is new", kept, err)
	}
}

// What a compiler has done before a timeout need not be done again.
func TestCacheOfAStoppedRunIsKept(t *testing.T) {
	both(t, func(t *testing.T, j *jail.Jail) {
		keep := t.TempDir()
		spec := shell(tree(t, nil), `mkdir -p "$BUILT/00" && echo new >"$BUILT/00/a" && sleep 60`)
		spec.Env = append(slices.Clone(spec.Env), "BUILT=/tmp/built")
		spec.Caches, spec.Limits.Wall = []jail.Cache{{Path: "/tmp/built", Keep: keep}}, 2*time.Second
		result := run(t, j, spec)
		if text, err := os.ReadFile(filepath.Join(keep, "00/a")); result.End != jail.EndTimeout || string(text) != "new\n" {
			t.Errorf("%s: kept %q, %v", result.End, text, err)
		}
	})
}

func TestInPlace(t *testing.T) { inPlace(t, open(t)) }

func inPlace(t *testing.T, j *jail.Jail) {
	dir, cache, other := tree(t, map[string]string{"a": "old\n"}), t.TempDir(), tree(t, map[string]string{"kept": "kept\n"})
	spec := shell(dir, "echo new > a; echo made > "+cache+"/made; cat "+other+"/kept; echo no > "+other+"/kept; echo oops >&2; exit 3")
	spec.InPlace, spec.CombineOutput, spec.Writable, spec.ReadOnly = true, true, []string{cache}, append(spec.ReadOnly, other)
	result := run(t, j, spec)
	if result.End != jail.EndExit || result.ExitCode != 3 {
		t.Errorf("end %s, exit code %d", result.End, result.ExitCode)
	}
	if out := string(result.Stdout); !strings.HasPrefix(out, "kept\n") || !strings.HasSuffix(out, "oops\n") {
		t.Errorf("output %q", out)
	}
	for path, want := range map[string]string{dir + "/a": "new\n", cache + "/made": "made\n", other + "/kept": "kept\n"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s holds %q, want %q (%v)", path, got, want, err)
		}
	}
}

func TestRequired(t *testing.T) {
	both(t, func(t *testing.T, j *jail.Jail) {
		layers, missing := j.Layers()
		spec := shell(tree(t, nil), "echo ran")
		spec.Require = slices.Concat(layers, slices.Collect(maps.Keys(missing)))
		result := run(t, j, spec)
		lacks := jail.Lacks(spec.Require, layers)
		if len(lacks) == 0 {
			t.Skip("nothing is missing on this machine")
		}
		if result.End != jail.EndRefused || len(result.Stdout) > 0 || !slices.Equal(slices.Sorted(slices.Values(result.Lacks)), slices.Sorted(slices.Values(lacks))) {
			t.Errorf("end %s, lacks %v, output %q", result.End, result.Lacks, result.Stdout)
		}
		spec.Require = layers
		if result := run(t, j, spec); result.End != jail.EndExit || string(result.Stdout) != "ran\n" {
			t.Errorf("end %s, output %q", result.End, result.Stdout)
		}
	})
}

func TestNoSuchCommand(t *testing.T) {
	spec := shell(tree(t, nil), "")
	spec.Argv = []string{"stepfall-no-such-command"}
	if result := run(t, open(t), spec); result.ExitCode != 127 || !strings.Contains(string(result.Stderr), "not found") {
		t.Errorf("exit code %d, %q", result.ExitCode, result.Stderr)
	}
}

// TestUnreachablePathsAreLeftOut: an environment can name folders of another user.
func TestUnreachablePathsAreLeftOut(t *testing.T) {
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o000); err != nil {
		t.Fatal(err)
	}
	both(t, func(t *testing.T, j *jail.Jail) {
		spec := shell(tree(t, nil), "echo ran")
		spec.ReadOnly = append(slices.Clone(spec.ReadOnly), filepath.Join(closed, "tools"))
		if result := run(t, j, spec); string(result.Stdout) != "ran\n" {
			t.Errorf("end %s, output %q", result.End, result.Stdout)
		}
	})
}
