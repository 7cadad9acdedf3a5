package runner

import (
	"os"
	"slices"
)

// Cold reports whether nothing has been compiled yet for runs on this machine. What a run compiles is not
// kept, so each would compile it again.
func (p *Plan) Cold() bool {
	if p.Warm == "" {
		return false
	}
	_, err := os.Stat(p.Warm)
	return err != nil
}

// compileOnly returns a go test command that compiles and vets, but runs true in place of each test program.
// It returns nil if argv itself names such a program.
func compileOnly(argv []string) []string {
	if slices.ContainsFunc([]string{"exec", "toolexec", "vettool"}, func(flag string) bool { return hasFlag(argv, flag) }) {
		return nil
	}
	if end := slices.Index(argv, "-args"); end >= 0 {
		argv = argv[:end]
	}
	// Without -count, go would cache results of tests that did not run.
	return slices.Insert(slices.Clone(argv), flagsAt(argv), "-exec=true", "-count=1")
}
