package jail

import "errors"

// Level says how far a program of its own is confined by [Jail.Start].
type Level string

// The levels. What a level has no layer for stays as it is.
const (
	// Held keeps a program's processes together and within limits: pid, rlimits,
	// watchdog, cgroup. It sees the files and the network that it would see
	// anyway, and may build jails of its own.
	Held Level = "held"
	// Sandboxed has every layer: no network, and no files but the system's
	// programs and what [Confinement] names.
	Sandboxed Level = "sandboxed"
)

// Confinement says how a long-lived program, a plugin for instance, is confined.
type Confinement struct {
	Level Level
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
