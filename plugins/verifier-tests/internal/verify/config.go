package verify

import (
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/jail/container"
)

// Config is what the policy says. Only Command is required.
type Config struct {
	// Command is the test command, an argument each; it runs in the work tree.
	Command []string
	// Timeout bounds one run of it; default one minute.
	Timeout time.Duration
	// WorkDir is the work tree of queries that name none.
	WorkDir string
	// File is what a single code block without a path stands for.
	File string
	// Protect are patterns of files that an answer cannot change; see protected.
	// The files of Go, Python and JavaScript tests are always protected unless
	// AllowTestEdits is set.
	Protect        []string
	AllowTestEdits bool
	// ShowSecrets lets runs see files of the tree that look like secrets, see
	// [jail.LooksSecret].
	ShowSecrets bool
	// Report is the JUnit file that the command writes, if it does, or a pattern of
	// several (see [jail.Match]).
	Report string
	// NoPreflight leaves out the run on the untouched tree.
	NoPreflight bool
	// Reruns is how often a failing run is tried again; default 1, -1 for never.
	Reruns int
	// Require are layers and aims without which no verdict is given (package jail).
	Require []string
	// ReadOnly are further paths that the command may read.
	ReadOnly []string
	// Env are further variables, NAME=value.
	Env []string
	// Parallel bounds the runs at one time; default one for each processor.
	Parallel int
	// MemoryBytes, DiskBytes, Processes and OutputBytes bound a run; zero means
	// the jail's defaults.
	MemoryBytes, DiskBytes int64
	Processes, OutputBytes int
	// Containers, when not nil, run the command in place of the jail; Log says how
	// its output names the tests (package runner).
	Containers *container.Pool
	Log        string
	// State is a folder for build caches of trusted runs and for pre-flights; empty
	// for none.
	State string
	// CompileFrom is the time of processors that the tests of an untouched tree take,
	// from which on its packages are compiled by a run of their own, once for all
	// answers; default 1 s: where all is compiled that they need, those of a small
	// package take a quarter of that. Where they take less, there is little to compile.
	CompileFrom time.Duration
}

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	// Path is the argument's name in a policy and, in a list, the place from 0.
	Path []string
	What string
}

// Validate returns all that is wrong with the configuration.
func (c *Config) Validate() []Problem {
	var problems []Problem
	wrong := func(what string, path ...string) { problems = append(problems, Problem{path, what}) }
	if len(c.Command) == 0 || c.Command[0] == "" {
		wrong(`is required, for example ["go", "test", "./..."]`, "command")
	}
	for i, name := range c.Require {
		if !slices.Contains(jail.Names(), name) {
			wrong(fmt.Sprintf("%q is none of %s", name, strings.Join(jail.Names(), ", ")), "require", strconv.Itoa(i))
		}
	}
	for i, pattern := range c.Protect {
		if _, err := path.Match(pattern, "x"); err != nil {
			wrong(fmt.Sprintf("%q is no pattern", pattern), "protect", strconv.Itoa(i))
		}
	}
	for i, dir := range c.ReadOnly {
		if !filepath.IsAbs(dir) {
			wrong(fmt.Sprintf("%q is not absolute", dir), "read_only", strconv.Itoa(i))
		}
	}
	for _, entry := range c.Env {
		if name, _, ok := strings.Cut(entry, "="); !ok || name == "" {
			wrong(fmt.Sprintf("%q is not NAME=value", entry), "env")
		}
	}
	if c.Report != "" && !filepath.IsLocal(c.Report) {
		wrong("is not inside the work tree", "report")
	}
	if c.File != "" && !filepath.IsLocal(c.File) {
		wrong("is not inside the work tree", "file")
	}
	if c.Timeout < 0 {
		wrong("is negative", "timeout")
	}
	return problems
}

func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	if c.Reruns == 0 {
		c.Reruns = 1
	}
	if c.Parallel <= 0 {
		c.Parallel = runtime.NumCPU()
	}
	if c.CompileFrom == 0 {
		c.CompileFrom = time.Second
	}
	return c
}

// guard returns the files that an answer may not change.
func (c *Config) guard() *guard {
	if c.AllowTestEdits {
		return newGuard(c.Protect)
	}
	return newGuard(slices.Concat(testFiles, settings, c.Protect))
}
