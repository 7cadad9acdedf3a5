package process

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/sdk/jail"
)

// Spec describes the process to start.
type Spec struct {
	// Path is the program, Args its arguments.
	Path string
	Args []string
	// ExecPath, if not empty, is the file that is executed instead of Path, for
	// instance an open file whose checksum was verified. The program still sees
	// Path as its name.
	ExecPath string
	// Env is the whole environment, except for the handshake's variables.
	Env []string
	// Dir is the working directory; empty means the socket's directory.
	Dir string
	// TempDir is the directory in which the socket's directory is created; empty means the system's. Its
	// path must be short: a socket's is limited to about 100 bytes.
	TempDir string
	// Log receives what the plugin logs and prints; nil discards it.
	Log hclog.Logger
	// Redact are secrets that are redacted in everything logged.
	Redact []string
	// StartTimeout limits the time until the handshake; 0 means 10 s.
	StartTimeout time.Duration
	// StopGrace is how long Stop waits for the plugin to exit by itself; 0 means 1 s.
	StopGrace time.Duration
	// Jail and Confinement confine the process; without them it only has its own process group.
	Jail        *jail.Jail
	Confinement *jail.Confinement
	// ProtocolVersions are offered to the plugin; empty means the current one. Tests of plugins offer
	// others.
	ProtocolVersions []int
	// WithoutCookie starts the program without the handshake cookie, as a person would. It is for tests.
	WithoutCookie bool
}

const (
	defaultStartTimeout = 10 * time.Second
	defaultStopGrace    = time.Second
	// drainTime is how long output is read after the process has exited: a grandchild outside the group
	// can keep the pipe open.
	drainTime = 50 * time.Millisecond
)
