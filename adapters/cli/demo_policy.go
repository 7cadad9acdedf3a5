package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/tasks"
	"github.com/stepfall/stepfall/adapters/scripted"
)

// demoModels are the models that the demo asks, cheapest first, with prices in US
// dollars per million tokens.
type demoModels struct {
	// about is what the screen says they are.
	about    string
	provider string
	baseURL  string
	key      bool // take OPENAI_API_KEY
	models   []demoModel
	close    func() error
}

type demoModel struct {
	name, served  string
	input, output float64
	prior         float64
}

// The price ratios of three sizes of one family (1 : 4 : 20), and how often each is
// expected to be right.
var demoTiers = []demoModel{
	{name: "small", input: 0.10, output: 0.40, prior: 0.4},
	{name: "medium", input: 0.40, output: 1.60, prior: 0.7},
	{name: "large", input: 2.00, output: 8.00, prior: 0.9},
}

// chooseDemoModels takes real models when the environment has any, and otherwise
// starts the scripted ones.
func chooseDemoModels(named []string, list []tasks.Task) (*demoModels, error) {
	key, base, ollama := os.Getenv("OPENAI_API_KEY"), os.Getenv("OPENAI_BASE_URL"), os.Getenv("OLLAMA_HOST")
	d := &demoModels{close: func() error { return nil }}
	switch {
	case key != "" || base != "":
		d.provider, d.baseURL, d.key = "openai", base, key != ""
		d.about = "models of " + cmp.Or(base, "api.openai.com")
		d.models = []demoModel{{"gpt-5-nano", "gpt-5-nano", 0.05, 0.40, 0.5}, {"gpt-5-mini", "gpt-5-mini", 0.25, 2, 0.75}, {"gpt-5", "gpt-5", 1.25, 10, 0.9}}
	case ollama != "":
		d.provider, d.baseURL = "ollama", ollama
		if !strings.Contains(ollama, "://") {
			d.baseURL = "http://" + ollama
		}
		d.about = "models of Ollama at " + d.baseURL
		if len(named) == 0 {
			var err error
			if named, err = demoOllamaModels(d.baseURL); err != nil {
				return nil, err
			}
		}
	default:
		server, err := scripted.Start(scripted.Options{Models: tasks.Models(), Respond: tasks.Script(list)})
		if err != nil {
			return nil, err
		}
		d.provider, d.baseURL, d.close = "openai", server.URL(), server.Close
		d.about = "SCRIPTED models (no key found): their answers are fixed, wrong ones included; the tests that judge them are real"
		d.models = demoTiers
		return d, nil
	}
	if len(named) > 0 {
		if len(named) > len(demoTiers) || len(named) < 2 {
			return nil, fmt.Errorf("--models wants two or three names, cheapest first")
		}
		d.about += ", at notional prices of 1 : 4 : 20"
		d.models = nil
		tiers := demoTiers[len(demoTiers)-len(named):]
		for i, name := range named {
			tier := tiers[i]
			tier.name, tier.served = strings.NewReplacer("/", "-", ":", "-").Replace(name), name
			d.models = append(d.models, tier)
		}
	}
	return d, nil
}

// demoOllamaModels returns up to three models that Ollama has, the smallest first.
func demoOllamaModels(base string) ([]string, error) {
	client := &http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(base + "/api/tags")
	if err != nil {
		return nil, fmt.Errorf("asking Ollama for its models: %w", err)
	}
	defer response.Body.Close()
	var tags struct {
		Models []struct {
			Name string `json:"name"`
			Size int64  `json:"size"`
		} `json:"models"`
	}
	if err := json.NewDecoder(response.Body).Decode(&tags); err != nil {
		return nil, fmt.Errorf("asking Ollama for its models: %w", err)
	}
	if len(tags.Models) < 2 {
		return nil, fmt.Errorf("the demo wants two or three models, and Ollama has %d; name them with --models", len(tags.Models))
	}
	bySize := tags.Models
	for i := range bySize {
		for k := i; k > 0 && bySize[k].Size < bySize[k-1].Size; k-- {
			bySize[k], bySize[k-1] = bySize[k-1], bySize[k]
		}
	}
	names := []string{bySize[0].Name, bySize[len(bySize)/2].Name}
	if len(bySize) > 2 {
		names = append(names, bySize[len(bySize)-1].Name)
	}
	return names, nil
}

// write writes the demo's policy into dir and returns its path.
func (d *demoModels) write(dir string) (string, error) {
	var b strings.Builder
	b.WriteString("# The policy of `stepfall demo`: three models, one verifier, one strategy.\n\n")
	for _, m := range d.models {
		fmt.Fprintf(&b, "model %q {\n  provider = %q\n  served   = %q\n", m.name, d.provider, cmp.Or(m.served, m.name))
		if d.baseURL != "" {
			fmt.Fprintf(&b, "  base_url = %q\n", d.baseURL)
		}
		if d.key {
			b.WriteString("  api_key  = env(\"OPENAI_API_KEY\")\n")
		}
		fmt.Fprintf(&b, `  price {
    input_usd_per_million  = %g
    output_usd_per_million = %g
  }
  context_tokens         = 128000
  max_output_tokens      = 16384
  expected_output_tokens = 200
  quality {
    mean    = %g
    std_dev = 0.3
  }
}

`, m.input, m.output, m.prior)
	}
	b.WriteString(`verifier "tests" {
  plugin = "verifier-tests"
  config {
    command   = ["go", "test", "-vet=off", "-timeout=8s", "./..."]
    timeout   = "60s"
    preflight = false # the bundled tasks are known to fail for the right reason
    reruns    = 0     # and not to be flaky
  }
  on_unavailable = "fail"
}

strategy "cascade_route" {
  lambda = 50 # a solved task is worth two cents
}
`)
	path := filepath.Join(dir, "policy.hcl")
	return path, os.WriteFile(path, []byte(b.String()), 0o644)
}
