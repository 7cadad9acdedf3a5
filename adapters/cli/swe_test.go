package cli_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stepfall/stepfall/adapters/swe/suite"
)

// TestSWEScripts runs stepfall swe on the bundled suite with its scripted models.
func TestSWEScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a plugin and runs tests of repositories")
	}
	plugins := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", plugins+"/", "../../plugins/verifier-tests").CombinedOutput(); err != nil {
		t.Fatalf("building the plugin: %v\n%s", err, out)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "swe"),
		RequireExplicitExec: true,
		Setup:               func(env *testscript.Env) error { return exportSuite(t, env, plugins) },
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
		},
	})
}

// exportSuite writes the suite's repositories, a policy and a file for each of the
// tasks of one repository into the script's folder, and serves the models.
func exportSuite(t *testing.T, env *testscript.Env, plugins string) error {
	loaded, err := suite.Load()
	if err != nil {
		return err
	}
	server, err := loaded.Serve()
	if err != nil {
		return err
	}
	env.Defer(func() { server.Close() })
	list, err := loaded.Materialise(t.Context(), filepath.Join(env.WorkDir, "repos"))
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
	policy := loaded.Policy(server.URL(), `strategy "cascade_route" { lambda = 5 }`)
	// Caches of the user's own: those of the scripts would be cold.
	for _, name := range []string{"HOME", "GOCACHE", "XDG_CACHE_HOME"} {
		if value, ok := os.LookupEnv(name); ok {
			env.Setenv(name, value)
		}
	}
	env.Setenv("STEPFALL_PLUGIN_PATH", plugins)
	return os.WriteFile(filepath.Join(env.WorkDir, "policy.hcl"), []byte(policy), 0o600)
}
