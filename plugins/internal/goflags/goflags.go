// Package goflags knows the flags of the go command that say how packages are compiled.
package goflags

import (
	"slices"
	"strings"
)

// switches are the flags of builds without a value, values those that have one.
var (
	switches = []string{"race", "msan", "asan", "trimpath", "linkshared", "modcacherw"}
	values   = []string{"tags", "mod", "modfile", "overlay", "gcflags", "asmflags", "ldflags", "gccgoflags", "buildmode", "compiler", "installsuffix", "pgo", "buildvcs", "vet"}
)

// Builds returns those flags of a user's GOFLAGS without which what the user has compiled
// fits nothing. Flags that name a program or replace sources (-toolexec, -exec, -overlay)
// are not among them.
func Builds(flags string) string {
	builds := []string{"-buildvcs=false"}
	for flag := range strings.FieldsSeq(flags) {
		name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
		if name != "overlay" && (slices.Contains(switches, name) || slices.Contains(values, name)) {
			builds = append(builds, flag)
		}
	}
	return strings.Join(builds, " ")
}
