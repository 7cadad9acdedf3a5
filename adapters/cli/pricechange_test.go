package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/adapters/cli"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/fit"
)

// After a change of prices a fit and a plan on the old traces say what they say on traces recorded at the new prices.
func TestTracesFromBeforeAPriceChange(t *testing.T) {
	t.Chdir(t.TempDir())
	policy := "baseline = \"large\"\nestimator \"pair\" {\n  plugin = \"agreement\"\n}\nstrategy \"threshold\" {\n  order = [\"mini\", \"flash\", \"large\"]\n  threshold = 0.9\n}\n"
	now := map[string]sdk.Price{"mini": {Input: 1, Output: 2}, "flash": {Input: 2, Output: 2}, "large": {Input: 10, Output: 20}}
	for _, name := range []string{"mini", "flash", "large"} {
		policy += fmt.Sprintf("model %q {\n  provider = \"openai\"\n  price {\n    input_usd_per_million = %v\n    output_usd_per_million = %v\n  }\n}\n", name, now[name].Input, now[name].Output)
	}
	before := map[string]sdk.Price{"mini": now["mini"], "flash": {Input: 1, Output: 4}, "large": {Input: 30, Output: 30}}
	for name, prices := range map[string]map[string]sdk.Price{"old.jsonl": before, "new.jsonl": now, "unpriced.jsonl": before} {
		var steps []*sdk.Trace
		for q := range 80 {
			s := recordedStep(q, prices)
			if name == "unpriced.jsonl" {
				s.Decisions = []sdk.Decision{}
			}
			steps = append(steps, s)
		}
		writeSteps(t, name, steps...)
	}
	if err := os.WriteFile("policy.hcl", []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (out, warnings string) {
		t.Helper()
		var text, warn bytes.Buffer
		if code := cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &text, Err: &warn}); code != 0 {
			t.Fatalf("%v: exit %d\n%s%s", args, code, &text, &warn)
		}
		return text.String(), warn.String()
	}
	for _, command := range []string{
		"fit --policy policy.hcl --strategy index --budget 0.01 --verified --out profile.json --outcomes ",
		"policy plan policy.hcl --outcomes ", "policy plan policy.hcl --traces ",
	} {
		want, silent := run(strings.Fields(command + "new.jsonl")...)
		got, said := run(strings.Fields(command + "old.jsonl")...)
		if diff := cmp.Diff(want, strings.ReplaceAll(got, "old.jsonl", "new.jsonl")); diff != "" {
			t.Errorf("%s (-at the new prices +converted):\n%s", command, diff)
		}
		const note = `costs of "large" were recorded at other prices (30 in, 30 out USD per million tokens): they are converted to the policy's (10 in, 20 out)`
		if strings.Count(said, note) != 1 || strings.Contains(said, `costs of "mini"`) || strings.Contains(silent, "prices") {
			t.Errorf("%s: warnings %q, and %q at the new prices", command, said, silent)
		}
		const stay = `the recorded costs of "large" are 2.9 times what its tokens cost at the policy's prices, and stay as they are`
		if _, said := run(strings.Fields(command + "unpriced.jsonl")...); !strings.Contains(said, stay) || strings.Contains(said, `"mini"`) {
			t.Errorf("%s: of costs without a price %q", command, said)
		}
	}
}

