package cli

import "runtime/debug"

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "of unknown version"
	}
	return info.Main.Version + " " + info.GoVersion
}
