package policies_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/policies"
)

const twoMatches = `
model "small" {
  provider = "openai"
  served   = "gpt-4.1-mini"
  api_key  = env("KEY")
}
model "gpt-4.1" {
  provider = "openai"
}
strategy "index" {
  lambda = 1
}
match "a" {
  strategy "route" {
    lambda = 1
  }
  when {
    groups = ["a"]
  }
}
match "b" {
  strategy "route" {
    lambda = 2
  }
  when {
    groups = ["a", "b"]
  }
}
session {}
`

// Every change in effect is a difference, and nothing else is.
func TestDiff(t *testing.T) {
	blockOf := func(text, head string) string {
		at := strings.Index(text, head)
		return text[at : at+strings.Index(text[at:], "\n}\n")+3]
	}
	a, b := blockOf(twoMatches, `match "a"`), blockOf(twoMatches, `match "b"`)
	for name, tt := range map[string]struct {
		change func(string) string
		want   []policies.Change
	}{
		"nothing":         {func(s string) string { return s }, nil},
		"a default given": {func(s string) string { return s + "retry {\n  max_attempts = 2\n}\nbudget {\n  step_usd = 0\n}\n" }, nil},
		"a local instead": {func(s string) string {
			return strings.Replace(s, "lambda = 1\n", "lambda = local.l\n", 1) + "locals {\n  l = 1\n}\n"
		}, nil},
		"a value": {func(s string) string { return s + "stream {\n  mode = \"commit\"\n}\nretry {\n  break_after = 0\n}\n" }, []policies.Change{
			{Path: "stream.mode", Old: `"buffer"`, New: `"commit"`}, {Path: "retry.break_after", Old: "5", New: "0"},
		}},
		"a deployment": {func(s string) string {
			return strings.Replace(s, `  provider = "openai"`+"\n}", `  provider = "openai"`+"\n  deployment \"eu\" {\n    base_url = \"http://eu\"\n  }\n}", 1)
		}, []policies.Change{
			{Path: `model["gpt-4.1"].deployment.eu.base_url`, New: `"http://eu"`},
		}},
		"a price": {func(s string) string {
			return s + "catalog \"openai/gpt-4.1\" {\n  price {\n    input_usd_per_million = 3\n  }\n}\n"
		}, []policies.Change{{Path: `model["gpt-4.1"].price.input_usd_per_million`, Old: "2", New: "3"}}},
		"a block gone": {func(s string) string { return strings.Replace(s, "session {}\n", "", 1) }, []policies.Change{
			{Path: "session.cache_aware", Old: "true"}, {Path: "session.idle_timeout", Old: `"10m"`},
		}},
		"the order": {func(s string) string { return strings.Replace(strings.Replace(s, a, "", 1), b, b+a, 1) }, []policies.Change{
			{Path: "order of match blocks", Old: "a, b", New: "b, a"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			env := policies.LoadOptions{Env: []string{"KEY=" + planted}}
			got := policies.Diff(load(t, twoMatches, env), load(t, tt.change(twoMatches), env))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A profile with other content is a difference, whatever its name; if only the path changes, so does only the path.
func TestDiffOfProfiles(t *testing.T) {
	dir := t.TempDir()
	with := func(profile, content string) *policies.Policy {
		file := filepath.Join(dir, profile)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return load(t, twoMatches+"fit {\n  profile = \""+filepath.ToSlash(file)+"\"\n}\n", policies.LoadOptions{Env: []string{"KEY=" + planted}})
	}
	a, same, other := with("a.json", "{}"), with("same.json", "{}"), with("other.json", `{"version": 1}`)
	for _, c := range []struct {
		next *policies.Policy
		want string
	}{{a, ""}, {same, "fit.profile"}, {other, "fit.profile, content of the profile"}} {
		var paths []string
		for _, change := range policies.Diff(a, c.next) {
			paths = append(paths, change.Path)
		}
		if got := strings.Join(paths, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.next.Fit.Profile, got, c.want)
		}
	}
}