func writeSteps(t *testing.T, name string, steps ...*sdk.Trace) {
	t.Helper()
	var lines bytes.Buffer
	for _, s := range steps {
		line, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	if err := os.WriteFile(name, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A profile that --check fits to steps from before and after a change of prices is one for the new prices.
func TestARefitAfterAPriceChange(t *testing.T) {
	t.Chdir(t.TempDir())
	run := func(command string) (code int, out string) {
		var text bytes.Buffer
		code = cli.Run(t.Context(), strings.Fields(command), cli.Streams{In: strings.NewReader(""), Out: &text, Err: &text})
		return code, text.String()
	}
	at := func(times float64) (steps []*sdk.Trace) {
		for q := range 80 {
			prices := map[string]sdk.Price{}
			for i, name := range []string{"mini", "flash", "large"} {
				prices[name] = sdk.Price{Input: times * float64(1+i), Output: times * float64(1+i)}
			}
			s := recordedStep(q, prices)
			s.ID, s.Start, s.Profile = fmt.Sprint(times, "-", q), time.Unix(int64(1e6/times)+int64(q), 0), "profile.json"
			for m := range s.Decisions[0].Models {
				s.Decisions[0].Models[m].Quality.Mean, s.Decisions[0].Models[m].CostUSD = 0.8, 0.001*10*float64(1+m)
			}
			steps = append(steps, s)
		}
		return steps
	}
	writeSteps(t, "old.jsonl", at(10)...)
	writeSteps(t, "new.jsonl", at(1)...)
	writeSteps(t, "both.jsonl", append(at(10), at(1)...)...)
	const fitTo = "fit --verified --strategy index --budget 0.1 --outcomes "
	for _, command := range []string{fitTo + "old.jsonl --out profile.json", fitTo + "new.jsonl --out want.json", "fit --check profile.json --outcomes both.jsonl --out got.json"} {
		if code, out := run(command); code != 0 {
			t.Fatalf("%s: exit %d\n%s", command, code, out)
		}
	}
	dearest := func(name string) float64 {
		p, err := fit.Load(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		return p.Curve[len(p.Curve)-1].CostUSD
	}
	if got, want := dearest("got.json"), dearest("want.json"); math.Abs(got/want-1) > 0.1 {
		t.Errorf("the dearest point costs %v, at the new prices %v", got, want)
	}
}

// A comparison of two policies that differ in their prices has the costs of each at its own.
func TestEachPolicyIsPlannedAtItsOwnPrices(t *testing.T) {
	t.Chdir(t.TempDir())
	dear, cheap := sdk.Price{Input: 30, Output: 30}, sdk.Price{Input: 3, Output: 3}
	var lines bytes.Buffer
	for q := range 40 {
		line, err := json.Marshal(recordedStep(q, map[string]sdk.Price{"mini": dear, "flash": dear, "large": dear}))
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	files := map[string]string{"traces.jsonl": lines.String()}
	for name, price := range map[string]sdk.Price{"old.hcl": dear, "new.hcl": cheap} {
		files[name] = fmt.Sprintf("strategy \"route\" {\n  worth_usd = 0.05\n}\nmodel \"large\" {\n  provider = \"openai\"\n  price {\n    input_usd_per_million = %v\n    output_usd_per_million = %v\n  }\n}\n", price.Input, price.Output)
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []string{"--outcomes", "--traces"} {
		var out, warn bytes.Buffer
		args := []string{"policy", "plan", "new.hcl", "--against", "old.hcl", "--models", "large", from, "traces.jsonl", "--json"}
		if from == "--traces" {
			args = slices.Delete(args, 5, 7)
		}
		if code := cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &warn}); code != 0 {
			t.Fatalf("%v: exit %d\n%s%s", args, code, &out, &warn)
		}
		var plan struct {
			Policies []struct {
				CostUSD float64 `json:"cost_usd"`
			} `json:"policies"`
		}
		if err := json.Unmarshal(out.Bytes(), &plan); err != nil || len(plan.Policies) != 2 || math.Abs(plan.Policies[0].CostUSD/plan.Policies[1].CostUSD-10) > 1e-6 {
			t.Errorf("%s: %v; the prices differ tenfold, and the plan has %+v", from, err, plan)
		}
	}
}

// recordedStep returns a step that asked three models at the given prices. One call in eight was billed double, as on
// a faster service tier.
func recordedStep(q int, prices map[string]sdk.Price) *sdk.Trace {
	s := &sdk.Trace{ID: fmt.Sprint("q", q), Mode: "enforce", Chosen: "large", InputTokens: 1000, Decisions: []sdk.Decision{{}}}
	for m, name := range []string{"mini", "flash", "large"} {
		price, usage := prices[name], sdk.Usage{InputTokens: 900 + 10*(q%7), OutputTokens: 50 + q%5}
		answer, verdict, usd := "x", &sdk.Verdict{Outcome: sdk.Passed, Verifier: "tests"}, price.CostUSD(usage)
		if m < 2 && (q+m)%6 == 0 {
			answer, verdict = name, &sdk.Verdict{Outcome: sdk.Failed, Verifier: "tests"}
		}
		if q%8 == 0 {
			usd *= 2
		}
		s.Decisions[0].Models = append(s.Decisions[0].Models, sdk.Belief{Model: name, CostUSD: usd, Price: &price, OutputTokens: 50})
		s.Calls = append(s.Calls, sdk.Call{Model: name, Key: answer, Usage: usage, CostUSD: sdk.RoundUSD(usd), Verdict: verdict})
		s.CostUSD += usd
	}
	return s
}
