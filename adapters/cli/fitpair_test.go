package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/cli"
	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/sdk"
)

// Unjudged shadowed steps fit a pair, and each command says what its qualities are; a verdict on a run changes that.
func TestFitToShadowedSteps(t *testing.T) {
	t.Chdir(t.TempDir())
	var traces []*sdk.Trace
	step := func(mode, query, run, model, key string, usd float64) {
		traces = append(traces, &sdk.Trace{
			ID: mode + query + model, QueryID: query, Run: run, Mode: mode, Chosen: model, Decisions: []sdk.Decision{},
			Calls: []sdk.Call{{Model: model, Key: key, CostUSD: usd}}, CostUSD: usd,
		})
	}
	for q := range 60 {
		query, run := fmt.Sprint("q", q), fmt.Sprint("r", q/4)
		step("shadow", query, run, "large", "x", 0.1)
		for m, name := range []string{"mini", "flash"} {
			key := "x"
			if (q+m)%8 == 0 {
				key = name
			}
			step("shadow_alternative", query, run, name, key, 0.001*float64(m+1))
		}
	}
	write := func() {
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
	run := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if code := cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}); code != 0 {
			t.Fatalf("%v: exit %d\n%s", args, code, &out)
		}
		return out.String()
	}
	write()
	const note = `"quality" is agreement with large here: enough to choose models, not to measure quality`
	got := run("fit", "--outcomes", "traces.jsonl", "--out", "profile.json")
	for _, want := range []string{note, "fitted to agreement with large, which measures no quality", "record 140 more", "mini and flash are asked, and large if their answers differ", "flash is right in about 8", "agreement with large %"} {
		if !strings.Contains(got, want) {
			t.Errorf("fit does not say %q:\n%s", want, got)
		}
	}
	if got := run("dev", "eval", "--outcomes", "traces.jsonl", "--strategies", "threshold"); !strings.Contains(got, note) {
		t.Errorf("eval does not say what it measures:\n%s", got)
	}
	if got := run("outcomes", "traces.jsonl"); !strings.Contains(got, note) {
		t.Errorf("outcomes does not say what it shows:\n%s", got)
	}
	if _, err := os.Stat(filepath.Join(".", "profile.json")); err != nil {
		t.Error(err)
	}
	// With a budget the labels are how all answers agree, the reference being one that may err.
	if got := run("fit", "--outcomes", "traces.jsonl", "--budget", "0.05", "--out", "index.json"); !strings.Contains(got, "fitted to how the answers of all models agree, which measures no quality") ||
		!strings.Contains(got, "flash is right in about 8") {
		t.Errorf("fit with a budget:\n%s", got)
	}
	// A policy that asks large agrees with it by that: only truth tells whether a profile is better.
	policy := "estimator \"pair\" {\n  plugin = \"agreement\"\n}\nstrategy \"threshold\" {\n  order = [\"mini\", \"flash\", \"large\"]\n  threshold = 0.9\n}\n"
	for i, name := range []string{"large", "mini", "flash"} {
		policy += fmt.Sprintf("model %q {\n  provider = \"openai\"\n  price {\n    input_usd_per_million = %d\n    output_usd_per_million = 1\n  }\n}\n", name, 10-4*i)
	}
	var truth strings.Builder
	for q := range 60 {
		for m, name := range []string{"mini", "flash", "large"} {
			answer, quality := "x", 1
			if m < 2 && (q+m)%8 == 0 {
				answer, quality = name, 0
			}
			fmt.Fprintf(&truth, "{\"query_id\": \"q%d\", \"model\": %q, \"quality\": %d, \"cost_usd\": %v, \"answer\": %q}\n", q, name, quality, []float64{0.001, 0.002, 0.1}[m], answer)
		}
	}
	for file, text := range map[string]string{"policy.hcl": policy, "truth.jsonl": truth.String()} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for file, want := range map[string]string{
		"traces.jsonl": "THESE LABELS DO NOT SHOW WHICH OF THE TWO IS BETTER",
		"truth.jsonl":  "KEEP IT AS IT IS, profile.json is not expected to be better",
	} {
		if got := run("fit", "--policy", "policy.hcl", "--outcomes", file, "--out", "profile.json"); !strings.Contains(got, want) {
			t.Errorf("fit to %s does not say %q:\n%s", file, want, got)
		}
	}
	run("trace", "--run", "r3", "--verdict", "failed")
	if got := run("outcomes", "traces.jsonl"); !strings.Contains(got, `"quality" is verdicts on runs, else agreement with large here`) {
		t.Errorf("after a verdict:\n%s", got)
	}
	// The other steps are still labelled by all answers, and what counts is the run.
	got = run("fit", "--policy", "policy.hcl", "--outcomes", "traces.jsonl", "--strategy", "index", "--as-good-as", "large", "--margin", "0.5", "--out", "profile.json")
	for _, want := range []string{
		"fitted to verdicts on runs, else how the answers of all models agree, which measures no quality", "flash is right in about 9",
		"as good as large to within 50.00 points of the runs, which have 4.0 steps each; on unseen queries", "RUNS RIGHT, if a run has 4.0 steps and each must be right: about ", "% with profile.json, ",
		"% always asking large, ", "% with policy.hcl without a profile (as far as these labels tell: verdicts on runs, else how the answers of all models agree)\n", "each by itself (verdicts on runs, else how the answers of all models agree)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("fit does not say %q:\n%s", want, got)
		}
	}
}

