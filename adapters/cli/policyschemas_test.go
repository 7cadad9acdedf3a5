package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/cli"
	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/programs"
)

// A plugin is started for its schema once; then validate starts nothing until the
// plugin's program changes. The program is a script that counts its starts.
func TestValidateStartsNoPluginAgain(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	real := filepath.Join(programs.Build(t, "verifier-schema"), "verifier-schema")
	starts := filepath.Join(dir, "starts")
	program := filepath.Join(dir, "verifier-counted")
	install := func(version int) {
		t.Helper()
		text := fmt.Sprintf("#!/bin/sh\n# version %d\necho started >> '%s'\nexec '%s' \"$@\"\n", version, starts, real)
		if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	policy := filepath.Join(dir, "policy.hcl")
	write := func(config string) {
		t.Helper()
		text := fmt.Sprintf(`
model "small" {
  provider = "go"
  price {
    free = true
  }
}
strategy "route" {
  lambda = 1
}
plugin "verifier-counted" {
  path = %q
}
verifier "schema" {
  plugin = "verifier-counted"
  config {
    %s
  }
}
`, program, config)
		if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	validate := func(want int) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := cli.Run(context.Background(), []string{"policy", "validate", policy}, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}); code != want {
			t.Fatalf("validate returned %d, want %d:\n%s%s", code, want, &out, &errs)
		}
		return errs.String()
	}
	started := func() int {
		t.Helper()
		text, err := os.ReadFile(starts)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return bytes.Count(text, []byte("\n"))
	}

	install(1)
	write("")
	validate(cli.ExitOK)
	once := started()
	if once == 0 {
		t.Fatal("the plugin was not asked for its schema")
	}
	for range 3 {
		validate(cli.ExitOK)
	}
	write("no_such_argument = 1")
	if said := validate(cli.ExitFailure); !strings.Contains(said, "no_such_argument") {
		t.Errorf("the kept schema was not used:\n%s", said)
	}
	// What validate refuses, Open refuses, before anything is asked.
	for _, watch := range []bool{false, true} {
		r, err := full.Open(t.Context(), policy, full.Options{Watch: watch})
		if err == nil {
			r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "no_such_argument") {
			t.Errorf("Open with watch %t: %v", watch, err)
		}
	}
	if n := started(); n != once {
		t.Errorf("%d starts where nothing of the plugin changed, want %d", n, once)
	}
	install(2)
	write("")
	validate(cli.ExitOK)
	if n := started(); n <= once {
		t.Error("the plugin changed and was not asked again")
	}
}
