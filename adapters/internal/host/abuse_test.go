//go:build unix

package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/sdk"
)

// longestClose is what ending a plugin may take in any state: many times what it takes
// on a quiet machine, where it is a second and a half at most.
const longestClose = 30 * time.Second

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func logger() (hclog.Logger, *syncBuffer) {
	out := &syncBuffer{}
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: out}), out
}

func ask(ctx context.Context, e sdk.QualityEstimator, text string) error {
	_, err := e.EstimateQuality(ctx, &sdk.QualityRequest{Query: query(text), Models: []string{"a"}})
	return err
}

// closesInTime closes the host and fails if that takes too long or leaves a process.
func closesInTime(t *testing.T, h *host.Host, pids ...int) {
	t.Helper()
	begun := time.Now()
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	took := time.Since(begun)
	t.Logf("closed in %v", took.Round(time.Millisecond))
	if took > longestClose && !testing.Short() {
		t.Errorf("closing took %v", took)
	}
	for _, pid := range pids {
		if processExists(pid) {
			t.Errorf("process %d lives on", pid)
		}
	}
}

func TestCloseInEveryState(t *testing.T) {
	t.Run("idle", func(t *testing.T) {
		h := newHost(t, host.Config{})
		if err := ask(within(t, 2*time.Minute), estimator(t, h, nil), ""); err != nil {
			t.Fatal(err)
		}
		closesInTime(t, h, h.Stats()[0].PID)
	})
	t.Run("never started", func(t *testing.T) {
		h := newHost(t, host.Config{})
		estimator(t, h, nil)
		closesInTime(t, h)
	})
	t.Run("starting", func(t *testing.T) {
		h := newHost(t, host.Config{Plugins: map[string]host.PluginConfig{"test": {Env: map[string]string{"TEST_BEFORE": "hang"}}}})
		e := estimator(t, h, nil)
		failed := make(chan error, 1)
		go func() { failed <- ask(within(t, 2*time.Minute), e, "") }()
		waitFor(t, func() bool { return h.Stats()[0].State == "starting" })
		closesInTime(t, h)
		if err := <-failed; err == nil {
			t.Error("the call succeeded")
		}
	})
	for _, state := range []string{"hang", "stuck"} {
		t.Run("busy: "+state, func(t *testing.T) {
			h := newHost(t, host.Config{})
			e := estimator(t, h, nil)
			if err := ask(within(t, 2*time.Minute), e, ""); err != nil {
				t.Fatal(err)
			}
			pid := h.Stats()[0].PID
			failed := make(chan error, 1)
			go func() { failed <- ask(within(t, 2*time.Minute), e, state) }()
			closesInTime(t, h, pid)
			if err := <-failed; err == nil {
				t.Error("the call succeeded")
			}
		})
	}
	t.Run("stopped by a signal", func(t *testing.T) {
		h := newHost(t, host.Config{})
		if err := ask(within(t, 2*time.Minute), estimator(t, h, nil), ""); err != nil {
			t.Fatal(err)
		}
		pid := pluginPID(t, h)
		stopProcess(t, pid)
		closesInTime(t, h, pid)
	})
	for _, kind := range []string{"child", "escaped child"} {
		for _, isolation := range []string{"none", "process"} {
			t.Run(fmt.Sprintf("%s holds the pipes, isolation %s", kind, isolation), func(t *testing.T) {
				h := newHost(t, host.Config{Plugins: map[string]host.PluginConfig{"test": {Isolation: isolation}}})
				config := map[string]any{"file": filepath.Join(t.TempDir(), "started")}
				if err := ask(within(t, 2*time.Minute), estimator(t, h, config), kind); err != nil {
					t.Fatal(err)
				}
				pids := family(h.Stats()[0].PID)
				child := named(pids, "sleep")
				if len(child) != 1 {
					t.Fatalf("children %v", child)
				}
				if kind == "escaped child" && isolation == "none" {
					defer syscall.Kill(child[0], syscall.SIGKILL)
					pids = pids[:1] // as documented, the child lives on
				}
				closesInTime(t, h, pids...)
			})
		}
	}
}

