//go:build unix

package host_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stepfall/stepfall/plugins/host"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// copyOfPlugin returns a folder with a copy of the test binary, to be changed.
func copyOfPlugin(t *testing.T) (dir, program string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(pluginDir(t), "test"))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	program = filepath.Join(dir, "test")
	if err := os.WriteFile(program, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, program
}

func TestLock(t *testing.T) {
	dir, program := copyOfPlugin(t)
	sum, err := host.Checksum(program)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), host.LockName)
	lock := &host.Lock{Plugins: map[string]host.Locked{"test": {Version: "0.1.0", SHA256: map[string]string{host.Platform(): sum}}}}
	if err := lock.Write(file); err != nil {
		t.Fatal(err)
	}
	if lock, err = host.ReadLock(file); err != nil {
		t.Fatal(err)
	}
	cfg := host.Config{SearchPath: []string{dir}, Lock: lock}
	if err := ask(within(t, 20*time.Second), estimator(t, newHost(t, cfg), nil), ""); err != nil {
		t.Fatalf("the locked program: %v", err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program+".new", append(data, "changed"...), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(program+".new", program); err != nil {
		t.Fatal(err)
	}
	if err := ask(within(t, 20*time.Second), estimator(t, newHost(t, cfg), nil), ""); !errors.Is(err, host.ErrChecksum) {
		t.Errorf("another program: %v", err)
	}
	delete(lock.Plugins, "test")
	if err := ask(within(t, 20*time.Second), estimator(t, newHost(t, cfg), nil), ""); !errors.Is(err, host.ErrChecksum) {
		t.Errorf("a program that is not in the lock: %v", err)
	}
}

func TestDiscovery(t *testing.T) {
	dir, program := copyOfPlugin(t)
	h := newHost(t, host.Config{SearchPath: []string{t.TempDir(), dir}})
	for _, name := range []string{"", "none", "../test", ".hidden"} {
		if _, err := h.Verifier("v", name, nil); !errors.Is(err, host.ErrNotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := h.Verifier("v", "test", nil); err != nil {
		t.Error(err)
	}
	if got := host.List([]string{"/nonexistent", dir}); len(got) != 1 || got[0] != (host.Found{Name: "test", Path: program}) {
		t.Errorf("got %v", got)
	}
	if err := os.Chmod(program, 0o757); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Verifier("v", "test", nil); err == nil || !strings.Contains(err.Error(), "may be written by anybody") {
		t.Errorf("a program that anybody may write to: %v", err)
	}
}

func TestReattach(t *testing.T) {
	cmd := exec.Command(filepath.Join(pluginDir(t), "test"), "debug")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("interrupted, the plugin ended with %v", err)
		}
	}()
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), wire.ReattachEnv+"='"); ok {
			t.Setenv(wire.ReattachEnv, strings.TrimSuffix(value, "'"))
			break
		}
	}
	// Twice, as somebody who debugs would.
	for range 2 {
		h := newHost(t, host.Config{SearchPath: []string{}})
		if err := ask(within(t, 20*time.Second), estimator(t, h, nil), ""); err != nil {
			t.Fatal(err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	if !processExists(cmd.Process.Pid) {
		t.Error("the host ended a plugin that it had not started")
	}
}

func TestOnUnavailable(t *testing.T) {
	broken := &host.UnavailableError{Plugin: "p", Instance: "i", Reason: "it is gone"}
	v := sdk.VerifierFunc(func(ctx context.Context, _ *sdk.VerifyRequest) (*sdk.Verdict, error) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, broken
	})
	e := sdk.QualityEstimatorFunc(func(context.Context, *sdk.QualityRequest) (*sdk.QualityResponse, error) { return nil, broken })
	c := sdk.CostEstimatorFunc(func(context.Context, *sdk.CostRequest) (*sdk.CostResponse, error) { return nil, broken })
	req := &sdk.QualityRequest{Models: []string{"ran", "waits"}, Attempts: []sdk.Attempt{{Answer: sdk.Answer{Model: "ran"}}}}
	for mode, want := range map[host.Mode]sdk.Outcome{host.Abstain: sdk.Inconclusive, host.Accept: sdk.Passed} {
		verdict, err := host.OrVerifier(v, mode).Verify(t.Context(), &sdk.VerifyRequest{})
		if err != nil || verdict.Outcome != want || !strings.Contains(verdict.Evidence, "it is gone") {
			t.Errorf("%s: %+v, %v", mode, verdict, err)
		}
		quality, err := host.OrQualityEstimator(e, mode).EstimateQuality(t.Context(), req)
		if err != nil || quality.Estimates[0].Abstains() != (mode == host.Abstain) || !quality.Estimates[1].Abstains() {
			t.Errorf("%s: %+v, %v", mode, quality, err)
		}
		cost, err := host.OrCostEstimator(c, mode).EstimateCost(t.Context(), &sdk.CostRequest{Models: []sdk.Model{{}}})
		if err != nil || !cost.Estimates[0].Abstains() {
			t.Errorf("%s: %+v, %v", mode, cost, err)
		}
	}
	if _, err := host.OrVerifier(v, host.Fail).Verify(t.Context(), &sdk.VerifyRequest{}); !errors.Is(err, sdk.ErrPluginUnavailable) {
		t.Errorf("fail: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := host.OrVerifier(v, host.Accept).Verify(ended, &sdk.VerifyRequest{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone: %v", err)
	}
	if _, err := host.ParseMode("ignore"); err == nil {
		t.Error("an unknown mode is accepted")
	}
}
