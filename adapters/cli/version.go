package cli

import "runtime/debug"

// version is the version of the build and of Go.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "of unknown version"
	}
	return info.Main.Version + " " + info.GoVersion
}
