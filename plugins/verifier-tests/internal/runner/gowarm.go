package runner

import (
	"os"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/internal/goflags"
)

// Cold reports whether nothing was compiled yet for runs on this machine: what a run
// compiles is not kept, so that the next would compile it again.
func (p *Plan) Cold() bool {
	if p.Warm == "" {
		return false
	}
	_, err := os.Stat(p.Warm)
	return err != nil
}

// Flags of go test, by what a run that only compiles makes of them: those of the
// build are kept; the values of the others are left out with them.
var (
	testSwitches = []string{"v", "short", "json", "failfast", "benchmem", "cover", "c", "i", "n", "x", "work", "a", "fullpath", "artifacts"}
	testValues   = []string{
		"run", "skip", "bench", "benchtime", "count", "cpu", "parallel", "p", "timeout", "list", "shuffle", "fuzz", "fuzztime", "fuzzminimizetime",
		"coverprofile", "covermode", "coverpkg", "exec", "o", "outputdir", "blockprofile", "blockprofilerate", "cpuprofile",
		"memprofile", "memprofilerate", "mutexprofile", "mutexprofilefraction", "trace", "C",
	}
)

// compileOnly returns the command that compiles what a go test command needs, has go vet
// look at it, which takes as long, and runs true in place of each test program; nil when
// the command has flags that are not known.
func compileOnly(argv []string) []string {
	first := flagsAt(argv)
	// Without a count the results of tests that did not run would be kept.
	compile := slices.Concat(argv[:first], []string{"-exec=true", "-count=1"})
	for i := first; i < len(argv); i++ {
		argument := argv[i]
		if !strings.HasPrefix(argument, "-") {
			compile = append(compile, argument)
			continue
		}
		name, _, joined := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		name = strings.TrimPrefix(name, "test.")
		switch {
		case name == "args":
			return compile
		case slices.Contains(goflags.Switches, name):
			compile = append(compile, argument)
		case slices.Contains(goflags.Values, name) && joined:
			compile = append(compile, argument)
		case slices.Contains(goflags.Values, name) && i+1 < len(argv):
			compile = append(compile, argument, argv[i+1])
			i++
		case slices.Contains(testSwitches, name), slices.Contains(testValues, name) && joined:
		case slices.Contains(testValues, name):
			i++
		default:
			return nil
		}
	}
	return compile
}
