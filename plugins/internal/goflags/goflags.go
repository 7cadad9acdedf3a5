// Package goflags handles the flags and settings of the go command that affect how packages are compiled.
package goflags

import (
	"slices"
	"strings"
)

// switches are build flags without a value, values those with one.
var (
	switches = []string{"race", "msan", "asan", "trimpath", "linkshared", "modcacherw"}
	values   = []string{"tags", "mod", "modfile", "overlay", "gcflags", "asmflags", "ldflags", "gccgoflags", "buildmode", "compiler", "installsuffix", "pgo", "buildvcs", "vet"}
)

// Builds returns the flags of a user's GOFLAGS that are part of the build cache's key, so that the user's
// compiled packages can be reused. It omits flags that name a program or replace sources (-toolexec, -exec,
// -overlay).
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
