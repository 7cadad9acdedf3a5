package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stepfall/stepfall/adapters/internal/suite"
	"github.com/stepfall/stepfall/adapters/internal/tasks"
	"github.com/stepfall/stepfall/adapters/programs"
	"github.com/stepfall/stepfall/adapters/scripted"
)

// TestSWEScripts runs stepfall swe on the bundled suite with its scripted models.
func TestSWEScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a plugin and runs tests of repositories")
	}
	plugins := programs.Build(t, "verifier-tests")
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "swe"),
		RequireExplicitExec: true,
		Setup:               func(env *testscript.Env) error { return exportSuite(t, env, plugins) },
		Condition: func(name string) (bool, error) {
			return name == "attacks" && os.Getenv("STEPFALL_ATTACKS") == "all", nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// exits CODE PROGRAM ARGS... runs a program that must end with that code.
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				want, err := strconv.Atoi(args[0])
				ts.Check(err)
				code := 0
				if exit, ok := errors.AsType[*exec.ExitError](ts.Exec(args[1], args[2:]...)); ok {
					code = exit.ExitCode()
				}
				if code != want {
					ts.Fatalf("exit code %d, want %d", code, want)
				}
			},
			"interrupted": interrupted,
		},
	})
}

// interrupted runs a program, interrupts it when the model named in the script's file hang hangs, and expects exit
// code 130. Its output is in the files out and err.
func interrupted(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command(filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], args[0]), args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(cmd.Environ(), "STEPFALL_PLUGIN_PATH="+ts.Getenv("STEPFALL_PLUGIN_PATH"))
	for name, stream := range map[string]*io.Writer{"out": &cmd.Stdout, "err": &cmd.Stderr} {
		file, err := os.Create(ts.MkAbs(name))
		ts.Check(err)
		defer file.Close()
		*stream = file
	}
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ts.Value(hanging{}).(chan struct{}):
	case err := <-ended:
		ts.Fatalf("ended before a model hung: %v\n%s", err, ts.ReadFile("err"))
	}
	ts.Check(cmd.Process.Signal(os.Interrupt))
	if exit, ok := errors.AsType[*exec.ExitError](<-ended); !ok || exit.ExitCode() != 130 {
		ts.Fatalf("ended with %v, want exit code 130\n%s", exit, ts.ReadFile("err"))
	}
}

// hanging is the key of the channel that reports hanging models.
type hanging struct{}

// serve serves the suite's models. The model that the file hang in dir names answers only when its client has gone.
func serve(loaded *suite.Suite, dir string) (*scripted.Server, chan struct{}, error) {
	hung := make(chan struct{})
	script := loaded.Script()
	server, err := scripted.Start(scripted.Options{Models: tasks.Models(), Respond: func(ctx context.Context, req *scripted.Request) scripted.Reply {
		if name, err := os.ReadFile(filepath.Join(dir, "hang")); err == nil && strings.TrimSpace(string(name)) == req.Model {
			select {
			case hung <- struct{}{}:
			case <-ctx.Done():
			}
			<-ctx.Done()
		}
		return script(ctx, req)
	}})
	return server, hung, err
}

// exportSuite writes the suite's repositories, a policy and a file for each task of one repository into the script's
// folder, and serves the models.
func exportSuite(t *testing.T, env *testscript.Env, plugins string) error {
	loaded, err := suite.Load()
	if err != nil {
		return err
	}
	server, hung, err := serve(loaded, env.WorkDir)
	if err != nil {
		return err
	}
	env.Values[hanging{}] = hung
	env.Defer(func() { server.Close() })
	list, err := loaded.Export(t.Context(), env.WorkDir, server.URL())
	if err != nil {
		return err
	}
	for _, task := range list {
		line, err := json.Marshal(task)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(env.WorkDir, task.InstanceID+".jsonl"), append(line, '\n'), 0o600); err != nil {
			return err
		}
	}
	// Caches of the user's own: those of the scripts would be cold.
	for _, name := range []string{"HOME", "GOCACHE", "XDG_CACHE_HOME"} {
		if value, ok := os.LookupEnv(name); ok {
			env.Setenv(name, value)
		}
	}
	env.Setenv("STEPFALL_PLUGIN_PATH", plugins)
	env.Setenv(exitAtOnce, atOnce)
	return nil
}
