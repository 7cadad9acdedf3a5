package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/cli"
	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/programs"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// A binary is started for its schema once; then validate starts nothing until it changes. A script can load other
// modules each time, and is always started.
func TestValidateStartsNoBinaryAgain(t *testing.T) {
	dir := t.TempDir()
	cache := filepath.Join(dir, "cache")
	t.Setenv("XDG_CACHE_HOME", cache)
	real := filepath.Join(programs.Build(t, "verifier-schema"), "verifier-schema")
	program := filepath.Join(dir, "verifier-counted")
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
	code, err := os.ReadFile(real)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, code, 0o700); err != nil {
		t.Fatal(err)
	}
	write("")
	validate(cli.ExitOK)
	// What was kept is altered, so that it shows where it is read.
	kept, err := filepath.Glob(filepath.Join(cache, "stepfall", "schemas", "*-verifier.json"))
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	altered, err := json.Marshal(&schema.Schema{Fields: []schema.Field{{Name: "of_the_cache", Type: "string"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept[0], altered, 0o600); err != nil {
		t.Fatal(err)
	}
	write("of_the_cache = \"x\"")
	validate(cli.ExitOK)
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
	starts := filepath.Join(dir, "starts")
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\necho started >> '%s'\nexec '%s' \"$@\"\n", starts, real), 0o700); err != nil {
		t.Fatal(err)
	}
	write("of_the_cache = \"x\"")
	validate(cli.ExitFailure)
	write("")
	validate(cli.ExitOK)
	text, err := os.ReadFile(starts)
	if n := bytes.Count(text, []byte("\n")); err != nil || n != 2 {
		t.Errorf("the script was started %d times, want 2: %v", n, err)
	}
}
