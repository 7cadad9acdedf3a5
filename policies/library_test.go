package policies_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

var withKey = []string{"OPENAI_API_KEY=sk-planted-secret-0123456789"}

// Each policy of the library loads without a warning, and its strategy can be built and run on a query until it
// stops.
func TestLibraryPoliciesLoadAndRun(t *testing.T) {
	if len(policies.Library()) < 7 {
		t.Fatalf("library = %v", policies.Library())
	}
	for _, name := range policies.Library() {
		t.Run(name, func(t *testing.T) {
			p, err := policies.Load("library:"+name, policies.LoadOptions{Env: withKey})
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Warnings) > 0 {
				t.Error(p.Warnings)
			}
			for i := range len(p.Matches) + 1 {
				q := &sdk.Query{Labels: map[string]string{}}
				if i > 0 {
					q.Labels = p.Matches[i-1].When.Labels
				}
				choice := p.Choose(q)
				if i > 0 && choice.Match != p.Matches[i-1].Name {
					t.Errorf("the query of match %s got %q", p.Matches[i-1].Name, choice.Match)
				}
				run(t, p, choice)
			}
		})
	}
}

// run follows the strategy until it stops, with answers of medium quality.
func run(t *testing.T, p *policies.Policy, choice policies.Choice) {
	t.Helper()
	models := p.SDKModels()
	names := make([]string, len(models))
	for i := range models {
		names[i] = models[i].Name
	}
	setting := choice.Strategy.Setting()
	s, err := setting.Strategy(names)
	if err != nil {
		t.Fatal(err)
	}
	state := &cascade.State{Beliefs: make([]cascade.Belief, len(models)), Costs: make([]float64, len(models)), Infeasible: make([]bool, len(models))}
	for i, m := range p.Models {
		state.Beliefs[i] = cascade.Belief{Mean: m.Quality.Mean, StdDev: m.Quality.StdDev}
		state.Costs[i] = models[i].Price.CostUSD(sdk.Usage{InputTokens: 1000, OutputTokens: m.ExpectedOutputTokens})
		state.Infeasible[i] = !choice.Candidates[i]
	}
	for range len(models) + 1 {
		d := s.Decide(state)
		if d.Run == cascade.Stop {
			if len(state.Ran) == 0 || d.Answer == cascade.None {
				t.Errorf("the strategy %s stops without an answer", choice.Strategy.Kind)
			}
			return
		}
		state.Ran = append(state.Ran, d.Run)
		state.Beliefs[d.Run] = cascade.Belief{Mean: 0.5}
	}
	t.Errorf("the strategy %s never stops", choice.Strategy.Kind)
}

// The catalogue is complete and plausible: a price that is wrong by a factor of a thousand would cost an operator
// money.
func TestCatalogue(t *testing.T) {
	p, err := policies.Load("library:tiers", policies.LoadOptions{Env: withKey})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Catalog) < 10 {
		t.Fatalf("%d entries", len(p.Catalog))
	}
	for _, c := range p.Catalog {
		provider, served, _ := strings.Cut(c.Name, "/")
		if !slices.Contains([]string{"openai", "anthropic", "gemini", "mistral"}, provider) || served == "" {
			t.Errorf("%s: no policy can name it", c.Name)
		}
		if day, err := time.Parse(time.DateOnly, c.AsOf); err != nil || day.Year() < 2025 || day.After(time.Now()) || !strings.HasPrefix(c.Source, "https://") {
			t.Errorf("%s: of %s from %s: %v", c.Name, c.AsOf, c.Source, err)
		}
		price := c.Price
		if price.Input < 0.01 || price.Output < price.Input && !slices.Contains(c.Capabilities, "embeddings") || price.Output > 200 || price.CachedInput > price.Input || price.CacheWrite != 0 && price.CacheWrite < price.Input {
			t.Errorf("%s: price %+v", c.Name, price)
		}
		if c.ContextTokens < 8000 || c.MaxOutputTokens > c.ContextTokens || len(c.Capabilities) == 0 {
			t.Errorf("%s: %+v", c.Name, c)
		}
	}
}

// Old prices cause a warning, until the operator confirms or replaces them.
func TestOldPrices(t *testing.T) {
	const rest = `
model "small" {
  provider = "openai"
  served   = "gpt-4o-mini"
}
model "large" {
  provider = "openai"
  served   = "gpt-4o"
  price {
    input_usd_per_million  = 2.5
    output_usd_per_million = 10
  }
}
strategy "route" {
  lambda = 1
}
`
	later := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	p := load(t, rest, policies.LoadOptions{Today: later})
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0].Detail, "openai/gpt-4o-mini") || strings.Contains(p.Warnings[0].Detail, "openai/gpt-4o:") {
		t.Errorf("warnings %v", p.Warnings)
	}
	for name, o := range map[string]policies.LoadOptions{
		"young":    {Today: time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC)},
		"no today": {},
	} {
		if p := load(t, rest, o); len(p.Warnings) > 0 {
			t.Errorf("%s: %v", name, p.Warnings)
		}
	}
	said := load(t, `catalog "openai/gpt-4o-mini" { as_of = "2029-12-01" }`+rest, policies.LoadOptions{Today: later})
	if len(said.Warnings) > 0 || said.Models[0].Price.Output != 0.6 {
		t.Errorf("price %v, warnings %v", said.Models[0].Price, said.Warnings)
	}
}

func TestCatalogueCanBeOverridden(t *testing.T) {
	p := load(t, `
catalog "openai/house-model" {
  as_of  = "2026-01-01"
  source = "our contract"
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 2
  }
}
catalog "openai/gpt-4.1" {
  price {
    input_usd_per_million = 1.5
  }
}
model "a" {
  provider = "openai"
  served   = "house-model"
}
model "b" {
  provider = "openai"
  served   = "gpt-4.1"
}
strategy "route" {
  lambda = 1
}
`, policies.LoadOptions{})
	if p.Models[0].Price.Output != 2 || p.Models[1].Price.Input != 1.5 || p.Models[1].Price.Output != 8 {
		t.Errorf("prices %+v, %+v", p.Models[0].Price, p.Models[1].Price)
	}
}
