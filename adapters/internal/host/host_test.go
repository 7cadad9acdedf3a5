//go:build unix

package host_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/sdk"
)

// exitAtOnce is the variable for programs built with the race detector, which sleep
// for a second before they exit.
const exitAtOnce = "GORACE"

func newHost(t testing.TB, cfg host.Config) *host.Host {
	t.Helper()
	if cfg.SearchPath == nil {
		cfg.SearchPath = []string{pluginDir(t)}
	}
	settings := cfg.Plugins["test"]
	env := map[string]string{exitAtOnce: "atexit_sleep_ms=0"}
	maps.Copy(env, settings.Env)
	settings.Env = env
	// On a busy machine, and under the race detector, everything takes its time.
	for _, limit := range []*time.Duration{&settings.StartTimeout, &settings.CallTimeout} {
		if *limit == 0 {
			*limit = time.Minute
		}
	}
	cfg.Plugins = map[string]host.PluginConfig{"test": settings}
	h, err := host.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func estimator(t testing.TB, h *host.Host, config map[string]any) sdk.QualityEstimator {
	t.Helper()
	e, err := h.QualityEstimator("quality", "test", config)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func verifier(t testing.TB, h *host.Host, config map[string]any) sdk.Verifier {
	t.Helper()
	v, err := h.Verifier("check", "test", config)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEstimateQuality(t *testing.T) {
	e := estimator(t, newHost(t, host.Config{}), map[string]any{"mean": 0.75})
	got, err := e.EstimateQuality(within(t, 2*time.Minute), &sdk.QualityRequest{Query: query("hello"), Models: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []sdk.Estimate{{Mean: 0.75, StdDev: 0.1}, {Mean: 0.75, StdDev: 0.1}}
	if diff := cmp.Diff(want, got.Estimates); diff != "" {
		t.Error(diff)
	}
}

func TestEstimateCost(t *testing.T) {
	h := newHost(t, host.Config{})
	e, err := h.CostEstimator("cost", "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.EstimateCost(within(t, 2*time.Minute), &sdk.CostRequest{
		Query: &sdk.Query{InputTokens: 1000}, Models: []sdk.Model{{Name: "a", Price: sdk.Price{Input: 2}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Estimates) != 1 || got.Estimates[0].Mean != 0.002 {
		t.Errorf("got %v, want one estimate of 0.002", got.Estimates)
	}
}

func TestVerify(t *testing.T) {
	got, err := verifier(t, newHost(t, host.Config{}), nil).Verify(within(t, 2*time.Minute), &sdk.VerifyRequest{Query: query("q"), Answer: &sdk.Answer{Text: "good"}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Outcome != sdk.Passed || got.Score != 1 || got.Confidence != 0.9 || got.Verifier != "check" || got.Duration <= 0 {
		t.Errorf("got %+v", got)
	}
}

func TestConfigDiagnostics(t *testing.T) {
	e := estimator(t, newHost(t, host.Config{}), map[string]any{"maen": 0.5, "mean": 2})
	_, err := e.EstimateQuality(within(t, 2*time.Minute), &sdk.QualityRequest{Query: query(""), Models: []string{"a"}})
	var config *host.ConfigError
	if !errors.As(err, &config) {
		t.Fatalf("got %v", err)
	}
	paths := map[string]string{}
	for _, d := range config.Diagnostics {
		paths[strings.Join(d.Path, ".")] = d.Detail
	}
	want := map[string]string{"mean": "the maximum is 1", "maen": `did you mean "mean"?`}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Error(diff)
	}
}

func TestARefusedConfigShowsNoSecret(t *testing.T) {
	e := estimator(t, newHost(t, host.Config{}), map[string]any{"refuse": true, "secret": "hunter2-hunter2"})
	err := ask(within(t, 2*time.Minute), e, "")
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "it was told to refuse, with [redacted]") {
		t.Errorf("got %v", err)
	}
}

// An error becomes the evidence of every verdict, so it has the beginning of many diagnostics; the log has all, once.
func TestTheErrorOfAConfigIsCut(t *testing.T) {
	log, out := logger()
	h := newHost(t, host.Config{Logger: log})
	e := estimator(t, h, map[string]any{"build": "complain"})
	for range 2 {
		err := ask(within(t, 2*time.Minute), e, "")
		if text := fmt.Sprint(err); len(text) > 5000 || !strings.Contains(text, "fault 0: xxx") || !strings.HasSuffix(text, "(the log has all)") {
			t.Errorf("an error of %d bytes: %.200s", len(text), text)
		}
	}
	closesInTime(t, h)
	for _, fault := range []string{"fault 1: ", "fault 49: "} {
		if n := strings.Count(out.String(), fault); n != 1 {
			t.Errorf("the log has %q %d times", fault, n)
		}
	}
}

func TestEnvironmentIsClean(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-live-0123456789")
	t.Setenv("WANTED", "passed-on")
	t.Setenv("RUSTUP_HOME", "/rust")
	h := newHost(t, host.Config{Plugins: map[string]host.PluginConfig{"test": {PassEnv: []string{"WANTED"}, Env: map[string]string{"ADDED": "by-config"}}}})
	_, err := estimator(t, h, nil).EstimateQuality(within(t, 2*time.Minute), &sdk.QualityRequest{Query: query("environment"), Models: []string{"a"}})
	if err == nil || !strings.Contains(err.Error(), "PATH=") || !strings.Contains(err.Error(), "RUSTUP_HOME=/rust") {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(err.Error(), "OPENAI") || !strings.Contains(err.Error(), "WANTED=[redacted]") || !strings.Contains(err.Error(), "ADDED=[redacted]") {
		t.Errorf("environment: %v", err)
	}
}

func TestNothingIsLeft(t *testing.T) {
	h, err := host.New(host.Config{SearchPath: []string{pluginDir(t)}, TempDir: emptyInTheEnd(t)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := estimator(t, h, nil).EstimateQuality(within(t, 2*time.Minute), &sdk.QualityRequest{Query: query(""), Models: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	pid := h.Stats()[0].PID
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if processExists(pid) {
		t.Error("the process lives on")
	}
}

// shortDir returns a folder with a short path, as sockets need it.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// emptyInTheEnd is a shortDir that must be empty after the test.
func emptyInTheEnd(t testing.TB) string {
	t.Helper()
	dir := shortDir(t)
	t.Cleanup(func() {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			t.Errorf("left behind: %s", e.Name())
		}
	})
	return dir
}
