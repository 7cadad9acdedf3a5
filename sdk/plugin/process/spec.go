package process

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/sdk/jail"
)

// Spec says what to start and how.
type Spec struct {
	// Path is the program. Args follow it.
	Path string
	Args []string
	// ExecPath is what is really executed when it is not empty, for instance an
	// open file of which the checksum is known; the program still sees Path as
	// its name.
	ExecPath string
	// Env is the whole environment, apart from what the handshake adds.
	Env []string
	// Dir is the working folder; empty means TempDir.
	Dir string
	// TempDir is where the folder of the socket is made and removed again; empty
	// means the system's. Its path must be short: a socket's has about 100 bytes.
	TempDir string
	// Log gets what the plugin logs and prints; nil discards it.
	Log hclog.Logger
	// Redact are secrets to be replaced in all that is logged.
	Redact []string
	// StartTimeout is the longest time until the plugin has shaken hands; 0 means 10 s.
	StartTimeout time.Duration
	// StopGrace is how long Stop waits for the plugin to end by itself; 0 means 1 s.
	StopGrace time.Duration
	// Jail and Confinement confine the process; without them it has a group of its
	// own and nothing more.
	Jail        *jail.Jail
	Confinement *jail.Confinement
	// ProtocolVersions are offered to the plugin; empty means the current one.
	// Tests of plugins offer others.
	ProtocolVersions []int
	// WithoutCookie starts the program as a person would; only tests do.
	WithoutCookie bool
}

const (
	defaultStartTimeout = 10 * time.Second
	defaultStopGrace    = time.Second
	// drainTime is how long output is still read after the process has ended:
	// a grandchild outside the group may hold the pipe open for ever.
	drainTime = 50 * time.Millisecond
)
