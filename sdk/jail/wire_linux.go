package jail

// order is the message to the first process of a run, over its first pipe.
type order struct {
	Spec
	// Guest is the long-lived program to run, or nil for a run of a command.
	Guest *guest
	// Namespaces is true if the process was started in new namespaces.
	Namespaces bool
	// UserNamespace is true if a user namespace is among them.
	UserNamespace bool
	// Group is true if the process is in its own cgroup.
	Group bool
	// UID and GID are those of the command; -1 keeps the process's, and the owner of files.
	UID, GID int
	// Before is the usage of the written folders before the Jail's first run in them.
	Before usage
	// Temp is the run's temporary directory if there is no mount namespace. The first process removes it.
	Temp string
	// Probe makes the command this program itself, which exits at once (see [Main]).
	Probe bool

	// shmem is the machine's shared memory in bytes when the run began, set by the first process.
	shmem int64
}

// isUnsandboxed reports whether the order is for a guest with full access to the machine.
func (o *order) isUnsandboxed() bool { return o.Guest != nil && !o.Guest.Sandbox }

// report is the first process's answer, over its second pipe: at the end of a run, or when the guest
// has started. It has those fields of the Result that only the first process knows.
type report struct {
	Error string
	Result
}

// helperName is argv[0] of the first process of a run. innerName is argv[0] of the process between it
// and the command if there are no namespaces. argv[1] is the first of the two descriptors of the pipes
// to the parent.
const (
	helperName = "stepfall-jail"
	// exitAtOnce is for helpers built with the race detector, which would sleep for a second before
	// they exit.
	exitAtOnce = "GORACE=atexit_sleep_ms=0"
	innerName  = "stepfall-jail-inner"
	// probeName is argv[0] of a probe's command.
	probeName = "stepfall-jail-probe"
)

// maxReport limits the size of one file of Spec.Reports, in bytes.
const maxReport = 16 << 20
