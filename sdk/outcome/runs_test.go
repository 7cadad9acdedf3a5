package outcome_test

import (
	"fmt"
	"maps"
	"math"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// runSteps returns shadowed steps of runs, by query, with the returned answer of large and
// the shadow's answer of small, followed by the verdicts on the runs.
func runSteps(verdicts map[string]sdk.Verdict, steps ...[4]string) []*sdk.Trace {
	var list []*sdk.Trace
	for _, s := range steps {
		run, query := s[0], s[1]
		list = append(list,
			&sdk.Trace{ID: query, QueryID: query, Run: run, Mode: "shadow", Chosen: "large", Calls: []sdk.Call{{Model: "large", Key: s[2], CostUSD: 0.01}}},
			&sdk.Trace{ID: query + "s", QueryID: query, Run: run, Mode: "shadow_alternative", Chosen: "small", Calls: []sdk.Call{{Model: "small", Key: s[3], CostUSD: 0.001}}})
	}
	for run, v := range verdicts {
		list = append(list, &sdk.Trace{ID: "v" + run, Run: run, Mode: sdk.ModeVerdict, Verdict: &v})
	}
	return list
}

// A run that passed makes its returned answers right. The blame for one that failed is shared
// by its disputed steps if a verifier has rejected none.
func TestVerdictsOnRunsAreCreditedToSteps(t *testing.T) {
	steps := [][4]string{
		{"good", "g1", "x", "x"}, {"good", "g2", "x", "y"},
		{"bad", "b1", "x", "x"}, {"bad", "b2", "x", "y"}, {"bad", "b3", "z", "y"},
		{"all", "a1", "x", "x"}, {"all", "a2", "x", "x"},
		{"open", "o1", "x", "x"}, {"open", "o2", "x", "y"},
		{"unsure", "u1", "x", "y"},
	}
	verdicts := map[string]sdk.Verdict{"good": {Outcome: sdk.Passed}, "bad": {Outcome: sdk.Failed}, "all": {Outcome: sdk.Failed}, "open": {}, "unsure": {Outcome: sdk.Passed, Confidence: 0.9}}
	nan := math.NaN()
	want := map[string][2]float64{ // of large and small
		"g1": {1, 1}, "g2": {1, 0},
		"b1": {1, 1}, "b2": {0.5, nan}, "b3": {0.5, nan},
		"a1": {0.5, 0.5}, "a2": {0.5, 0.5},
		"o1": {1, 1}, "o2": {1, 0}, // by agreement with large
		"u1": {0.9, 0},
	}
	check := func(t *testing.T, table *outcome.Table, want map[string][2]float64) {
		t.Helper()
		for q, id := range table.Queries {
			for k, name := range []string{"large", "small"} {
				if got, w := table.Quality[q][table.Index(name)], want[id][k]; got != w && !(math.IsNaN(got) && math.IsNaN(w)) && math.Abs(got-w) > 1e-12 {
					t.Errorf("%s of %s has %v, want %v", id, name, got, w)
				}
			}
		}
	}
	table, err := outcome.Open(writeTraces(t, runSteps(verdicts, steps...)), outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if table.Labels != "verdicts on runs, else agreement with large" {
		t.Errorf("labels %q", table.Labels)
	}
	check(t, table, want)
	if table.StepsPerRun != 2 || table.Runs[0] == "" || table.Runs[0] != table.Runs[1] || table.Runs[0] == table.Runs[2] {
		t.Errorf("%v steps a run, of %q", table.StepsPerRun, table.Runs)
	}
	large, small := table.Index("large"), table.Index("small")
	if v := table.RunVerdicts; v[0][large] != 1 || v[2][large] != 0 || math.Abs(v[9][large]-0.9) > 1e-12 || !math.IsNaN(v[7][large]) || !math.IsNaN(v[0][small]) {
		t.Errorf("verdicts on runs, by step: %v", v)
	}
	if part := table.Rows([]int{2}); part.StepsPerRun != 2 || part.Runs[0] != table.Runs[2] || part.RunVerdicts[0][large] != 0 {
		t.Errorf("a part of the table: %v %v of %v steps", part.Runs, part.RunVerdicts, part.StepsPerRun)
	}

	// Who is known to have been wrong has the blame alone; and the last verdict stands.
	traces := runSteps(verdicts, steps...)
	for _, trace := range traces {
		if trace.ID == "b1" {
			trace.Calls[0].Verdict = &sdk.Verdict{Outcome: sdk.Failed}
		}
	}
	traces = append(traces, &sdk.Trace{ID: "back", Run: "unsure", Mode: sdk.ModeVerdict, Verdict: &sdk.Verdict{Evidence: "opened again"}})
	traces = append(traces, &sdk.Trace{ID: "late", Run: "all", Mode: sdk.ModeVerdict, Verdict: &sdk.Verdict{Outcome: sdk.Passed}})
	if table, err = outcome.Open(writeTraces(t, traces), outcome.Options{}); err != nil || table.Labels != "verdicts on runs" {
		t.Fatal(err, table.Labels)
	}
	maps.Copy(want, map[string][2]float64{"b1": {0, 0}, "b2": {1, nan}, "b3": {1, nan}, "a1": {1, 1}, "a2": {1, 1}, "o1": {nan, nan}, "o2": {nan, nan}, "u1": {nan, nan}})
	check(t, table, want)

	// The verdict of another tenant on a run of the same name is not this run's.
	other := runSteps(map[string]sdk.Verdict{"good": {Outcome: sdk.Failed}}, steps[:2]...)
	other[len(other)-1].Tenant = "other"
	if table, err = outcome.Open(writeTraces(t, other), outcome.Options{}); err != nil || table.Labels != "agreement with large" {
		t.Errorf("%v, labels %q", err, fmt.Sprint(table.Labels))
	}
}

// A step's verdict is kept in addition to the quality from its run, which shows whether it was right. A
// verdict on an answer that no run returned counts. The cost of verdicts is in the table in any case.
func TestVerdictsOfStepsStandBesideThoseOnRuns(t *testing.T) {
	step := func(id, run string, small, large sdk.Outcome) *sdk.Trace {
		return &sdk.Trace{ID: id, Run: run, Chosen: "large", Calls: []sdk.Call{
			{Model: "small", Answer: "x", CostUSD: 0.001, Verdict: &sdk.Verdict{Verifier: "judge", Outcome: small, CostUSD: 0.002}},
			{Model: "large", Answer: "y", CostUSD: 0.01, Verdict: &sdk.Verdict{Verifier: "judge", Outcome: large, CostUSD: 0.003}},
		}}
	}
	table, err := outcome.OfTraces([]*sdk.Trace{
		step("a", "good", sdk.Failed, sdk.Passed), step("b", "bad", sdk.Failed, sdk.Passed), step("c", "mute", sdk.Failed, sdk.Inconclusive), step("d", "open", sdk.Failed, sdk.Passed),
		{ID: "1", Run: "good", Mode: sdk.ModeVerdict, Verdict: &sdk.Verdict{Outcome: sdk.Passed}},
		{ID: "2", Run: "bad", Mode: sdk.ModeVerdict, Verdict: &sdk.Verdict{Outcome: sdk.Failed}},
		{ID: "3", Run: "mute", Mode: sdk.ModeVerdict, Verdict: &sdk.Verdict{Outcome: sdk.Passed}},
	})
	if err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	for name, c := range map[string]struct{ got, want [][]float64 }{
		"quality":      {table.Quality, [][]float64{{0, 1}, {0, 0}, {0, 1}, {0, 1}}},
		"StepVerdicts": {table.StepVerdicts, [][]float64{{nan, 1}, {nan, 1}, {nan, 0.5}, {nan, nan}}},
		"VerdictsUSD":  {table.VerdictsUSD, [][]float64{{0.002, 0.003}, {0.002, 0.003}, {0.002, 0.003}, {0.002, 0.003}}},
	} {
		if fmt.Sprint(c.got) != fmt.Sprint(c.want) {
			t.Errorf("%s is %v, want %v", name, c.got, c.want)
		}
	}
}
