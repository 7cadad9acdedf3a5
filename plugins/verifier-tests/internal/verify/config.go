package verify

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/plugins/internal/diagnose"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// Config is the plugin's config block in a policy.
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
	OutputKiB      int               `stepfall:"output_kib,min=1,default=4096" doc:"Most output that is kept of one run; of go test, whose report is its output, eight times as much."`
	Runtime        string            `stepfall:"runtime,enum=jail|container,default=jail" doc:"Where the tests run: in the jail, or in a container of Docker or Podman."`
	Image          string            `stepfall:"image" doc:"The image of containers. {id} is the query's name, {instance} the same as SWE-bench's published images spell it, {image} the image that a task names."`
	Engine         []string          `stepfall:"engine" doc:"The command of the container engine with its global options; podman or docker when absent."`
	ContainerDir   string            `stepfall:"container_dir" doc:"Where the work tree is put in the container, for instance /testbed; the same path as outside when absent."`
	OCIRuntime     string            `stepfall:"oci_runtime" doc:"The engine's runtime; runsc (gVisor) where the engine has it when absent."`
	Log            string            `stepfall:"log,enum=|pytest|pytest-v2|pytest-options|matplotlib|seaborn|sympy|django|unittest|go|cargo" doc:"How the output names the tests, for commands that are not called directly (a shell script in an image): the formats that SWE-bench reads."`
	CacheDir       string            `stepfall:"cache_dir" doc:"Folder for the build caches of trusted runs; by default in the user's cache folder."`
}

// Validate returns the diagnostics of the configuration.
func (c *Config) Validate() (wrong schema.Diagnostics) {
	for _, one := range []struct {
		argument, what string
		isRight        bool
	}{
		{"command", `is required, for example ["go", "test", "./..."]`, slices.Index(c.Command, "") != 0 && len(c.Command) > 0},
		{"report", "is not inside the work tree", c.Report == "" || filepath.IsLocal(c.Report)},
		{"file", "is not inside the work tree", c.File == "" || filepath.IsLocal(c.File)},
	} {
		if !one.isRight {
			wrong = append(wrong, schema.Errorf([]string{one.argument}, "%s", one.what)...)
		}
	}
	isPattern := func(pattern string) bool {
		_, err := path.Match(pattern, "x")
		return err == nil
	}
	return slices.Concat(wrong, diagnose.Layers(c.Require), diagnose.Each("protect", c.Protect, "not a pattern", isPattern),
		diagnose.Each("read_only", c.ReadOnly, "not absolute", filepath.IsAbs),
		diagnose.Each("env", c.variables(), "not NAME=value", func(entry string) bool { return !strings.HasPrefix(entry, "=") }))
}

func (c *Config) variables() (list []string) {
	for name, value := range c.Env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// guard returns the patterns of the files that an answer must not change.
func (c *Config) guard() *guard {
	if c.AllowTestEdits {
		return newGuard(c.Protect)
	}
	return newGuard(slices.Concat(testFiles, settings, c.Protect))
}
