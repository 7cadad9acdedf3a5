package forecast_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// known are the models of the worlds in which plans are checked: how often each is right, and its price in US dollars
// per million tokens.
var known = []struct {
	name         string
	right, price float64
}{{"small", 0.45, 0.4}, {"medium", 0.7, 1.6}, {"large", 0.9, 8}}

// asked and answered are the tokens of each query, and of an answer on average.
const asked, answered = 1000, 500

// lives returns the true outcomes of n queries. With shared above 0, models err together on hard queries; each model
// is still right as often as known says.
func lives(rng *rand.Rand, n int, shared float64) *outcome.Table {
	t := &outcome.Table{Verified: true}
	for _, m := range known {
		t.Models = append(t.Models, m.name)
	}
	for q := range n {
		t.Queries = append(t.Queries, fmt.Sprintf("q%d", q))
		hard := rng.NormFloat64()
		var quality, cost, in, out []float64
		for _, m := range known {
			z := math.Sqrt(shared)*hard + math.Sqrt(1-shared)*rng.NormFloat64()
			right := 0.0
			if 0.5*math.Erfc(-z/math.Sqrt2) < m.right {
				right = 1
			}
			tokens := math.Round(answered * (0.4 + 1.2*rng.Float64()))
			quality, in, out = append(quality, right), append(in, asked), append(out, tokens)
			cost = append(cost, m.price*(asked+tokens)/1e6)
		}
		t.Quality, t.CostUSD = append(t.Quality, quality), append(t.CostUSD, cost)
		t.InputTokens, t.OutputTokens = append(t.InputTokens, in), append(t.OutputTokens, out)
	}
	return t
}

// believing returns a policy whose beliefs are the known values.
func believing(t *testing.T, kind, more string) *policies.Policy {
	t.Helper()
	text := "verifier \"tests\" {\n  plugin = \"verifier-tests\"\n}\n"
	for _, m := range known {
		text += fmt.Sprintf("model %q {\n  provider = \"openai\"\n  base_url = \"http://127.0.0.1:1\"\n  expected_output_tokens = %d\n  price {\n    input_usd_per_million  = %g\n    output_usd_per_million = %g\n  }\n  quality {\n    mean = %g\n  }\n}\n",
			m.name, answered, m.price, m.price, m.right)
	}
	knob := "lambda = 40"
	if kind == cascade.NameThreshold {
		knob = "threshold = 0.5"
	}
	return parse(t, text+fmt.Sprintf("strategy %q {\n  %s\n}\n", kind, knob)+more)
}

// TestPlansAreHeldToAccount: the outcome on other queries lies within a plan's interval as often as two standard
// deviations promise, without bias. From recorded outcomes that holds however models err together; from samples and
// from traces of models that were not run, where the beliefs are true.
func TestPlansAreHeldToAccount(t *testing.T) {
	if testing.Short() {
		t.Skip("replays 100 worlds")
	}
	const worlds = 12
	for _, source := range []struct {
		name   string
		shared float64
		world  func(t *testing.T, rng *rand.Rand, kind string, seed uint64) forecast.World
	}{
		{"outcomes", 0.6, func(_ *testing.T, rng *rand.Rand, _ string, _ uint64) forecast.World {
			return &forecast.Table{Outcomes: lives(rng, 200, 0.6)}
		}},
		{"samples", 0, func(_ *testing.T, _ *rand.Rand, _ string, seed uint64) forecast.World {
			return &forecast.Beliefs{Queries: []*sdk.Query{{InputTokens: asked, Checks: sdk.Checks{FailToPass: []string{"x"}}}}, Draws: 200, Seed: seed}
		}},
		{"traces of observing", 0, func(t *testing.T, rng *rand.Rand, kind string, seed uint64) forecast.World {
			t.Helper()
			return &forecast.Traces{Seed: seed, Steps: keep(t, believing(t, kind, "mode = \"observe\"\nbaseline = \"medium\"\n"), lives(rng, 200, 0))}
		}},
		{"traces of another strategy", 0, func(t *testing.T, rng *rand.Rand, _ string, seed uint64) forecast.World {
			t.Helper()
			return &forecast.Traces{Seed: seed, Steps: keep(t, believing(t, cascade.NameThreshold, ""), lives(rng, 200, 0))}
		}},
	} {
		for _, kind := range []string{cascade.NameRoute, cascade.NameThreshold, cascade.NameCascade, cascade.NameCascadeRoute, cascade.NameIndex} {
			t.Run(strings.ReplaceAll(source.name, " ", "_")+"/"+kind, func(t *testing.T) {
				if os.Getenv("STEPFALL_ATTACKS") != "all" && source.name != "outcomes" && kind != cascade.NameCascadeRoute {
					t.Skip("STEPFALL_ATTACKS is not all: one strategy of each source, and one source of each strategy")
				}
				t.Parallel()
				within, side := 0, [2]float64{}
				for seed := range uint64(worlds) {
					rng := rand.New(rand.NewPCG(seed, 11))
					p := believing(t, kind, "")
					foretold := predict(t, p, source.world(t, rng, kind, seed))
					happened := predict(t, p, &forecast.Table{Outcomes: lives(rng, 400, source.shared)})
					foretoldQuality, foretoldError := wholeQuality(foretold)
					happenedQuality, happenedError := wholeQuality(happened)
					for i, z := range []float64{
						sigmas(foretold.CostUSD-happened.CostUSD, foretold.CostStdError, happened.CostStdError),
						sigmas(foretoldQuality-happenedQuality, foretoldError, happenedError),
					} {
						side[i] += z / math.Sqrt(worlds)
						if math.Abs(z) <= 2 {
							within++
						}
					}
				}
				// 22.9 of 24 are expected, and fewer than 18 come once in ten thousand times.
				if within < 18 {
					t.Errorf("%d of %d figures lie within two standard errors of what happened", within, 2*worlds)
				}
				if math.Abs(side[0]) > 4 || math.Abs(side[1]) > 4 {
					t.Errorf("plans are off to one side: cost by %.1f, quality by %.1f standard errors over all worlds", side[0], side[1])
				}
			})
		}
	}
}

// wholeQuality returns the mean quality over all queries, judged and guessed together, and its standard error. A
// forecast does not report such a figure where it has both.
func wholeQuality(f *forecast.Forecast) (mean, stdError float64) {
	n, squares := float64(f.Queries), 0.0
	for _, part := range []forecast.Score{f.Judged, f.Guessed} {
		answers := float64(part.Answers)
		mean += answers * part.Mean / n
		squares += answers * (part.Mean*part.Mean + answers*part.StdError*part.StdError) / n
	}
	return mean, math.Sqrt(max(0, squares-mean*mean) / n)
}

// keep returns the traces of a policy in use.
func keep(t *testing.T, p *policies.Policy, table *outcome.Table) []*sdk.Trace {
	t.Helper()
	f, err := forecast.New(t.Context(), p, &forecast.Table{Outcomes: table}, forecast.Options{Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	return f.Traces
}

// sigmas returns a difference in standard errors of both sides. Without variance, a difference within rounding is 0.
func sigmas(difference, a, b float64) float64 {
	s := math.Hypot(a, b)
	if s == 0 || math.Abs(difference) < 1e-12 {
		if math.Abs(difference) < 1e-12 {
			return 0
		}
		return math.Copysign(math.Inf(1), difference)
	}
	return difference / s
}
