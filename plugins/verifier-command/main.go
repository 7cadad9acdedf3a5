// Command verifier-command is a stepfall plugin that verifies answers with any program, which reads JSON
// from its standard input and returns JSON or an exit code.
package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/stepfall/stepfall/plugins/internal/diagnose"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/plugin"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// Config is the plugin's config block in a policy.
type Config struct {
	Command   []string          `stepfall:"command,required,min=1" doc:"The program and its arguments. A relative path begins at the folder of the policy file."`
	Timeout   time.Duration     `stepfall:"timeout,min=0.01,max=3600,default=30s" doc:"Time limit."`
	Contract  string            `stepfall:"contract,enum=json|exit_code,default=json" doc:"json: the program writes a verdict. exit_code: 0 is passed, 1 is failed, all others are inconclusive; what it prints is the evidence."`
	Dir       string            `stepfall:"dir" doc:"Where it runs; by default in the query's work tree, or else in a new empty folder."`
	Env       map[string]string `stepfall:"env" doc:"Further environment variables; it inherits PATH, HOME, LANG and TZ only, and TMPDIR is a folder of its own."`
	Parallel  int               `stepfall:"parallel,min=1,max=1024,default=4" doc:"Most concurrent runs."`
	Isolation string            `stepfall:"isolation,enum=held|sandboxed,default=held" doc:"held: all its processes end with it. sandboxed: also no network, and no files except programs, the folder where it runs, and a temporary folder of its own."`
	Require   []string          `stepfall:"require" doc:"Layers of isolation or aims without which it does not run and the verdict is inconclusive; the names are those of verifier-tests."`
	ReadOnly  []string          `stepfall:"read_only" doc:"Further absolute paths that a sandboxed program may read."`
	MemoryMiB int64             `stepfall:"memory_mib,min=0,default=0" doc:"Most memory; 0 is no limit."`
	Processes int               `stepfall:"processes,min=0,default=512" doc:"Most concurrent processes; 0 is no limit."`
	OutputKiB int               `stepfall:"output_kib,min=1,max=65536,default=1024" doc:"Most output; a program that writes more is stopped."`
}

func main() {
	jail.Main()
	plugin.Main(description())
}

func description() plugin.Plugin {
	return plugin.Plugin{
		Name: "verifier-command", Version: "1.0.0",
		Doc:   "Runs a program on every answer. It gets {\"query\", \"answer\", \"earlier\"} as JSON on its standard input and writes {\"outcome\", \"score\", \"confidence\", \"evidence\", \"cost_usd\"} on its standard output. It runs isolated; the verdict names the layers.",
		Roles: []plugin.Role{plugin.Verifier(open)},
	}
}

func open(ctx context.Context, c Config) (sdk.Verifier, error) {
	path, err := jail.Program(ctx, c.Command[0])
	if err == nil {
		path, err = exec.LookPath(path)
	}
	if err == nil {
		// It runs in the query's work tree, but a relative path refers to the policy's folder.
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, schema.Errorf([]string{"command"}, "%v", err)
	}
	if wrong := diagnose.Layers(c.Require); len(wrong) > 0 {
		return nil, wrong
	}
	walls, err := jail.Open(ctx, jail.Options{Temp: plugin.ScratchDir(ctx)})
	if err != nil {
		return nil, err
	}
	v := &verifier{config: c, path: path, slots: make(chan struct{}, c.Parallel), jail: walls}
	for name, value := range c.Env {
		v.env = append(v.env, name+"="+value)
	}
	slices.Sort(v.env)
	return v, nil
}
