package verify

import (
	"cmp"
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
	for _, one := range []struct {
		argument, what string
		isRight        bool
	}{
		{"command", `is required, for example ["go", "test", "./..."]`, slices.Index(c.Command, "") != 0 && len(c.Command) > 0},
		{"report", "is not inside the work tree", c.Report == "" || filepath.IsLocal(c.Report)},
		{"file", "is not inside the work tree", c.File == "" || filepath.IsLocal(c.File)},
		{"timeout", "is negative", c.Timeout >= 0},
	} {
		if !one.isRight {
			problems = append(problems, Problem{[]string{one.argument}, one.what})
		}
	}
	each := func(list []string, argument, what string, isRight func(value string) bool) {
		for i, value := range list {
			if !isRight(value) {
				problems = append(problems, Problem{[]string{argument, strconv.Itoa(i)}, fmt.Sprintf("%q is "+what, value)})
			}
		}
	}
	each(c.Require, "require", "none of "+strings.Join(jail.Names(), ", "), func(name string) bool { return slices.Contains(jail.Names(), name) })
	each(c.Protect, "protect", "no pattern", func(pattern string) bool {
		_, err := path.Match(pattern, "x")
		return err == nil
	})
	each(c.ReadOnly, "read_only", "not absolute", filepath.IsAbs)
	each(c.Env, "env", "not NAME=value", func(entry string) bool { return strings.Index(entry, "=") > 0 })
	return problems
}

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	c.Reruns = cmp.Or(c.Reruns, 1)
	c.Parallel = cmp.Or(max(c.Parallel, 0), runtime.NumCPU())
	c.CompileFrom = cmp.Or(c.CompileFrom, time.Second)
	return c
}

// guard returns the files that an answer may not change.
func (c *Config) guard() *guard {
	if c.AllowTestEdits {
		return newGuard(c.Protect)
	}
	return newGuard(slices.Concat(testFiles, settings, c.Protect))
}
