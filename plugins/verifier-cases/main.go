// Command verifier-cases is a stepfall plugin that runs the program in an answer on test cases, in a jail,
// and compares its output with the expected output, which the program cannot see.
package main

import (
	"cmp"
	"context"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/stepfall/stepfall/plugins/internal/diagnose"
	"github.com/stepfall/stepfall/plugins/verifier-cases/internal/cases"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/jail/container"
	"github.com/stepfall/stepfall/sdk/plugin"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// Config is the plugin's config block in a policy.
type Config struct {
	Cases     string            `stepfall:"cases,required" doc:"The cases: a file (LiveCodeBench, APPS, JSON) or a folder of inputs and outputs. Relative to the policy's folder."`
	Command   []string          `stepfall:"command,required,min=1" doc:"The program that answers a case, for instance [\"python3\", \"main.py\"]."`
	File      string            `stepfall:"file" doc:"The file that a code block without a path replaces, for instance main.py; functions are looked up there."`
	Build     []string          `stepfall:"build" doc:"A command that runs once for each answer, before the cases."`
	Built     []string          `stepfall:"built" doc:"The files that build makes and command needs."`
	WorkDir   string            `stepfall:"work_dir" doc:"A tree that answers are edits of; by default the query's, or else an empty one."`
	Compare   string            `stepfall:"compare,enum=exact|lines|words|numbers|json|any_order,default=lines" doc:"When an output is the expected one. lines: without space at the ends of lines. numbers: word by word, numbers within the tolerance. any_order: lines in any order."`
	Tolerance float64           `stepfall:"tolerance,min=0,max=1,default=0.000001" doc:"How far numbers may differ, absolutely or as a share."`
	Checker   []string          `stepfall:"checker" doc:"A program of yours that compares: it gets the files input, expected and output as arguments, and 0 is right. It runs in a jail of its own."`
	Timeout   time.Duration     `stepfall:"timeout,min=0.01,max=3600,default=10s" doc:"Time limit of one case."`
	BuildTime time.Duration     `stepfall:"build_timeout,min=0.1,max=3600,default=1m" doc:"Time limit of the build."`
	All       bool              `stepfall:"all,default=false" doc:"Run every case, for a score; by default the first failure ends the rest."`
	Parallel  int               `stepfall:"parallel,min=0,max=1024,default=0" doc:"Most concurrent cases; 0 is one for each processor."`
	Runtime   string            `stepfall:"runtime,enum=jail|container,default=jail" doc:"Where cases run: in the jail, or in a container of Docker or Podman."`
	Image     string            `stepfall:"image" doc:"The image of containers. {id} is the query's name, {image} the image that it names itself."`
	Engine    []string          `stepfall:"engine" doc:"The command of the container engine with its global options; podman or docker when absent."`
	Require   []string          `stepfall:"require" doc:"Layers of isolation or aims without which the verdict is inconclusive; the names are those of verifier-tests."`
	ReadOnly  []string          `stepfall:"read_only" doc:"Further absolute paths that the program may read."`
	Env       map[string]string `stepfall:"env" doc:"Further environment variables of the program."`
	MemoryMiB int64             `stepfall:"memory_mib,min=16,default=1024" doc:"Most memory of one case."`
	DiskMiB   int64             `stepfall:"disk_mib,min=1,default=256" doc:"Most that one case may write."`
	Processes int               `stepfall:"processes,min=1,default=128" doc:"Most processes of one case."`
	OutputKiB int               `stepfall:"output_kib,min=1,default=16384" doc:"Most output of one case."`
}

func main() {
	jail.Main()
	cases.Main()
	plugin.Main(description())
}

func description() plugin.Plugin {
	return plugin.Plugin{
		Name: "verifier-cases", Version: "1.0.0",
		Doc:   "Runs the program in an answer on cases (standard input, arguments, files, a function, HTTP) in a jail and compares its output with the expected one, which never enters the jail. See docs/first-party-plugins.md for the forms of cases.",
		Roles: []plugin.Role{plugin.Verifier(open)},
	}
}

func open(ctx context.Context, c Config) (sdk.Verifier, error) {
	if wrong := c.validate(); len(wrong) > 0 {
		return nil, wrong
	}
	var err error
	if c.Cases, err = realPath(c.Cases); err != nil {
		return nil, err
	}
	v := &verifier{config: c, temp: plugin.ScratchDir(ctx), known: map[string]*cases.Set{}}
	v.slots = make(chan struct{}, cmp.Or(c.Parallel, runtime.NumCPU()))
	if c.File != "" {
		v.config.File = path.Clean(filepath.ToSlash(c.File))
	}
	if c.Runtime == "container" {
		if c.Image == "" {
			return nil, schema.Errorf([]string{"image"}, "a container needs an image")
		}
		v.containers = &container.Pool{Options: container.Options{Command: c.Engine, Image: c.Image}}
		return v, nil
	}
	if wrong := v.resolve(ctx); len(wrong) > 0 {
		return nil, wrong
	}
	walls, err := jail.Open(ctx, jail.Options{Temp: plugin.ScratchDir(ctx)})
	if err != nil {
		return nil, err
	}
	v.walls = walls
	return v, nil
}

func (c *Config) validate() (wrong schema.Diagnostics) {
	wrong = slices.Concat(diagnose.Layers(c.Require), diagnose.Each("read_only", c.ReadOnly, "not absolute", filepath.IsAbs), checkLocal("built", c.Built...), checkLocal("file", c.File))
	if _, err := os.Stat(c.Cases); err != nil {
		wrong = append(wrong, schema.Errorf([]string{"cases"}, "%v", err)...)
	}
	return wrong
}

func checkLocal(argument string, files ...string) (wrong schema.Diagnostics) {
	for _, file := range files {
		if file != "" && !filepath.IsLocal(file) {
			wrong = append(wrong, schema.Errorf([]string{argument}, "%q is not inside the work tree", file)...)
		}
	}
	return wrong
}

// resolve replaces a version manager's shims by the programs that they would run.
func (v *verifier) resolve(ctx context.Context) schema.Diagnostics {
	var wrong schema.Diagnostics
	for name, command := range map[string]*[]string{"command": &v.config.Command, "build": &v.config.Build, "checker": &v.config.Checker} {
		if len(*command) == 0 {
			continue
		}
		program, err := jail.Program(ctx, (*command)[0])
		if err != nil {
			wrong = append(wrong, schema.Errorf([]string{name}, "%v", err)...)
			continue
		}
		*command = append([]string{program}, (*command)[1:]...)
	}
	return wrong
}