// waitFor waits until another goroutine has brought about a state.
func waitFor(t testing.TB, ready func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ready() {
		if time.Now().After(deadline) {
			t.Fatal("it did not come about")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestACrashCostsNoMoreThanARetry(t *testing.T) {
	h := newHost(t, host.Config{})
	e := estimator(t, h, map[string]any{"file": filepath.Join(t.TempDir(), "crashed")})
	if err := ask(within(t, 2*time.Minute), e, "exit once"); err != nil {
		t.Fatalf("an estimate is repeated after a crash: %v", err)
	}
	s := h.Stats()[0]
	if s.Crashes != 1 || s.Starts != 2 || s.Retries != 1 || s.Errors != 0 {
		t.Errorf("stats: %+v", s)
	}
}

func TestAVerificationIsNotRepeated(t *testing.T) {
	h := newHost(t, host.Config{})
	v := verifier(t, h, map[string]any{"file": filepath.Join(t.TempDir(), "crashed")})
	_, err := v.Verify(within(t, 2*time.Minute), &sdk.VerifyRequest{Query: query(""), Answer: &sdk.Answer{Text: "exit once"}})
	if !errors.Is(err, sdk.ErrPluginUnavailable) || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
	waitFor(t, func() bool { return h.Stats()[0].Crashes == 1 }) // counted by the one who reaps
	if s := h.Stats()[0]; s.Retries != 0 || s.Starts != 1 {
		t.Errorf("stats: %+v", s)
	}
}

func TestCircuitBreaker(t *testing.T) {
	h := newHost(t, host.Config{})
	e := estimator(t, h, nil)
	ctx := within(t, 2*time.Minute)
	waitFor(t, func() bool {
		err := ask(ctx, e, "exit")
		if err == nil {
			t.Fatal("a crash is no answer")
		}
		return h.Stats()[0].State == "open"
	})
	err := ask(ctx, e, "")
	var u *host.UnavailableError
	if !errors.As(err, &u) || u.Until.IsZero() || !errors.Is(err, sdk.ErrPluginUnavailable) {
		t.Errorf("got %v", err)
	}
	// Nothing was started for it, nor waited for.
	if s := h.Stats()[0]; s.Starts != 5 || s.Crashes != 5 || s.State != "open" {
		t.Errorf("stats: %+v", s)
	}
}

func TestPluginsThatDoNotStart(t *testing.T) {
	for before, c := range map[string]struct {
		timeout time.Duration
		want    string
	}{
		"exit": {10 * time.Second, "cannot find the weights"},
		"hang": {500 * time.Millisecond, "it was not ready within"},
	} {
		t.Run(before, func(t *testing.T) {
			h := newHost(t, host.Config{Plugins: map[string]host.PluginConfig{"test": {
				StartTimeout: c.timeout, Env: map[string]string{"TEST_BEFORE": before},
			}}})
			err := ask(within(t, 2*time.Minute), estimator(t, h, nil), "")
			if !errors.Is(err, sdk.ErrPluginUnavailable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The error of a plugin that exits or hangs while it is configured has its exit status or the timeout.
func TestPluginsThatCannotBeConfigured(t *testing.T) {
	for build, want := range map[string]string{
		"exit": "it did not start: its process ended with exit status 4: ",
		"hang": "it did not start: it was not ready within 2s: ",
	} {
		t.Run(build, func(t *testing.T) {
			h := newHost(t, host.Config{Plugins: map[string]host.PluginConfig{"test": {StartTimeout: 2 * time.Second}}})
			err := ask(within(t, 2*time.Minute), estimator(t, h, map[string]any{"build": build}), "")
			if !errors.Is(err, sdk.ErrPluginUnavailable) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

func TestNoiseBeforeTheHandshakeDoesNoHarm(t *testing.T) {
	log, out := logger()
	h := newHost(t, host.Config{Logger: log, Plugins: map[string]host.PluginConfig{"test": {Env: map[string]string{"TEST_BEFORE": "noise"}}}})
	if err := ask(within(t, 2*time.Minute), estimator(t, h, nil), "print"); err != nil {
		t.Fatal(err)
	}
	// What is printed travels on its own; the answer may overtake it.
	for _, want := range []string{"Loading model weights...", "to file descriptor one", "to standard output"} {
		waitFor(t, func() bool { return strings.Contains(out.String(), want) })
	}
	closesInTime(t, h)
}

// A call that ended while the plugin was still starting does not blame the plugin's answer.
func TestACallThatWaitsForTheStart(t *testing.T) {
	h := newHost(t, host.Config{Plugins: map[string]host.PluginConfig{"test": {
		Env: map[string]string{"TEST_BEFORE": "hang"}, CallTimeout: 100 * time.Millisecond, VerifyTimeout: 100 * time.Millisecond,
	}}})
	e, v := estimator(t, h, nil), verifier(t, h, nil)
	late := errors.New("no verdict within the timeout")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, late)
	defer cancel()
	const want = "it was still starting after "
	_, err := v.Verify(ctx, judge("1"))
	if !errors.Is(err, late) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "start_timeout 1m0s") {
		t.Errorf("limited by the caller: %v", err)
	}
	_, err = v.Verify(t.Context(), judge("1"))
	for who, err := range map[string]error{"verifier": err, "estimator": ask(t.Context(), e, "")} {
		if !errors.Is(err, sdk.ErrPluginUnavailable) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "did not answer") {
			t.Errorf("%s: %v", who, err)
		}
	}
	closesInTime(t, h)
}

// The message of a missed deadline names the arguments that set it for that role.
func TestMissedDeadlinesNameTheirLimit(t *testing.T) {
	h := newHost(t, host.Config{Plugins: map[string]host.PluginConfig{"test": {CallTimeout: 100 * time.Millisecond}}})
	e := estimator(t, h, nil)
	if err := h.Start(within(t, 2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := ask(t.Context(), e, "hang"); err == nil || !strings.Contains(err.Error(), "it did not answer within 100ms (its call_timeout)") {
		t.Errorf("got %v", err)
	}
	closesInTime(t, h)
}

func TestHostileLogLines(t *testing.T) {
	log, out := logger()
	h := newHost(t, host.Config{Logger: log, Plugins: map[string]host.PluginConfig{"test": {Env: map[string]string{"TEST_BEFORE": "badlog", "TEST_SECRET": "sk-very-secret"}}}})
	if err := ask(within(t, 2*time.Minute), estimator(t, h, map[string]any{"secret": "config-secret"}), "log"); err != nil {
		t.Fatal(err)
	}
	closesInTime(t, h)
	text := out.String()
	for _, bad := range []string{"sk-very-secret", "config-secret", "\x1b", "\x07"} {
		if strings.Contains(text, bad) {
			t.Errorf("the log has %q", bad)
		}
	}
	for _, want := range []string{"token [redacted]", "logged by the plugin", "count=3", "[WARN]"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %q:\n%.3000s", want, text)
		}
	}
	if len(text) > 100<<10 {
		t.Errorf("the log has %d bytes", len(text))
	}
}

// A verdict has no secret of the config and no value of a passed variable, except switches and paths.
func TestVerdictsHaveNoSecrets(t *testing.T) {
	t.Setenv("TEST_PASSED", "passed-secret-1234")
	t.Setenv("TEST_SWITCH", "true")
	settings := host.PluginConfig{Env: map[string]string{"TEST_SECRET": "sk-very-secret"}, PassEnv: []string{"TEST_PASSED", "TEST_SWITCH", "HOME"}}
	v := verifier(t, newHost(t, host.Config{Plugins: map[string]host.PluginConfig{"test": settings}}), map[string]any{"secret": "config-secret"})
	got, err := v.Verify(within(t, 2*time.Minute), &sdk.VerifyRequest{Query: query("q"), Answer: &sdk.Answer{Text: "variables"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"[redacted]", "true", os.Getenv("HOME")}
	if strings.Contains(got.Evidence+got.Way, "secret") || !strings.Contains(got.Evidence, "[redacted]") || !slices.Equal(got.LeftOut, want) {
		t.Errorf("got %+v", got)
	}
}

func TestPanicsAndErrors(t *testing.T) {
	h := newHost(t, host.Config{})
	e := estimator(t, h, map[string]any{"secret": "config-secret"})
	for text, want := range map[string]string{"panic": "panic: as told", "error": "no, because of [redacted]"} {
		err := ask(within(t, 2*time.Minute), e, text)
		var call *host.CallError
		if !errors.As(err, &call) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "config-secret") {
			t.Errorf("%s: got %v", text, err)
		}
	}
	if err := ask(within(t, 2*time.Minute), e, ""); err != nil {
		t.Errorf("after a panic: %v", err)
	}
	if s := h.Stats()[0]; s.Crashes != 0 || s.Starts != 1 {
		t.Errorf("stats: %+v", s)
	}
}

// stopProcess stops a process and waits until all its threads have stopped: the signal takes a moment, and a thread
// on another processor still answers calls.
func stopProcess(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/self/task"); err != nil {
		return // no way to tell on this system
	}
	waitFor(t, func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			return false
		}
		for _, thread := range threads {
			text, err := os.ReadFile(thread)
			if err != nil || !strings.Contains(string(text), ") T ") {
				return false
			}
		}
		return true
	})
}

func TestAHungPluginIsKilled(t *testing.T) {
	h := newHost(t, host.Config{Plugins: map[string]host.PluginConfig{"test": {CallTimeout: 200 * time.Millisecond}}})
	e := estimator(t, h, nil)
	ctx := within(t, 2*time.Minute)
	if err := h.Start(ctx); err != nil {
		t.Fatal(err)
	}
	stopProcess(t, pluginPID(t, h))
	if err := ask(ctx, e, ""); !errors.Is(err, sdk.ErrPluginUnavailable) {
		t.Errorf("got %v", err)
	}
	waitFor(t, func() bool { return ask(ctx, e, "") == nil })
	if s := h.Stats()[0]; s.Crashes != 1 || s.Starts != 2 {
		t.Errorf("stats: %+v", s)
	}
}

// Calls with deadlines shorter than the host's also detect a process that hangs.
func TestAHungPluginIsKilledThoughItsCallersGiveUp(t *testing.T) {
	start := func(limit time.Duration) (*host.Host, sdk.QualityEstimator) {
		h := newHost(t, host.Config{Plugins: map[string]host.PluginConfig{"test": {CallTimeout: limit}}})
		e := estimator(t, h, nil)
		if err := h.Start(within(t, 2*time.Minute)); err != nil {
			t.Fatal(err)
		}
		return h, e
	}
	const patience = 20 * time.Millisecond
	t.Run("stopped", func(t *testing.T) {
		h, e := start(time.Minute)
		stopProcess(t, pluginPID(t, h))
		if err := ask(within(t, patience), e, ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		waitFor(t, func() bool { return h.Stats()[0].Crashes == 1 })
	})
	t.Run("calls that do not end", func(t *testing.T) {
		h, e := start(5 * patience)
		for n := 0; h.Stats()[0].Crashes == 0; n++ {
			if _ = ask(within(t, patience), e, "stuck"); n > 100 {
				t.Fatal("it is not killed")
			}
		}
	})
	t.Run("calls that end now and then", func(t *testing.T) {
		h, e := start(5 * patience)
		for range 30 {
			_ = ask(within(t, patience), e, "hang")
			if err := ask(within(t, 2*time.Minute), e, ""); err != nil {
				t.Fatal(err)
			}
		}
		if s := h.Stats()[0]; s.Crashes != 0 {
			t.Errorf("stats: %+v", s)
		}
	})
}

func TestTheCallersDeadlineHolds(t *testing.T) {
	h := newHost(t, host.Config{})
	e := estimator(t, h, nil)
	if err := ask(within(t, 2*time.Minute), e, ""); err != nil {
		t.Fatal(err)
	}
	// The plugin would never answer: that this returns is the caller's doing, and the
	// host takes none of it for its own deadline.
	err := ask(within(t, 100*time.Millisecond), e, "stuck")
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sdk.ErrPluginUnavailable) {
		t.Errorf("got %v", err)
	}
	if s := h.Stats()[0]; s.Crashes != 0 || s.Starts != 1 {
		t.Errorf("stats: %+v", s)
	}
}

func TestStartIsShared(t *testing.T) {
	h := newHost(t, host.Config{})
	e := estimator(t, h, nil)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := ask(within(t, 2*time.Minute), e, ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s := h.Stats()[0]; s.Starts != 1 || s.Calls != 20 {
		t.Errorf("stats: %+v", s)
	}
}
