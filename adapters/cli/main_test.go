package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stepfall/stepfall/adapters/cli"
	"github.com/stepfall/stepfall/sdk/jail"
)

// exitAtOnce is for programs built with the race detector: each sleeps a second at exit otherwise, and scripts run
// hundreds.
const exitAtOnce, atOnce = "GORACE", "atexit_sleep_ms=0"

// TestMain lets the test binary double as the stepfall command in scripts.
func TestMain(m *testing.M) {
	jail.Main()
	os.Setenv(exitAtOnce, atOnce)
	testscript.Main(m, map[string]func(){
		"stepfall": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			code := cli.Run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
			stop()
			os.Exit(code)
		},
	})
}

// TestScripts runs the command as a user would, one txtar file a subject.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv(exitAtOnce, atOnce)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// isjson fails unless the last command printed one JSON value and nothing else.
			"isjson": func(ts *testscript.TestScript, neg bool, _ []string) {
				if text := ts.ReadFile("stdout"); json.Valid([]byte(text)) == neg {
					ts.Fatalf("is JSON: %v\n%s", !neg, text)
				}
			},
		},
	})
}
