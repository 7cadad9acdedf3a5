package full_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/plugin"
)

// TestMain lets the test binary double as a plugin.
func TestMain(m *testing.M) {
	jail.Main()
	if filepath.Base(os.Args[0]) == "verifier-here" {
		plugin.Main(plugin.Plugin{Name: "verifier-here", Version: "0.1.0", Roles: []plugin.Role{plugin.Verifier(newVerifier)}})
	}
	os.Exit(m.Run())
}

func newVerifier(context.Context, struct{}) (sdk.Verifier, error) {
	return sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		return nil, errors.New("never asked")
	}), nil
}

// A plugin with another checksum than the pinned one, or without the role, is an error of the policy, whether its schema
// is cached or not, for validate as for a router: it can never work.
func TestPoliciesThatNameAnotherPlugin(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "verifier-here")
	if err := os.Symlink(exe, program); err != nil {
		t.Skip(err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, c := range []struct{ pin, block, want string }{
		{strings.Repeat("0", 64), "verifier", "plugin checksum mismatch"},
		{"", "verifier", ""},
		{strings.Repeat("0", 64), "verifier", "plugin checksum mismatch"},
		{"", "estimator", "plugin verifier-here is not a quality estimator"},
	} {
		policy := filepath.Join(t.TempDir(), "policy.hcl")
		writePolicy(t, policy, program, c.pin, c.block)
		_, loading := policies.Load(policy, policies.LoadOptions{Schemas: full.Schemas(t.Context(), policy)})
		r, opening := full.Open(t.Context(), policy, router.Options{})
		for how, err := range map[string]error{"validate": loading, "open": opening} {
			if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "policy.hcl:")) {
				t.Errorf("%s %+v: %v", how, c, err)
			}
		}
		if opening == nil {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func writePolicy(t *testing.T, policy, program, pin, block string) {
	t.Helper()
	text := fmt.Sprintf("model \"a\" {\n  provider = \"ollama\"\n  max_output_tokens = 10\n  price { free = true }\n}\n"+
		"plugin \"verifier-here\" {\n  path = %q\n  checksum = %q\n}\n%s \"b\" {\n  plugin = \"verifier-here\"\n}\nstrategy \"route\" { lambda = 1 }\n", program, pin, block)
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A router opens although a plugin does not start, and the log says that its config is not checked, and why.
func TestAPluginThatDoesNotStartIsWarnedOf(t *testing.T) {
	program, policy := filepath.Join(t.TempDir(), "verifier-here"), filepath.Join(t.TempDir(), "policy.hcl")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho no weights >&2; exit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	writePolicy(t, policy, program, "", "verifier")
	var log bytes.Buffer
	r, err := full.Open(t.Context(), policy, router.Options{Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, want := range []string{`the config of plugin "verifier-here" is not checked`, "no weights"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in the log: %s", want, &log)
		}
	}
}