// An error of a fit without labels or outcomes says how to get them.
func TestFitSaysWhereLabelsComeFrom(t *testing.T) {
	t.Chdir(t.TempDir())
	row := `{"query_id": "q%d", "model": %q, "cost_usd": 0.1, "quality": 1, "answer": "x"}` + "\n"
	for name, c := range map[string]struct{ rows, want string }{
		"none judged": {`{"id": "a", "mode": "observe", "decisions": [], "calls": [{"model": "large"}]}`, "set mode \"shadow\", or run stepfall collect, with --agent"},
		"too few":     {fmt.Sprintf(row, 1, "large") + fmt.Sprintf(row, 2, "mini"), "In production set mode \"shadow\", or explore"},
	} {
		if err := os.WriteFile("rows.jsonl", []byte(c.rows), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if code := cli.Run(t.Context(), []string{"fit", "--outcomes", "rows.jsonl", "--out", "p.json"}, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}); code == 0 || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: exit %d without %q:\n%s", name, code, c.want, &out)
		}
	}
}

// A fit whose profile costs about as much as the large model, or more than the policy without it, says so in its
// first and last line, with advice.
func TestFitSaysThatItSavesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	var lines bytes.Buffer
	write := func(trace *sdk.Trace) {
		line, err := json.Marshal(trace)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	for q := range 240 {
		run := fmt.Sprint("r", q/4)
		step := func(mode, model, key string, usd float64) {
			write(&sdk.Trace{
				ID: fmt.Sprint(mode, q, model), QueryID: fmt.Sprint("q", q), Run: run, Mode: mode, Chosen: model, Decisions: []sdk.Decision{},
				Calls: []sdk.Call{{Model: model, Key: key, CostUSD: usd}}, CostUSD: usd,
			})
		}
		// The cheap ones agree on half of the steps, where each errs as often as not.
		keys := []string{"x", "x"}
		if q%2 == 1 {
			keys = []string{"a", "b"}
		} else if q%4 == 0 {
			keys = []string{"wrong", "wrong"}
		}
		step("shadow", "large", "x", 0.01)
		step("shadow_alternative", "mini", keys[0], 0.001)
		step("shadow_alternative", "flash", keys[1], 0.0012)
		if q%4 == 3 {
			write(&sdk.Trace{ID: "v" + run, Run: run, Mode: sdk.ModeVerdict, Verdict: &sdk.Verdict{Outcome: sdk.Passed}})
		}
	}
	policy := "baseline = \"large\"\nestimator \"agreement\" {\n  plugin = \"agreement\"\n}\nstrategy \"threshold\" {\n  order = [\"mini\", \"flash\", \"large\"]\n  threshold = 0.9\n}\n"
	for i, name := range []string{"large", "mini", "flash"} {
		policy += fmt.Sprintf("model %q {\n  provider = \"openai\"\n  price {\n    input_usd_per_million = %d\n    output_usd_per_million = 1\n  }\n}\n", name, 10-4*i)
	}
	for name, text := range map[string]string{"traces.jsonl": lines.String(), "policy.hcl": policy} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, flags := range [][]string{{"--as-good-as", "large", "--margin", "0.1"}, {"--as-good-as", "large", "--margin", "0.1", "--strategy", "index"}} {
		var out, log bytes.Buffer
		args := append([]string{"fit", "--policy", "policy.hcl", "--outcomes", "traces.jsonl", "--out", "profile.json"}, flags...)
		if code := cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &log}); code != 0 {
			t.Fatalf("%v: exit %d\n%s%s", args, code, &out, &log)
		}
		text := strings.Split(strings.TrimSpace(out.String()), "\n")
		for _, line := range []string{text[0], text[len(text)-1]} {
			if !strings.HasPrefix(line, "profile.json SAVES NOTHING: ") || !strings.Contains(line, "of always asking large") || !strings.Contains(line, "labelled runs") {
				t.Errorf("%v: %s", flags, line)
			}
		}
	}
}

