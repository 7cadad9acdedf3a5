package runner

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/stepfall/stepfall/plugins/internal/goflags"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/regular"
)

type goTest struct {
	Config

	once sync.Once
	env  goflags.Env
	err  error
}

// goVariables are the go command's variables if its toolchain is unknown.
var goVariables = append(slices.Clip(goflags.Offline), "GOFLAGS=-buildvcs=false")

// flagsOfTest is the index of the flags in a go test command.
const flagsOfTest = 2

// flagsAt returns the index for flags in a go test command: after -C, if there is one.
func flagsAt(argv []string) int {
	if len(argv) > flagsOfTest {
		switch flag, _, joined := strings.Cut(strings.TrimLeft(argv[2], "-"), "="); {
		case flag == "C" && joined:
			return 3
		case flag == "C" && len(argv) > 3:
			return 4
		}
	}
	return flagsOfTest
}

// Folder returns the folder of -C in a go test command, "." if it has none.
func Folder(argv []string) string {
	end := flagsAt(argv)
	if end == flagsOfTest {
		return "."
	}
	_, folder, joined := strings.Cut(argv[end-1], "=")
	if !joined {
		folder = argv[end-1]
	}
	return path.Clean(folder)
}

// MoveFolderFlag returns a command with the -C of go -C DIR test after test, where it means the same.
func MoveFolderFlag(argv []string) []string {
	if goCommand.MatchString(filepath.Base(argv[0])) {
		ordered := slices.Insert(slices.Clone(argv), 1, "test")
		if end := flagsAt(ordered); end > flagsOfTest && end < len(ordered) && ordered[end] == "test" {
			return slices.Delete(ordered, end, end+1)
		}
	}
	return argv
}

var goCommand = regexp.MustCompile(`^go(\.exe)?$`)

// Plan adds -json and -count=1.
func (g *goTest) Plan(argv []string, tree *Tree, _ string) (*Plan, error) {
	plan := &Plan{Argv: slices.Clone(argv), Env: slices.Clone(goVariables)}
	if !g.Foreign {
		if err := g.useToolchain(plan, argv, tree.Dir); err != nil {
			return nil, err
		}
	}
	plan.Argv = withFlag(withFlag(plan.Argv, "-count=1"), "-json")
	return plan, nil
}

// withFlag adds a flag to a go test command that does not have it.
func withFlag(argv []string, flag string) []string {
	name, _, _ := strings.Cut(strings.TrimPrefix(flag, "-"), "=")
	if hasFlag(argv, name) {
		return argv
	}
	return slices.Insert(slices.Clone(argv), flagsAt(argv), flag)
}

// withoutSources is the -exec command that removes the test sources before it runs a test program.
const withoutSources = `sh -c 'rm -f ./*_test.go; exec "$0" "$@"'`

// readsSources matches tests that read source files themselves.
var readsSources = regexp.MustCompile(`\bruntime\.Caller|\.go["\x60]|"go/(ast|build|parser)"|tools/go/`)

// Narrow replaces ./... by the packages of the files, omits go vet, which the complete run has done, and runs
// the tests without their sources.
func (g *goTest) Narrow(argv []string, tree *Tree, files []string) []string {
	argv = withFlag(argv, "-vet=off")
	looks := func(file string) bool {
		data, err := regular.Read(os.OpenFile, filepath.Join(tree.Dir, filepath.FromSlash(file)), maxScript)
		return err != nil || readsSources.Match(data)
	}
	if !slices.ContainsFunc(files, looks) {
		argv = withFlag(argv, "-exec="+withoutSources)
	}
	at := slices.Index(argv, "./...")
	if at < 0 || len(files) == 0 || flagsAt(argv) > flagsOfTest {
		return argv
	}
	var folders []string
	for _, file := range files {
		folders = append(folders, "./"+path.Dir(file))
	}
	slices.Sort(folders)
	return slices.Concat(argv[:at], slices.Compact(folders), argv[at+1:])
}

func (g *goTest) useToolchain(plan *Plan, argv []string, dir string) error {
	g.once.Do(func() { g.env, g.err = goflags.ReadEnv(context.Background(), argv[0], dir) })
	if g.err != nil {
		return g.err
	}
	variables, paths := g.env.Variables()
	plan.Env, plan.ReadOnly = append(plan.Env, variables...), paths
	if g.State == "" {
		plan.Caches = []jail.Cache{g.env.Cache()}
		return nil
	}
	// The version separates what different toolchains wrote.
	warm := filepath.Join(g.State, "go-compiled-"+g.env.GOVERSION)
	if err := sweep(warm); err != nil {
		return fmt.Errorf("sweeping the build cache: %w", err)
	}
	plan.Warm, plan.Compile, plan.Caches = warm, compileOnly(argv), []jail.Cache{g.env.Cache(warm)}
	return nil
}

func hasFlag(argv []string, name string) bool {
	for _, argument := range argv {
		flag, _, _ := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		if strings.HasPrefix(argument, "-") && strings.TrimPrefix(flag, "test.") == name {
			return true
		}
	}
	return false
}
