package forecast_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/forecast"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
)

var key = []string{"OPENAI_API_KEY=none"}

func parse(t *testing.T, text string) *policies.Policy {
	t.Helper()
	p, err := policies.Parse("policy.hcl", []byte(text), policies.LoadOptions{Env: key})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func predict(t *testing.T, p *policies.Policy, w forecast.World) *forecast.Forecast {
	t.Helper()
	f, err := forecast.New(t.Context(), p, w, forecast.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Each policy of the library is planned, and asks somebody.
func TestLibraryPoliciesArePlanned(t *testing.T) {
	for _, name := range policies.Library() {
		p, err := policies.Load("library:"+name, policies.LoadOptions{Env: key})
		if err != nil {
			t.Fatal(err)
		}
		f := predict(t, p, &forecast.Beliefs{Queries: forecast.Sample(p), Draws: 10, Seed: 1})
		if f.Steps < 1 || f.Quality <= 0.3 || f.Refused > 0 || f.Infeasible > 0 {
			t.Errorf("%s: %+v", name, f)
		}
		if name != "local-first" && f.CostUSD <= 0 {
			t.Errorf("%s costs nothing", name)
		}
	}
}

const two = `
model "small" {
  provider = "openai"
  served   = "gpt-4.1-mini"
  quality {
    mean    = 0.5
    std_dev = 0.3
  }
}
model "large" {
  provider = "openai"
  served   = "gpt-4.1"
  quality {
    mean    = 0.8
    std_dev = 0.2
  }
}
`

const verified = two + `
verifier "tests" {
  plugin = "verifier-tests"
}
`

// By hand: the small model is right for three of four queries, the large one always;
// a verified threshold cascade asks the large one only for the fourth.
func TestForecastOfRecordedOutcomesByHand(t *testing.T) {
	table, err := outcome.Read(strings.NewReader(`query_id,model,quality,cost_usd
a,small,1,0.001
a,large,1,0.01
b,small,1,0.001
b,large,1,0.01
c,small,1,0.001
c,large,1,0.01
d,small,0,0.001
d,large,1,0.01
`), "outcomes.csv", outcome.Options{Verified: true})
	if err != nil {
		t.Fatal(err)
	}
	f := predict(t, parse(t, verified+"strategy \"threshold\" {\n  threshold = 0.5\n}\n"), &forecast.Table{Outcomes: table})
	if math.Abs(f.CostUSD-(4*0.001+0.01)/4) > 1e-12 || f.Quality != 1 || f.Steps != 1.25 || f.Unknown != 0 {
		t.Errorf("%+v", f)
	}
	if f.Models[0].Chosen != 0.75 || f.Models[1].Ran != 0.25 || f.Models[1].Chosen != 0.25 {
		t.Errorf("%+v", f.Models)
	}
}

// In a world of beliefs the mean quality of one model alone is what is believed of
// it, and its cost the price of the expected lengths.
func TestForecastFromBeliefsKeepsTheMeans(t *testing.T) {
	p := parse(t, verified+"strategy \"route\" {\n  lambda = 0\n}\n")
	w := &forecast.Beliefs{Queries: []*sdk.Query{{InputTokens: 1000}}, Draws: 4000, Seed: 1}
	f := predict(t, p, w)
	if sd := math.Sqrt(0.8 * 0.2 / 4000); math.Abs(f.Quality-0.8) > 4*sd {
		t.Errorf("quality %v, want 0.8 within %v", f.Quality, 4*sd)
	}
	if want := (1000*2 + 500*8) / 1e6; math.Abs(f.CostUSD-want) > 1e-12 {
		t.Errorf("cost %v, want %v", f.CostUSD, want)
	}
}

// Two policies that ask the same model meet the same answers, so that a comparison
// has no noise of its own.
func TestPoliciesMeetTheSameAnswers(t *testing.T) {
	w := &forecast.Beliefs{Queries: []*sdk.Query{{InputTokens: 1000}}, Draws: 200, Seed: 1}
	a := predict(t, parse(t, two+"strategy \"route\" {\n  lambda = 0\n}\n"), w)
	renamed := strings.ReplaceAll(two, `model "large"`, `model "other name"`)
	b := predict(t, parse(t, renamed+"strategy \"route\" {\n  lambda = 0\n}\n"), w)
	if a.Quality != b.Quality || a.CostUSD != b.CostUSD {
		t.Errorf("%v and %v", a, b)
	}
}

func TestCapsShowInTheForecast(t *testing.T) {
	text := two + "strategy \"route\" {\n  lambda = 0\n}\nbudget {\n  step_usd = 0.06\n}\n"
	w := &forecast.Beliefs{Queries: []*sdk.Query{{InputTokens: 100}, {InputTokens: 900_000}}}
	f := predict(t, parse(t, text), w)
	// The longest answer of the large model alone may cost 0.26 USD, that of the
	// small one 0.052; a prompt of 900,000 tokens leaves no room for either.
	if f.Models[1].Ran != 0 || f.Models[0].Ran != 0.5 || f.Refused != 1 {
		t.Errorf("%+v", f)
	}
}

func TestForecastFromTraces(t *testing.T) {
	trace := &sdk.Trace{
		ID: "t", InputTokens: 1000,
		Decisions: []sdk.Decision{{Run: "small", Models: []sdk.Belief{
			{Model: "small", Quality: sdk.Estimate{Mean: 0.2}}, {Model: "large", Quality: sdk.Estimate{Mean: 0.9}},
		}}},
		Calls: []sdk.Call{{Model: "small", CostUSD: 0.003, Quality: sdk.Estimate{Mean: 0.7}}},
	}
	w := &forecast.Traces{Steps: []*sdk.Trace{trace}}
	small := predict(t, parse(t, two+"strategy \"threshold\" {\n  threshold = 0.6\n}\n"), w)
	if small.Quality != 0.7 || small.CostUSD != 0.003 || small.Unknown != 0 {
		t.Errorf("the recorded call: %+v", small)
	}
	large := predict(t, parse(t, two+"strategy \"route\" {\n  lambda = 0\n}\n"), w)
	if large.Models[1].Ran != 1 || large.Quality != 0.9 {
		t.Errorf("the model that was not run: %+v", large)
	}
}
