// Command verifier-tests is a stepfall plugin: it puts the edits in an answer
// into a copy-on-write view of a work tree and runs the tests there, in a jail.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/jail/container"
	"github.com/stepfall/stepfall/sdk/plugin"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// Config is the config block of the policy.
type Config struct {
	Command        []string          `stepfall:"command,required,min=1" doc:"The test command, for instance [\"go\", \"test\", \"./...\"]. It runs in the work tree."`
	Timeout        time.Duration     `stepfall:"timeout,min=0.1,max=3600,default=1m" doc:"Time limit of the command."`
	WorkDir        string            `stepfall:"work_dir" doc:"The work tree for queries that name none."`
	File           string            `stepfall:"file" doc:"The file that a code block without a path replaces."`
	Protect        []string          `stepfall:"protect" doc:"Patterns of further files that an answer cannot change: base names, or paths if they contain a slash; DIR/** is everything below DIR."`
	AllowTestEdits bool              `stepfall:"allow_test_edits,default=false" doc:"Let answers change test files."`
	ShowSecrets    bool              `stepfall:"show_secrets,default=false" doc:"Let the tests see files of the work tree that look like secrets (.env, private keys); by default they are hidden."`
	Report         string            `stepfall:"report" doc:"The JUnit file that the command writes, relative to the work tree, or a pattern for several: * is any part of a name, **/ any folders."`
	Preflight      bool              `stepfall:"preflight,default=true" doc:"Run the tests on the untouched tree first, so that tests that are broken there do not count against an answer."`
	Reruns         int               `stepfall:"reruns,min=0,max=10,default=1" doc:"How often a failing run is repeated, to find flaky tests."`
	Require        []string          `stepfall:"require" doc:"Layers of isolation (user, pid, mount, network, ipc, landlock, seccomp, rlimits, watchdog) or aims (filesystem, processes, memory) without which the verdict is inconclusive."`
	ReadOnly       []string          `stepfall:"read_only" doc:"Further absolute paths that the tests may read."`
	Env            map[string]string `stepfall:"env" doc:"Further environment variables of the tests."`
	Parallel       int               `stepfall:"parallel,min=0,default=0" doc:"Most concurrent runs; 0 is one for each processor."`
	MemoryMiB      int64             `stepfall:"memory_mib,min=16,default=4096" doc:"Most memory of one run."`
	DiskMiB        int64             `stepfall:"disk_mib,min=1,default=2048" doc:"Most that one run may write; it is kept in memory."`
	Processes      int               `stepfall:"processes,min=4,default=512" doc:"Most processes of one run."`
	OutputKiB      int               `stepfall:"output_kib,min=1,default=4096" doc:"Most output that is kept of one run."`
	Runtime        string            `stepfall:"runtime,enum=jail|container,default=jail" doc:"Where the tests run: in the jail, or in a container of Docker or Podman."`
	Image          string            `stepfall:"image" doc:"The image of containers. {id} is the query's name, {instance} the same as SWE-bench's published images spell it, {image} the image that a task names."`
	Engine         []string          `stepfall:"engine" doc:"The command of the container engine with its global options; podman or docker when absent."`
	ContainerDir   string            `stepfall:"container_dir" doc:"Where the work tree is put in the container, for instance /testbed; the same path as outside when absent."`
	OCIRuntime     string            `stepfall:"oci_runtime" doc:"The engine's runtime; runsc (gVisor) where the engine has it when absent."`
	Log            string            `stepfall:"log,enum=|pytest|pytest-v2|pytest-options|matplotlib|seaborn|sympy|django|unittest|go|cargo" doc:"How the output names the tests, for commands that are not called directly (a shell script in an image): the formats that SWE-bench reads."`
	CacheDir       string            `stepfall:"cache_dir" doc:"Folder for the build caches of trusted runs; by default in the user's cache folder."`
}

func main() {
	jail.Main()
	plugin.Main(description())
}

func description() plugin.Plugin {
	return plugin.Plugin{
		Name: "verifier-tests", Version: "1.0.0",
		Doc:   "Applies the edits in an answer to a copy-on-write view of the query's work tree and runs its tests there, in a jail. See docs/first-party-plugins.md for the forms that edits may have.",
		Roles: []plugin.Role{plugin.Verifier(open)},
	}
}

func open(ctx context.Context, c Config) (sdk.Verifier, error) {
	config := verify.Config{
		Command: c.Command, Timeout: c.Timeout, WorkDir: c.WorkDir, File: c.File, Protect: c.Protect,
		AllowTestEdits: c.AllowTestEdits, ShowSecrets: c.ShowSecrets, Report: c.Report, NoPreflight: !c.Preflight, Reruns: cmp.Or(c.Reruns, -1),
		Require: c.Require, ReadOnly: c.ReadOnly, Parallel: c.Parallel,
		MemoryBytes: c.MemoryMiB << 20, DiskBytes: c.DiskMiB << 20, Processes: c.Processes, OutputBytes: c.OutputKiB << 10,
		State: stateDir(c.CacheDir), Log: c.Log,
	}
	for name, value := range c.Env {
		config.Env = append(config.Env, name+"="+value)
	}
	slices.Sort(config.Env)
	if wrong := diagnostics(config.Validate()); len(wrong) > 0 {
		return nil, wrong
	}
	if c.Runtime == "container" {
		if c.Image == "" {
			return nil, schema.Errorf([]string{"image"}, "a container needs an image")
		}
		config.Containers = &container.Pool{Options: container.Options{Command: c.Engine, Image: c.Image, Dir: c.ContainerDir, Runtime: c.OCIRuntime}}
		return verify.New(config, nil)
	}
	program, err := jail.Program(ctx, c.Command[0])
	if err != nil {
		return nil, schema.Errorf([]string{"command"}, "%v", err)
	}
	config.Command = append([]string{program}, c.Command[1:]...)
	j, err := jail.Open(ctx, jail.Options{Temp: plugin.ScratchDir(ctx)})
	if err != nil {
		return nil, err
	}
	layers, missing := j.Layers()
	plugin.Log(ctx).Info("isolation probed", "layers", layers, "missing", missing)
	if lacks := jail.Lacks([]string{"filesystem", "processes", "network"}, layers); len(lacks) > 0 {
		plugin.Log(ctx).Warn("answers run with less isolation than usual", "lacks", lacks, "reasons", fmt.Sprint(missing))
	}
	return verify.New(config, j)
}

func diagnostics(problems []verify.Problem) (all schema.Diagnostics) {
	for _, problem := range problems {
		all = append(all, schema.Errorf(problem.Path, "%s", problem.What)...)
	}
	return all
}

// stateDir returns the folder for build caches, or "" when there is none: a service may
// have no home, or one that is not there.
func stateDir(configured string) string {
	if configured != "" {
		return configured
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir := filepath.Join(cache, "stepfall", "verifier-tests")
	if os.MkdirAll(dir, 0o700) != nil {
		return ""
	}
	return dir
}
