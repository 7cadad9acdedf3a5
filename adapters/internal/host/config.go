package host

import (
	"cmp"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// Config says what a [Host] may use. The zero value finds plugins in the usual
// folders and logs nothing.
type Config struct {
	// Plugins are settings by plugin name; a plugin that is not in it has none.
	Plugins map[string]PluginConfig
	// SearchPath are the folders to look for plugins in; nil means [SearchPath].
	SearchPath []string
	// Models calls models for plugins that ask; nil means that they may not.
	Models wire.ModelCaller
	// Logger gets the host's and the plugins' log; nil discards it.
	Logger hclog.Logger
	// Dir is the plugins' working folder, where relative paths in their
	// configuration begin; empty means a scratch folder.
	Dir string
	// TempDir is where sockets and scratch folders are made; empty means the system's.
	TempDir string
	// Version of the application, told to plugins for their logs.
	Version string
}

// PluginConfig are the settings of one plugin.
type PluginConfig struct {
	// Path is the program; empty means that it is searched for by its name.
	Path string
	// Env is added to the environment; its values count as secrets in logs.
	Env map[string]string
	// PassEnv names variables of the host's environment that the plugin gets.
	PassEnv []string
	// SHA256, when not empty, is the checksum in hexadecimal that the program must have.
	SHA256 string
	// Isolation says what the plugin may touch. "none": anything; what leaves its process
	// group lives on. "process", the default: all that it starts ends with it. "sandbox":
	// also no network, and no files but the system's, its program's, those of Config.Dir
	// and of Read.
	Isolation string
	// Memory is the most that the plugin and what it starts may hold, in bytes; 0
	// is no limit. It requires "memory".
	Memory int64
	// Require are layers and aims (see [jail.Names]) without which the plugin is
	// not started. A sandbox requires filesystem, network and processes when it is
	// empty.
	Require []string
	// Read are absolute paths that a sandboxed plugin may read, besides the
	// system's, those of its program, and Config.Dir.
	Read []string
	// Models bounds the model calls of the plugin during one call of the host. Zero
	// fields mean 20 calls, of up to a minute each, at any cost.
	Models wire.ModelLimits
	// StartTimeout is the longest start, configuring included; 0 means 20 s.
	StartTimeout time.Duration
	// CallTimeout is the longest call of an estimator; 0 means 10 s.
	CallTimeout time.Duration
	// VerifyTimeout is the longest verification; 0 means 10 min.
	VerifyTimeout time.Duration
}

func (c PluginConfig) withDefaults() PluginConfig {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.StartTimeout, 20*time.Second)
	set(&c.CallTimeout, 10*time.Second)
	set(&c.VerifyTimeout, 10*time.Minute)
	set(&c.Models.Timeout, time.Minute)
	c.Models.Calls = cmp.Or(c.Models.Calls, 20)
	return c
}

// The pace of restarts and health checks.
const (
	// firstPause is the pause before the second restart in a row; the first one
	// comes at once. Each further pause is twice as long, up to longestPause.
	firstPause   = 100 * time.Millisecond
	longestPause = 30 * time.Second
	// refusedPause is after how long a program with a wrong checksum is looked at again.
	refusedPause = 10 * time.Second
	// healthyAfter is how long a process must live for its crashes to be forgotten.
	healthyAfter = time.Minute
	// After breakerCrashes within breakerWindow no start is tried for breakerPause.
	breakerCrashes = 5
	breakerWindow  = time.Minute
	breakerPause   = 30 * time.Second
	// healthEvery is the time between health checks of an idle process, and
	// healthTimeout the longest of them; two failures in a row are a hung process.
	healthEvery   = 5 * time.Second
	healthTimeout = time.Second
	// missedChecks are how many in a row end a process that missed a deadline.
	missedChecks = 5
	// overruns are how many calls in a row may miss the host's deadline.
	overruns = 3
)
