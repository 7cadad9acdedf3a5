package cli

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Free outcomes, and those of a single model, are reported as such. A model without a recorded cost is not the most
// expensive.
func TestNothingIsToBeSaved(t *testing.T) {
	for want, table := range map[string]*outcome.Table{
		"always asking large costs nothing": {Models: []string{"small", "large"}, Queries: []string{"1"}, CostUSD: [][]float64{{math.NaN(), 0}}},
		"always asking small costs nothing": {Models: []string{"small", "large"}, Queries: []string{"1"}, CostUSD: [][]float64{{0, 0}}},
		"small is the only model":           {Models: []string{"small"}, Queries: []string{"1"}, CostUSD: [][]float64{{0.1}}},
	} {
		b := benefitOf(&fit.Profile{}, "profile.json", nil, table, nil, forecastInUse{})
		if text := b.String(); !strings.Contains(text, want) || strings.Contains(text, "NaN") {
			t.Errorf("%q, want %q", text, want)
		}
	}
}

// A profile that saves nothing says how much better it is, compared with the best of the models that cost about as much.
func TestWhatIsGainedWhereNothingIsSaved(t *testing.T) {
	table := &outcome.Table{
		Models: []string{"a", "b", "c"}, Queries: []string{"1", "2"},
		CostUSD: [][]float64{{0.1, 0.099, 0.01}, {0.1, 0.099, 0.01}}, Quality: [][]float64{{0, 1, 1}, {0, 0, 1}},
	}
	p := &fit.Profile{Expected: fit.Expectation{CostUSD: 0.15, Quality: 0.75}}
	b := benefitOf(p, "profile.json", nil, table, nil, forecastInUse{})
	if text := b.String(); !strings.Contains(text, "SAVES NOTHING: a query costs 0.15 USD, 152 % of always asking b, and its quality is 25.0 points higher") {
		t.Error(text)
	}
	if p.Expected.Quality = 0.5; strings.Contains(func() string { b := benefitOf(p, "", nil, table, nil, forecastInUse{}); return b.String() }(), "higher") {
		t.Error("no gain is one")
	}
}

// A quality is at most 1, and so is its interval.
func TestIntervalsOfQualitiesEndAtOne(t *testing.T) {
	p := &madePlan{Policies: []*forecast.Forecast{{Judged: forecast.Score{Answers: 10, Mean: 0.95, StdError: 0.1}}}}
	rows := p.rows()
	at := slices.IndexFunc(rows, func(r planRow) bool { return r.name == "quality, judged" })
	if low, high := rows[at].interval(p.Policies[0]); high != 1 || low >= 0.95 {
		t.Errorf("from %v to %v", low, high)
	}
}

// Verdicts without a verifier of that name are listed.
func TestVerdictsOfAnotherNameAreNamed(t *testing.T) {
	table := &outcome.Table{Verdicts: map[string][][]float64{"gate": nil, "judge": nil}}
	if got := unreadVerdicts(&policies.Policy{Verifiers: []policies.Verifier{{Name: "judge"}}}, table); len(got) != 1 || got[0] != "gate" {
		t.Errorf("not read: %q", got)
	}
}

// Where runs that the large model did alone have verdicts, RUNS RIGHT is their share, and the profile's is corrected alike.
// Runs that a strategy gave to it do not count.
func TestRunsRightAreThoseWithVerdicts(t *testing.T) {
	table := &outcome.Table{Models: []string{"small", "large"}}
	for run := range 40 {
		for step := range 4 {
			verdict := 1.0
			if run < 2 {
				verdict = 0
			}
			table.Queries = append(table.Queries, fmt.Sprint(run, step))
			table.Runs = append(table.Runs, fmt.Sprint(run))
			table.Quality = append(table.Quality, []float64{0.9, 0.95})
			table.RunVerdicts = append(table.RunVerdicts, []float64{math.NaN(), verdict})
		}
	}
	p := &fit.Profile{Data: fit.Data{StepsPerRun: 4}, Expected: fit.Expectation{Quality: 0.9}}
	r := rightRunsOf(p, table, 1, nil)
	if r.Judged != 40 || math.Abs(r.Always-0.95) > 1e-9 || math.Abs(r.Right-math.Pow(0.9/0.95, 4)*0.95) > 1e-9 {
		t.Errorf("%+v, want 95 %% of 40 runs", r)
	}
	for range table.Queries {
		table.Propensity = append(table.Propensity, []float64{math.NaN(), 1})
	}
	if r := rightRunsOf(p, table, 1, nil); r.Judged != 0 || math.Abs(r.Always-math.Pow(0.95, 4)) > 1e-9 {
		t.Errorf("of runs with hard steps: %+v", r)
	}
}
