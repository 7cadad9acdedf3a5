//go:build unix

package host_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// needs skips a test if the machine lacks the layers.
func needs(t *testing.T, required ...string) {
	t.Helper()
	layers, missing, err := newHost(t, host.Config{}).Isolation()
	if err != nil {
		t.Fatal(err)
	}
	if lacks := jail.Lacks(required, layers); len(lacks) > 0 {
		t.Skipf("this machine lacks %v: %v", lacks, missing)
	}
}

// The working directory is the policy's, which is usually given as a relative path.
func TestSandboxedPlugin(t *testing.T) {
	needs(t, "filesystem", jail.LayerNetwork, "processes")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	folder, own := t.TempDir(), t.TempDir()
	secret, allowed, mine := filepath.Join(folder, "secret"), filepath.Join(folder, "allowed"), filepath.Join(own, "mine")
	for _, file := range []string{secret, allowed, mine} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(own)
	h := newHost(t, host.Config{Dir: ".", Plugins: map[string]host.PluginConfig{"test": {Isolation: "sandbox", Read: []string{allowed}}}})
	for _, c := range []struct {
		act, file string
		works     bool
	}{
		{"", "", true}, {"read", mine, true}, {"read", "mine", true}, {"read", allowed, true}, {"read", secret, false}, {"dial", listener.Addr().String(), false},
	} {
		err := ask(within(t, 2*time.Minute), estimator(t, h, map[string]any{"file": c.file}), c.act)
		var refused *host.CallError
		if c.works != (err == nil) || err != nil && !errors.As(err, &refused) {
			t.Errorf("%s %s: %v", c.act, c.file, err)
		}
	}
	closesInTime(t, h)
}

func TestMemoryIsLimited(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector alone takes more memory than is allowed here")
	}
	needs(t, "memory")
	h := newHost(t, host.Config{Plugins: map[string]host.PluginConfig{"test": {Memory: 256 << 20}}})
	v := verifier(t, h, nil)
	_, err := v.Verify(within(t, 2*time.Minute), &sdk.VerifyRequest{Query: query(""), Answer: &sdk.Answer{Text: "memory"}})
	if !errors.Is(err, sdk.ErrPluginUnavailable) {
		t.Errorf("got %v", err)
	}
	t.Log(err)
	if _, err := v.Verify(within(t, 2*time.Minute), &sdk.VerifyRequest{Query: query(""), Answer: &sdk.Answer{Text: "good"}}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestIsolationThatCannotBeHad(t *testing.T) {
	for name, c := range map[string]struct {
		settings host.PluginConfig
		want     string
	}{
		"level":      {host.PluginConfig{Isolation: "total"}, "must be none, process or sandbox"},
		"name":       {host.PluginConfig{Require: []string{"walls"}}, "known are cgroup, filesystem"},
		"none":       {host.PluginConfig{Isolation: "none", Memory: 1 << 30}, "isolation is none, and memory is required"},
		"no network": {host.PluginConfig{Require: []string{jail.LayerNetwork}}, "required isolation is unavailable here: network"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, host.Config{Plugins: map[string]host.PluginConfig{"test": c.settings}})
			e, err := h.QualityEstimator("quality", "test", nil)
			if err == nil {
				err = ask(within(t, 2*time.Minute), e, "")
				if !errors.Is(err, jail.ErrLacks) || h.Stats()[0].State != "refused" {
					t.Errorf("got %v, %+v", err, h.Stats()[0])
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A program that does not call jail.Main can use plugins, unless more isolation than a process group is required.
func TestIsolationNeedsJailMain(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no jail")
	}
	dir := pluginDir(t)
	for _, c := range []struct {
		settings host.PluginConfig
		want     string
	}{
		{host.PluginConfig{}, "answered"},
		{host.PluginConfig{Memory: 1 << 30}, "jail.Main"},
		{host.PluginConfig{Isolation: "sandbox"}, "jail.Main"},
	} {
		var out syncBuffer
		startApplication(t, "unjailed", &out, &applicationOrder{
			SearchPath: []string{dir}, TempDir: shortDir(t), Plugins: map[string]host.PluginConfig{"test": c.settings},
			Plugin: "test",
		})
		waitFor(t, func() bool { return strings.HasSuffix(out.String(), "\n") })
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("%+v: the application said %q", c.settings, out.String())
		}
	}
}
