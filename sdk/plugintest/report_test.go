package plugintest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
	"github.com/stepfall/stepfall/sdk/plugintest"
)

// TestMain lets the test binary double as the first process of a jail, and as a plugin.
func TestMain(m *testing.M) {
	plugintest.Main(m, func() {
		if len(os.Args) > 2 && os.Args[1] == foreign {
			serveForeign(os.Args[2])
		}
		if filepath.Base(os.Args[0]) == "verifier-leaky" {
			plugin.Main(leaky())
		}
		plugin.Main(judge())
	})
}

// A program that does not speak the protocol fails, and the report says why.
func TestAProgramThatIsNoPlugin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nonsense")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho nonsense\necho why >&2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	report, err := plugintest.Run(t.Context(), plugintest.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if report.OK() || len(report.Results) != 1 || !strings.Contains(report.Results[0].Message, "ended before the handshake") || !strings.Contains(report.Results[0].Message, "why") {
		t.Errorf("got %+v", report.Results)
	}
}

// linkTo returns a link to this test binary, which doubles as a plugin.
func linkTo(t *testing.T, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(self, path); err != nil {
		t.Skip(err)
	}
	return path
}

// A policy finds a plugin by the name of its program, so the kit insists that it is the one that the plugin states.
func TestAPluginOfAnotherName(t *testing.T) {
	report, err := plugintest.Run(t.Context(), plugintest.Options{Path: linkTo(t, "verifier-other")})
	if err != nil {
		t.Fatal(err)
	}
	if info := report.Results[0]; info.Status != plugintest.Failed || !strings.Contains(info.Message, `the plugin is called "verifier-judge"`) {
		t.Errorf("got %+v", info)
	}
}

// leaky is a plugin that refuses its config, with a secret of it in the diagnostic, and logs why.
func leaky() plugin.Plugin {
	type config struct {
		Token string `stepfall:"token,required,sensitive"`
	}
	return plugin.Plugin{Name: "verifier-leaky", Version: "1.0.0", Roles: []plugin.Role{
		plugin.Verifier(func(_ context.Context, c config) (sdk.Verifier, error) {
			fmt.Fprintln(os.Stderr, "no connection with", c.Token)
			return nil, schema.Errorf([]string{"token"}, "401 for %s", c.Token)
		}),
	}}
}

// A failed check shows what the plugin logged, and never a secret of the config.
func TestAFailedCheckShowsTheLogWithoutSecrets(t *testing.T) {
	const secret = "tok-5up3r5ecret-abcdefgh"
	report, err := plugintest.Run(t.Context(), plugintest.Options{
		Path: linkTo(t, "verifier-leaky"), Config: map[wire.Role]map[string]any{wire.Verifier: {"token": secret}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if strings.Contains(r.Message, secret) {
			t.Errorf("%s: %s", r.Name, r.Message)
		}
		if r.Name == "verifier/answers" && (r.Status != plugintest.Failed || !strings.Contains(r.Message, "401 for [redacted]") || !strings.Contains(r.Message, "no connection with [redacted]")) {
			t.Errorf("%+v", r)
		}
	}
}

type noConfig struct{}

func judge() plugin.Plugin {
	return plugin.Plugin{Name: "verifier-judge", Version: "1.0.0", CallsModels: true, Roles: []plugin.Role{
		plugin.Verifier(func(context.Context, noConfig) (sdk.Verifier, error) {
			return sdk.VerifierFunc(func(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
				answer, err := plugin.Models(ctx).CallModel(ctx, "judge", req.Query)
				if err != nil {
					return nil, err
				}
				return &sdk.Verdict{Outcome: sdk.Passed, Evidence: answer.Text}, nil
			}), nil
		}),
	}}
}

func TestVerifierWithModels(t *testing.T) {
	v := plugintest.Verifier(t, judge(), nil, wire.ModelCallerFunc(func(_ context.Context, model string, _ *sdk.Query) (*sdk.Answer, error) {
		return &sdk.Answer{Text: "asked " + model, CostUSD: 0.125}, nil
	}))
	got, err := v.Verify(t.Context(), &sdk.VerifyRequest{Query: &sdk.Query{}, Answer: &sdk.Answer{}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Evidence != "asked judge" || got.CostUSD != 0.125 {
		t.Errorf("got %+v", got)
	}
}

func TestConfigure(t *testing.T) {
	ds := plugintest.Configure(t, judge(), wire.Verifier, map[string]any{"typo": 1})
	if !ds.HasErrors() || ds[0].Path[0] != "typo" {
		t.Errorf("got %v", ds)
	}
}

// An unknown outcome is an error of the call, which names its number.
func TestVerifierWithAnUnknownOutcome(t *testing.T) {
	for _, outcome := range []sdk.Outcome{-1, 3, 99} {
		p := plugin.Plugin{Name: "verifier-odd", Version: "1.0.0", Roles: []plugin.Role{
			plugin.Verifier(func(context.Context, noConfig) (sdk.Verifier, error) {
				return sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
					return &sdk.Verdict{Outcome: outcome}, nil
				}), nil
			}),
		}}
		_, err := plugintest.Verifier(t, p, nil).Verify(t.Context(), &sdk.VerifyRequest{Query: &sdk.Query{}, Answer: &sdk.Answer{}})
		if want := fmt.Sprintf("unknown outcome %d", outcome); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "panic") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
