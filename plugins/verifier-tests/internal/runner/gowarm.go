package runner

import (
	"os"
	"slices"
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

// compileOnly returns a go test command that compiles and vets, but runs true in place of each
// test program; nil when argv names such a program itself.
func compileOnly(argv []string) []string {
	if slices.ContainsFunc([]string{"exec", "toolexec", "vettool"}, func(flag string) bool { return hasFlag(argv, flag) }) {
		return nil
	}
	if end := slices.Index(argv, "-args"); end >= 0 {
		argv = argv[:end]
	}
	// Without a count the results of tests that did not run would be kept.
	return slices.Insert(slices.Clone(argv), flagsAt(argv), "-exec=true", "-count=1")
}
