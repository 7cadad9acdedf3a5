package jail

// order is what the first process of a run reads from its first pipe.
type order struct {
	Spec
	// Guest is what the first process hosts, when it is no run of a command.
	Guest *guest
	// Namespaces says that the process was started in new namespaces.
	Namespaces bool
	// UserNamespace says that a user namespace is among them.
	UserNamespace bool
	// Group says that the process is in a cgroup of its own.
	Group bool
	// UID and GID are what the command runs as; -1 keeps those of the process, and leaves
	// a file that is given to it as it is.
	UID, GID int
	// Before is the usage of the written folders before the Jail's first run in them.
	Before usage
	// Temp is the directory to use without a mount namespace. It is removed.
	Temp string
	// Probe: the command is this program itself, which ends at once (see [Main]).
	Probe bool

	// shmem is the machine's shared memory when the run began, set by the first process.
	shmem int64
}

// isUnsandboxed reports whether the guest is to see the machine as it is.
func (o *order) isUnsandboxed() bool { return o.Guest != nil && !o.Guest.Sandbox }

// report is what it writes to the second one: in the end, or when its guest runs.
// It has of a result what only the first process knows.
type report struct {
	Error string
	Result
}

// helperName is argv[0] of the first process of a run, innerName that of the one
// between it and the command where there are no namespaces. argv[1] is the first
// of the two descriptors that join it to the one that started it.
const (
	helperName = "stepfall-jail"
	// exitAtOnce is for helpers built with the race detector, which would sleep for
	// a second before they exit.
	exitAtOnce = "GORACE=atexit_sleep_ms=0"
	innerName  = "stepfall-jail-inner"
	// probeName is that of the command of a probe.
	probeName = "stepfall-jail-probe"
)

// maxReport bounds one file of Spec.Reports.
const maxReport = 16 << 20
