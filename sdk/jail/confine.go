package jail

import "errors"

// Confinement configures the isolation of a long-lived program, such as a plugin, that [Jail.Start]
// starts. Its processes are kept together and within limits by the layers pid, rlimits, watchdog and
// cgroup, as far as these are available.
type Confinement struct {
	// Sandbox adds every other layer: no network, and no files except system programs and the paths
	// below. Without it the program keeps its access to files and network, and can itself use a Jail.
	Sandbox bool
	// ReadOnly and Writable are the paths that a sandboxed program can access, besides [SystemPaths]
	// and its own file.
	ReadOnly, Writable []string
	// Limits apply to all its processes together. A zero field means no limit; Wall and Output are
	// ignored.
	Limits Limits
	// Require are layers and aims without which the program is not started.
	Require []string
}

// StoppedBy begins the line on standard error which reports that a program exceeded a limit; the [End]
// follows.
const StoppedBy = "stopped by the jail:"

// ErrLacks is wrapped by errors that list the required layers which are unavailable.
var ErrLacks = errors.New("required isolation is unavailable here")
