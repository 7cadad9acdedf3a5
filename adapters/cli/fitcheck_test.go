package cli_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/cli"
	"github.com/stepfall/stepfall/sdk"
)

// A profile fitted to shadowed steps and verdicts on runs is checked by steps that it decided: their costs,
// and how their runs ended. The exit code tells a drift from a check that could not be made.
func TestCheckOfAProfileFittedToShadowedSteps(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(traces []*sdk.Trace) {
		t.Helper()
		var lines bytes.Buffer
		for _, trace := range traces {
			line, err := json.Marshal(trace)
			if err != nil {
				t.Fatal(err)
			}
			lines.Write(append(line, '\n'))
		}
		if err := os.WriteFile("traces.jsonl", lines.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exits := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
		return code, out.String()
	}
	end := func(run string, outcome sdk.Outcome) *sdk.Trace {
		return &sdk.Trace{ID: "end" + run, Run: run, Mode: sdk.ModeVerdict, Decisions: []sdk.Decision{}, Verdict: &sdk.Verdict{Outcome: outcome}}
	}
	prices := map[string]float64{"mini": 0.001, "flash": 0.002, "large": 0.1}
	var shadowed []*sdk.Trace
	for q := range 60 {
		query, run := fmt.Sprint("q", q), fmt.Sprint("s", q)
		for _, name := range []string{"large", "mini", "flash"} {
			mode, key := "shadow_alternative", "x"
			if name == "large" {
				mode = "shadow"
			} else if (q+len(name))%8 == 0 {
				key = name
			}
			shadowed = append(shadowed, &sdk.Trace{
				ID: query + name, QueryID: query, Group: "g", Run: run, Mode: mode, Chosen: name,
				Decisions: []sdk.Decision{{Run: name, Models: []sdk.Belief{{Model: name, Quality: sdk.Estimate{Mean: 0.5}, CostUSD: 1}}}}, // no profile's
				Calls:     []sdk.Call{{Model: name, Key: key, CostUSD: prices[name]}},
			})
		}
		shadowed = append(shadowed, end(run, sdk.Passed))
	}
	write(shadowed)
	if code, out := exits("fit", "--outcomes", "traces.jsonl", "--strategy", "index", "--budget", "0.02", "--out", "profile.json"); code != 0 {
		t.Fatalf("exit %d\n%s", code, out)
	}
	used := func(runs int, price float64, outcome sdk.Outcome) []*sdk.Trace {
		traces := append([]*sdk.Trace(nil), shadowed...)
		for n := range runs {
			run := fmt.Sprint("u", n)
			traces = append(traces, end(run, outcome), &sdk.Trace{
				ID: run, Group: "g", Run: run, Mode: "enforce", Profile: "profile.json", Chosen: "mini",
				Decisions: []sdk.Decision{{Run: "mini", Models: []sdk.Belief{{Model: "mini", Quality: sdk.Estimate{Mean: 0.88}, CostUSD: 0.001}}}},
				Calls:     []sdk.Call{{Model: "mini", Key: "x", CostUSD: price}},
			})
		}
		return traces
	}
	text, err := os.ReadFile("profile.json")
	if err != nil {
		t.Fatal(err)
	}
	decidedBy := func(profile string, traces []*sdk.Trace) []*sdk.Trace {
		for _, t := range traces {
			if t.Profile != "" {
				t.Profile, t.ID = profile, t.ID+profile
			}
		}
		return traces
	}
	judged := used(40, 0.001, sdk.Inconclusive)
	for _, t := range judged {
		if t.Profile != "" {
			t.Calls[0].Verdict = &sdk.Verdict{Verifier: "judge", Outcome: sdk.Passed, IfRight: 0.6, IfWrong: 0.3}
		}
	}
	own, other := "renamed.json@"+fmt.Sprintf("%x", sha256.Sum256(text))[:12], "profile.json@0123456789ab"
	for name, c := range map[string]struct {
		traces []*sdk.Trace
		code   int
		want   string
	}{
		"with another's at other prices": {append(decidedBy(own, used(40, 0.001, sdk.Passed)), decidedBy(other, used(40, 0.001/3, sdk.Passed)[len(shadowed):])...), 0, "left out: 40 steps that other profiles decided"},
		"only another's":                 {decidedBy(other, used(40, 0.001, sdk.Passed)), 2, "the profile decided 0 steps and others 40"},
		"its own at other prices":        {decidedBy(own, used(40, 0.001/3, sdk.Inconclusive)), 1, "cost of mini"},
		"rates that cannot be":           {judged, 1, "the judge's error rates are wrong"},
		"before it was in use":           {shadowed, 2, "the profile decided 0 steps and others 0"},
		"three steps":                    {used(3, 0.001, sdk.Passed), 2, "the profile decided 3 steps and others 0"},
		"nobody says how runs end":       {used(40, 0.001, sdk.Inconclusive), 0, "no answer and no run has a verdict: only costs are compared"},
		"a third of the price":           {used(40, 0.001/3, sdk.Inconclusive), 1, "cost of mini"},
		"runs that pass":                 {used(40, 0.001, sdk.Passed), 0, "40 judged calls in 40 traces"},
		"runs that fail":                 {used(40, 0.001, sdk.Failed), 1, "quality of mini"},
	} {
		write(c.traces)
		if code, out := exits("fit", "--check", "profile.json", "--outcomes", "traces.jsonl"); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit %d, want %d with %q:\n%s", name, code, c.code, c.want, out)
		}
	}
	if code, out := exits("fit", "--check", "profile.json", "--outcomes", "nowhere.jsonl"); code != 2 {
		t.Errorf("without traces: exit %d\n%s", code, out)
	}
	// No check judges answers in use, so that what nobody answered cannot be drawn. The drift is told all the same.
	write(used(40, 0.001/3, sdk.Passed)[len(shadowed):])
	if code, out := exits("fit", "--check", "profile.json", "--outcomes", "traces.jsonl", "--out", "new.json"); code != 1 || !strings.Contains(out, "cost of mini") || !strings.Contains(out, "no new profile can be fitted") {
		t.Errorf("with --out: exit %d\n%s", code, out)
	}
}
