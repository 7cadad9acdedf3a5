package full_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
)

// withPlugin returns a policy whose verifier is the program at path.
func withPlugin(t *testing.T, path string) *policies.Policy {
	t.Helper()
	text := fmt.Sprintf(`model "a" {
  provider          = "ollama"
  max_output_tokens = 10
  price { free = true }
}
plugin "p" { path = %q }
verifier "form" {
  plugin = "p"
}
strategy "cascade_route" { worth_usd = 0.05 }
`, path)
	p, err := policies.Parse("policy.hcl", []byte(text), policies.LoadOptions{WithoutSecrets: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A program can name the type of plugin statistics.
func TestStatisticsOfPluginsHaveAName(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, err := router.New(t.Context(), withPlugin(t, program), full.Complete(router.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	isStopped := func(s full.PluginStat) bool { return s.Instance == "form" && s.State == "stopped" }
	if stats := full.PluginStats(r); len(stats) != 1 || !isStopped(stats[0]) {
		t.Errorf("%+v", stats)
	}
}

// An error of a plugin includes the position in the policy that selects the plugin.
func TestErrorsOfPluginsHaveAPlace(t *testing.T) {
	if _, err := router.New(t.Context(), withPlugin(t, "/nowhere/plugin"), full.Complete(router.Options{})); err == nil || !strings.Contains(err.Error(), "policy.hcl:8: verifier form: ") {
		t.Error(err)
	}
}