// The cost of a policy with a match block and a holdout is the one that policy plan reports with the profile, even
// where the policy states numbers of its own, and fit reports that figure.
func TestFitSaysWhatThePolicyCostsInUse(t *testing.T) {
	t.Chdir(t.TempDir())
	var lines bytes.Buffer
	for q := range 60 {
		step := func(mode, model, key string, usd float64) {
			line, err := json.Marshal(&sdk.Trace{
				ID: fmt.Sprint(mode, q, model), QueryID: fmt.Sprint("q", q), Run: fmt.Sprint("r", q/4), Mode: mode, Chosen: model, Decisions: []sdk.Decision{},
				Calls: []sdk.Call{{Model: model, Key: key, CostUSD: usd}}, CostUSD: usd,
			})
			if err != nil {
				t.Fatal(err)
			}
			lines.Write(append(line, '\n'))
		}
		step("shadow", "large", "x", 0.1)
		for m, name := range []string{"mini", "flash"} {
			key := "x"
			if (q+m)%8 == 0 {
				key = name
			}
			step("shadow_alternative", name, key, 0.001*float64(m+1))
		}
	}
	policy := "estimator \"agreement\" {\n  plugin = \"agreement\"\n}\nstrategy \"threshold\" {\n  order = [\"mini\", \"flash\", \"large\"]\n  threshold = 0.9\n}\n" +
		"match \"hard\" {\n  models = [\"large\"]\n  when {\n    setbacks = 1\n  }\n  strategy \"route\" {\n    worth_usd = 1\n  }\n}\n"
	for i, name := range []string{"large", "mini", "flash"} {
		policy += fmt.Sprintf("model %q {\n  provider = \"openai\"\n  price {\n    input_usd_per_million = %d\n    output_usd_per_million = 1\n  }\n}\n", name, 10-4*i)
	}
	for name, text := range map[string]string{"traces.jsonl": lines.String(), "policy.hcl": policy, "used.hcl": policy + "fit {\n  profile = \"profile.json\"\n}\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) []byte {
		t.Helper()
		var out, log bytes.Buffer
		if code := cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &log}); code != 0 {
			t.Fatalf("%v: exit %d\n%s%s", args, code, &out, &log)
		}
		return out.Bytes()
	}
	var fitted struct {
		InUse struct {
			CostUSD      float64 `json:"cost_usd"`
			CostStdError float64 `json:"cost_std_error"`
		} `json:"in_use"`
		Without struct {
			CostUSD float64 `json:"cost_usd"`
		} `json:"in_use_without_profile"`
		Expected struct {
			CostUSD float64 `json:"cost_usd"`
		} `json:"expected"`
	}
	if err := json.Unmarshal(run("fit", "--policy", "policy.hcl", "--outcomes", "traces.jsonl", "--out", "profile.json", "--json"), &fitted); err != nil {
		t.Fatal(err)
	}
	planned := string(run("policy", "plan", "used.hcl", "--traces", "traces.jsonl", "--json"))
	if want := fmt.Sprintf("\"cost_usd\": %v", fitted.InUse.CostUSD); !strings.Contains(planned, want) || fitted.InUse.CostUSD < 1.2*fitted.Expected.CostUSD {
		t.Errorf("fit says %+v, and the plan\n%s", fitted, planned)
	}
	planned = string(run("policy", "plan", "policy.hcl", "--traces", "traces.jsonl", "--json"))
	if want := fmt.Sprintf("\"cost_usd\": %v", fitted.Without.CostUSD); fitted.Without.CostUSD == 0 || !strings.Contains(planned, want) {
		t.Errorf("fit says %+v without the profile, and the plan\n%s", fitted, planned)
	}
	usd := func(x float64) string { return fmt.Sprintf("%.4g", x) }
	low, high := forecast.RepeatInterval(fitted.InUse.CostUSD, fitted.InUse.CostStdError)
	further := fmt.Sprintf("%s USD (%s to %s)", usd(fitted.InUse.CostUSD), usd(low), usd(high))
	if got := string(run("fit", "--policy", "policy.hcl", "--outcomes", "traces.jsonl", "--out", "profile.json")); !strings.Contains(got, "IN USE a query costs "+further) {
		t.Errorf("fit does not say it:\n%s", got)
	}
	const exceeded = "THE BUDGET IS EXCEEDED IN USE"
	for budget, want := range map[string]bool{"0.02": true, "1": false} {
		if got := string(run("fit", "--policy", "policy.hcl", "--outcomes", "traces.jsonl", "--strategy", "index", "--budget", budget, "--out", "profile.json")); strings.Contains(got, exceeded) != want {
			t.Errorf("with a budget of %s USD:\n%s", budget, got)
		}
	}
}

// The runs of a whole policy, as collect --agent records them, are not those of a model.
func TestFitLeavesOutRunsOfThePolicy(t *testing.T) {
	t.Chdir(t.TempDir())
	var rows, out bytes.Buffer
	for q := range 40 {
		for m, name := range []string{"small", "large", "policy"} {
			quality := 1
			if m == 0 && q%3 == 0 {
				quality = 0
			}
			fmt.Fprintf(&rows, "{\"query_id\": \"q%d\", \"model\": %q, \"quality\": %d, \"cost_usd\": %v}\n", q, name, quality, []float64{0.001, 0.1, 0.03}[m])
		}
	}
	if err := os.WriteFile("rows.jsonl", rows.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := cli.Run(t.Context(), []string{"fit", "--outcomes", "rows.jsonl", "--budget", "0.05", "--out", "p.json"}, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}); code != 0 {
		t.Fatalf("exit %d\n%s", code, &out)
	}
	profile, err := os.ReadFile("p.json")
	if err != nil || bytes.Contains(profile, []byte(`"policy"`)) || !strings.Contains(out.String(), `left out: the outcomes of "policy"`) {
		t.Errorf("error %v, profile %s\n%s", err, profile, &out)
	}
}
