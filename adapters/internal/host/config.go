package host

import (
	"cmp"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// Config configures a [Host]. The zero value finds plugins in the default folders and logs nothing.
type Config struct {
	// Plugins has settings by plugin name; all are optional.
	Plugins map[string]PluginConfig
	// SearchPath are the folders that are searched for plugins; nil means [SearchPath].
	SearchPath []string
	// Models serves the model calls of plugins; nil means that plugins cannot call models.
	Models wire.ModelCaller
	// Logger receives the log of the host and the plugins; nil discards it.
	Logger hclog.Logger
	// Dir is the plugins' working directory, to which relative paths in their configs refer; empty means a
	// scratch directory.
	Dir string
	// TempDir is the parent of sockets and scratch directories; empty means the system's.
	TempDir string
	// Version is the version of the application, which plugins can log.
	Version string
}

// PluginConfig are the settings of one plugin.
type PluginConfig struct {
	// Path is the program; empty means that it is searched for by the plugin's name.
	Path string
	// Env is added to the environment. Its values are redacted in logs.
	Env map[string]string
	// PassEnv names variables of the host's environment that are passed to the plugin.
	PassEnv []string
	// SHA256, if not empty, is the expected checksum of the program in hexadecimal.
	SHA256 string
	// Isolation is the isolation of the plugin. "none": none, and child processes that leave its process
	// group outlive it. "process", the default: all of its child processes end with it. "sandbox": also no
	// network, and no files except the system's, those of its program, of Config.Dir and of Read.
	Isolation string
	// Memory limits the memory of the plugin and its child processes, in bytes; 0 means no limit. It requires
	// "memory".
	Memory int64
	// Require are layers and aims (see [jail.Names]) without which the plugin is not started. For a sandbox
	// the default is filesystem, network and processes.
	Require []string
	// Read are absolute paths that a sandboxed plugin can read, besides those of the system, its program and
	// Config.Dir.
	Read []string
	// Models limits the plugin's model calls during one host call. Zero fields mean 20 calls, of up to a
	// minute each, at any cost.
	Models wire.ModelLimits
	// StartTimeout limits a start, including Configure; 0 means 20 s.
	StartTimeout time.Duration
	// CallTimeout limits a call of an estimator; 0 means 10 s.
	CallTimeout time.Duration
	// VerifyTimeout limits a verification; 0 means [VerifyTimeout].
	VerifyTimeout time.Duration
}

// VerifyTimeout is the default of [PluginConfig.VerifyTimeout].
const VerifyTimeout = 10 * time.Minute

func (c PluginConfig) withDefaults() PluginConfig {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.StartTimeout, 20*time.Second)
	set(&c.CallTimeout, 10*time.Second)
	set(&c.VerifyTimeout, VerifyTimeout)
	set(&c.Models.Timeout, time.Minute)
	c.Models.Calls = cmp.Or(c.Models.Calls, 20)
	return c
}

// Intervals and limits of restarts and health checks.
const (
	// firstPause is the pause before the second restart in a row; the first has none. Each further pause is
	// twice as long, up to longestPause.
	firstPause   = 100 * time.Millisecond
	longestPause = 30 * time.Second
	// refusedPause is the time until a program with a wrong checksum is checked again.
	refusedPause = 10 * time.Second
	// healthyAfter is the lifetime of a process after which earlier crashes are forgotten.
	healthyAfter = time.Minute
	// After breakerCrashes within breakerWindow, starts are not attempted for breakerPause.
	breakerCrashes = 5
	breakerWindow  = time.Minute
	breakerPause   = 30 * time.Second
	// healthEvery is the interval of health checks of an idle process, healthTimeout their timeout. Two
	// failures in a row mean that the process hangs.
	healthEvery   = 5 * time.Second
	healthTimeout = time.Second
	// maxMissedChecks is how many failures in a row kill a process that missed a deadline.
	maxMissedChecks = 5
	// maxOverruns is how many calls in a row that miss the host's deadline kill the process.
	maxOverruns = 3
)
