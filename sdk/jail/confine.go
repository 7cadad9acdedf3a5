package jail

import "errors"

// Confinement says how far a long-lived program, a plugin for instance, is confined by
// [Jail.Start]. Its processes are kept together and within limits: pid, rlimits, watchdog,
// cgroup. What there is no layer for stays as it is.
type Confinement struct {
	// Sandbox adds every other layer: no network, and no files but the system's programs
	// and those that are named below. Without it the program sees the files and the network
	// that it would see anyway, and may build jails of its own.
	Sandbox bool
	// ReadOnly and Writable are the paths that a sandboxed program reaches besides
	// [SystemPaths] and its own file.
	ReadOnly, Writable []string
	// Limits are those of all its processes. A zero field means no limit, and Wall
	// and Output do not apply.
	Limits Limits
	// Require are layers and aims without which the program is not started.
	Require []string
}

// StoppedBy begins the line on standard error which says that a program was ended
// for a limit; the [End] follows.
const StoppedBy = "stopped by the jail:"

// ErrLacks is wrapped by the errors that say which required layers could not be had.
var ErrLacks = errors.New("required isolation is not to be had here")
