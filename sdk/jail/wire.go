package jail

import "time"

// order is what the first process of a run reads from descriptor 3.
type order struct {
	Spec
	// Namespaces says that the process was started in new namespaces.
	Namespaces bool
	// UserNamespace says that a user namespace is among them.
	UserNamespace bool
	// UID and GID are what the command runs as; -1 keeps those of the process.
	UID, GID int
	// Temp is the directory to use without a mount namespace. It is removed.
	Temp string
	// Probe: build the walls, start nothing.
	Probe bool
}

// report is what it writes to descriptor 4 in the end.
type report struct {
	Error    string
	End      End
	ExitCode int
	Reports  map[string][]byte
	Touched  []string
	LeftOver int
	Layers   []string
	Missing  map[string]string
	Command  time.Duration
}

// helperName is argv[0] of the first process of a run, innerName that of the one
// between it and the command where there are no namespaces.
const (
	helperName = "stepfall-jail"
	innerName  = "stepfall-jail-inner"
)

// maxReport bounds one file of Spec.Reports.
const maxReport = 16 << 20
