package router_test

import (
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
)

// While steps are recorded for an estimator that is still to be fitted, models are called with the parameters that it
// will need. A policy that does not need these signals does not request them.
func TestSignalsAreAskedForWhileObserving(t *testing.T) {
	const models = "model \"small\" {\n  provider = \"ollama\"\n  capabilities = [\"log_probs\"]\n  price {\n    free = true\n  }\n}\nstrategy \"route\" {\n  lambda = 1\n}\n"
	t.Chdir(t.TempDir())
	for name, want := range map[string]int{
		"mode = \"observe\"\nbaseline = \"small\"\n": 5, "mode = \"shadow\"\nbaseline = \"small\"\nshadow {\n  max_usd = 1\n}\n": 5,
		"trace {\n  file = \"t.jsonl\"\n  explore = 0.1\n}\n": 5, "": 0,
	} {
		p, err := policies.Parse("policy.hcl", []byte(name+models), policies.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := -1
		r, err := router.New(t.Context(), p, router.Options{Providers: map[string]middleware.OpenClient{"ollama": func(c middleware.ClientConfig) (llms.Model, error) {
			got = c.TopLogProbs
			return says("x"), nil
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if got != want {
			t.Errorf("%q: %d alternatives at each token, want %d", name, got, want)
		}
	}
}
