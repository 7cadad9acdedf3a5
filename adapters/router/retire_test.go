//go:build unix

package router_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin"
	"github.com/stepfall/stepfall/sdk/plugintest"
)

// underTest makes the test binary run as a plugin when a host starts it; see plugintest.Main.
const underTest = "STEPFALL_PLUGIN_UNDER_TEST"

func TestMain(m *testing.M) { plugintest.Main(m, func() { plugin.Main(probe()) }) }

type probeConfig struct {
	Dir    string `stepfall:"dir,required" doc:"Where the plugin notes its process."`
	Refuse bool   `stepfall:"refuse" doc:"Refuse the configuration."`
}

// probe is a plugin that writes its process id to a file, which it keeps locked, and passes every
// answer.
func probe() plugin.Plugin {
	return plugin.Plugin{Name: "probe", Version: "1.0.0", Doc: "Notes its process.", Roles: []plugin.Role{
		plugin.Verifier(func(_ context.Context, c probeConfig) (sdk.Verifier, error) {
			if c.Refuse {
				return nil, errors.New("refused, as told")
			}
			note, err := os.Create(filepath.Join(c.Dir, strconv.Itoa(os.Getpid())))
			if err == nil {
				err = syscall.Flock(int(note.Fd()), syscall.LOCK_EX)
			}
			return sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
				return &sdk.Verdict{Outcome: sdk.Passed, Score: 1, Evidence: note.Name()}, nil
			}), err
		}),
	}}
}

const probePolicy = `
model "only" {
  provider          = "openai"
  base_url          = "%URL%"
  max_output_tokens = 50
  price { free = true }
}
plugin "probe" {
  path      = "%PATH%"
  env       = ["` + underTest + `"]
  isolation = "none" # it notes the number that its process has outside of a namespace
}
verifier "probe" {
  plugin         = "probe"
  on_unavailable = "fail"
  config {
    dir    = "%DIR%"
    refuse = %REFUSE%
  }
}
strategy "route" { lambda = 0 }
`

// An old policy's plugin runs until the last step that began under the policy has used it, and no longer. If a new
// plugin rejects its configuration, the old policy stays in force.
func TestPluginsOfAnOldPolicyEndAfterItsLastStep(t *testing.T) {
	t.Setenv(underTest, "1")
	begun, answer := make(chan struct{}), make(chan struct{})
	server, err := scripted.Start(scripted.Options{Respond: func(_ context.Context, r *scripted.Request) scripted.Reply {
		if r.LastUser() == "slow" {
			close(begun)
			<-answer
		}
		return scripted.Reply{Text: "yes"}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	parse := func(refuse bool) *policies.Policy {
		text := strings.NewReplacer("%URL%", server.URL(), "%PATH%", program, "%DIR%", dir, "%REFUSE%", fmt.Sprint(refuse)).Replace(probePolicy)
		p, err := policies.Parse("policy.hcl", []byte(text), policies.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	processes := func() (list []int) {
		notes, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range notes {
			pid, err := strconv.Atoi(n.Name())
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, pid)
		}
		return list
	}
	gone := func(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

	r, err := router.New(t.Context(), parse(false), full.Complete(router.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := processes()[0]
	slow := make(chan error, 1)
	go func() {
		_, err := llms.GenerateFromSinglePrompt(t.Context(), r, "slow")
		slow <- err
	}()
	<-begun

	if err := r.Swap(t.Context(), parse(true)); err == nil || !strings.Contains(err.Error(), "refused, as told") {
		t.Errorf("a plugin refused its configuration: %v", err)
	}
	if len(processes()) != 1 {
		t.Error("a plugin that refused its configuration was taken")
	}
	if err := r.Swap(t.Context(), parse(false)); err != nil {
		t.Fatal(err)
	}
	if len(processes()) != 2 {
		t.Error("the new policy's plugin was not started before the policy was taken")
	}
	if _, err := llms.GenerateFromSinglePrompt(t.Context(), r, "quick"); err != nil {
		t.Error(err)
	}
	if gone(old) {
		t.Error("the old plugin has ended while a step was to use it")
	}
	close(answer)
	if err := <-slow; err != nil {
		t.Errorf("the step of the old policy: %v", err)
	}
	note, err := os.Open(filepath.Join(dir, strconv.Itoa(old)))
	if err != nil {
		t.Fatal(err)
	}
	defer note.Close()
	if err := syscall.Flock(int(note.Fd()), syscall.LOCK_SH); err != nil { // waits for the old plugin's end
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	for _, pid := range processes() {
		if !gone(pid) {
			t.Errorf("process %d stays behind", pid)
		}
	}
}
