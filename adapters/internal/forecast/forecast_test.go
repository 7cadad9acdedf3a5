package forecast_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/adapters/router"
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

// Each policy of the library can be planned, and asks some model.
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

// estimated is two with a plugin that looks at answers.
const estimated = two + `
estimator "look" {
  plugin = "estimator-logprob"
}
`

const verified = two + `
verifier "tests" {
  plugin = "verifier-tests"
}
`

// Computed by hand: the small model is right for three of four queries, the large one always; a verified threshold
// cascade asks the large one only for the fourth.
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
	if a := f.Always; a == nil || a.Model != "large" || a.CostUSD != 0.01 || math.Abs(a.Share-0.35) > 1e-12 || !(a.ShareStdError > 0) {
		t.Errorf("beside always asking the large model: %+v", f.Always)
	}
}

// The cost of always asking a model uses its tokens where it answered beside another model, and the other's tokens
// elsewhere, whatever lengths were expected.
func TestAlwaysGoesByRecordedLengths(t *testing.T) {
	p := parse(t, two+"strategy \"route\" {\n  lambda = 1000\n}\n")
	w := &forecast.Traces{}
	for n := range 40 {
		s := &sdk.Trace{Run: fmt.Sprint(n), InputTokens: 1000, Decisions: []sdk.Decision{{Models: []sdk.Belief{{Model: "small", CostUSD: 0.001}, {Model: "large", CostUSD: 0.006}}}}}
		s.Calls = append(s.Calls, sdk.Call{Model: "small", CostUSD: 0.0005, Usage: sdk.Usage{InputTokens: 1000, OutputTokens: 30}})
		if n < 20 {
			s.Calls = append(s.Calls, sdk.Call{Model: "large", CostUSD: 0.00268, Usage: sdk.Usage{InputTokens: 1100, OutputTokens: 60}})
		}
		w.Steps = append(w.Steps, s)
	}
	f := predict(t, p, w)
	if f.Always == nil || math.Abs(f.Always.CostUSD-0.00268) > 1e-9 {
		t.Errorf("%+v, want (1100*2 + 60*8)/1e6", f.Always)
	}
}

// A holdout takes whole runs, and its share of them.
func TestHoldoutTakesRuns(t *testing.T) {
	p := parse(t, two+"baseline = \"large\"\nholdout {\n  share = 0.25\n}\nstrategy \"route\" {\n  lambda = 1000\n}\n")
	w := &forecast.Traces{}
	for run := range 8 {
		for range 5 {
			w.Steps = append(w.Steps, &sdk.Trace{Run: fmt.Sprint(run), InputTokens: 100})
		}
	}
	f, err := forecast.New(t.Context(), p, w, forecast.Options{Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]int{}
	for _, s := range f.Traces {
		if s.Chosen == "large" {
			asked[s.Run]++
		}
	}
	if len(asked) != 2 || f.Models[1].Ran != 0.25 {
		t.Errorf("of 8 runs of 5 steps, the large model did %v", asked)
	}
	for run, steps := range asked {
		if steps != 5 {
			t.Errorf("run %s asked it in %d of 5 steps", run, steps)
		}
	}
}

// In a world of beliefs the mean quality of a single model is its belief, and its cost the price of the expected
// lengths.
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

// Two policies that ask the same model get the same answers, so a comparison adds no noise.
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
	small := predict(t, parse(t, estimated+"strategy \"threshold\" {\n  threshold = 0.6\n}\n"), w)
	if small.Quality != 0.7 || small.CostUSD != 0.003 || small.Unknown != 0 {
		t.Errorf("the recorded call: %+v", small)
	}
	large := predict(t, parse(t, estimated+"strategy \"route\" {\n  lambda = 0\n}\n"), w)
	if large.Models[1].Ran != 1 || large.Quality != 0.9 {
		t.Errorf("the model that was not run: %+v", large)
	}
	// The answer of small cost half of what was expected of it: so would that of large. Where
	// nothing was expected of large, its answer is as long as that of small.
	trace.Decisions[0].Models[0].CostUSD, trace.Decisions[0].Models[1].CostUSD = 0.006, 0.03
	half := predict(t, parse(t, estimated+"strategy \"route\" {\n  lambda = 0\n}\n"), w)
	trace.Decisions[0].Models[1].CostUSD, trace.Calls[0].Usage = 0, sdk.Usage{InputTokens: 900, OutputTokens: 10}
	short := predict(t, parse(t, estimated+"strategy \"route\" {\n  lambda = 0\n}\n"), w)
	if math.Abs(half.CostUSD-0.015) > 1e-12 || math.Abs(short.CostUSD-(900*2+10*8)/1e6) > 1e-12 {
		t.Errorf("%v USD where answers are half as dear, and %v where they are short", half.CostUSD, short.CostUSD)
	}
}

// A program's own verifier judges in the forecast too.
func TestForecastKnowsTheProgramsOwnVerifier(t *testing.T) {
	var steps []*sdk.Trace
	for n := range 10 {
		verdict := &sdk.Verdict{Verifier: router.VerifyName, Outcome: sdk.Failed}
		if n < 7 {
			verdict.Outcome = sdk.Passed
		}
		steps = append(steps, &sdk.Trace{ID: fmt.Sprint(n), InputTokens: 1000, Calls: []sdk.Call{
			{Model: "small", CostUSD: 0.001, Verdict: verdict},
			{Model: "large", CostUSD: 0.01, Verdict: &sdk.Verdict{Verifier: router.VerifyName, Outcome: sdk.Passed}},
		}})
	}
	policy := two + "strategy \"threshold\" {\n  threshold = 0.99\n}\n"
	if f := predict(t, parse(t, policy), &forecast.Traces{Steps: steps}); math.Abs(f.Models[1].Ran-0.3) > 1e-9 || f.Quality != 1 {
		t.Errorf("a program that judges: %+v", f)
	}
	for _, s := range steps {
		for i := range s.Calls {
			s.Calls[i].Verdict.Verifier = "a block that the policy has no more"
		}
	}
	if f := predict(t, parse(t, policy), &forecast.Traces{Steps: steps}); f.Models[1].Ran == 0.3 {
		t.Errorf("nobody judges: %+v", f)
	}
}

// A verdict costs what it cost when the steps were recorded.
func TestVerdictsCostWhatTheyCost(t *testing.T) {
	policy := parse(t, two+`verifier "judge" {
  plugin  = "verifier-judge"
  models  = ["small"]
  max_usd = 0.01
  config {
    model = "small"
  }
}

strategy "threshold" {
  threshold = 0.99
}
`)
	steps := make([]*sdk.Trace, 4)
	for n := range steps {
		steps[n] = &sdk.Trace{ID: fmt.Sprint(n), InputTokens: 1000, Calls: []sdk.Call{{Model: "large", CostUSD: 0.01}}}
	}
	looked := func(n int, usd float64) {
		steps[n].Calls = append(steps[n].Calls, sdk.Call{Model: "small", CostUSD: 0.001, Verdict: &sdk.Verdict{Verifier: "judge", Outcome: sdk.Failed, CostUSD: usd}})
	}
	if f := predict(t, policy, &forecast.Traces{Steps: steps}); f.VerdictsUSD != 0 || len(f.Unpriced) != 1 || f.Unpriced[0] != "judge" {
		t.Errorf("a judge that was never asked: %v USD, unpriced %v", f.VerdictsUSD, f.Unpriced)
	}
	looked(0, 0.004)
	looked(1, 0.002)
	f := predict(t, policy, &forecast.Traces{Steps: steps})
	if len(f.Unpriced) > 0 || math.Abs(f.VerdictsUSD-(0.004+0.002+2*0.003)/4) > 1e-12 {
		t.Errorf("%v USD for verdicts, unpriced %v", f.VerdictsUSD, f.Unpriced)
	}
	spent := f.VerdictsUSD
	for _, m := range f.Models {
		spent += m.CostUSD
	}
	if math.Abs(f.CostUSD-spent) > 1e-12 {
		t.Errorf("%v USD per query, models and verdicts cost %v", f.CostUSD, spent)
	}
	if f := predict(t, policy, &forecast.Beliefs{Queries: forecast.Sample(policy), Draws: 2, Seed: 1}); len(f.Unpriced) != 1 {
		t.Errorf("beliefs know no judge: %v", f.Unpriced)
	}
}

// Recorded prices of verdicts in a table are paid; always asking one model needs no verdict.
func TestRecordedVerdictsCostWhatTheTableSays(t *testing.T) {
	table, err := outcome.Read(strings.NewReader(`query_id,model,quality,cost_usd,verdict_judge,judge_cost_usd
a,small,1,0.001,1,0.002
a,large,1,0.01,1,0.003
b,small,0,0.001,0,0.004
b,large,1,0.01,1,
`), "outcomes.csv", outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := predict(t, parse(t, two+`verifier "judge" {
  plugin  = "verifier-judge"
  max_usd = 0.01
  config {
    model = "small"
  }
}
strategy "threshold" {
  threshold = 0.5
}
`), &forecast.Table{Outcomes: table})
	if math.Abs(f.VerdictsUSD-(0.002+0.004+0.003)/2) > 1e-12 || math.Abs(f.CostUSD-(0.012+0.009)/2) > 1e-12 || len(f.Unpriced) > 0 {
		t.Errorf("%v USD for verdicts of %v, unpriced %v", f.VerdictsUSD, f.CostUSD, f.Unpriced)
	}
	if f.Always == nil || f.Always.CostUSD != 0.01 {
		t.Errorf("always %+v", f.Always)
	}
}

// A missing verdict counts as inconclusive and is counted, whether it is free or bought; one that no strategy
// requests is not.
func TestVerdictsThatAreNotRecordedAreCounted(t *testing.T) {
	table, err := outcome.Read(strings.NewReader(`query_id,model,quality,cost_usd,verdict_judge
a,small,1,0.001,1
a,large,1,0.01,
b,small,0,0.001,
b,large,1,0.01,1
c,small,0,0.001,0
c,large,1,0.01,
`), "outcomes.csv", outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const judge = two + `verifier "judge" {
  plugin = "verifier-judge"
  %s
  config {
    model = "small"
  }
}
strategy "threshold" {
  threshold = 0.5
}
`
	// Where small's answer fails or has no verdict, large follows; a signal that nothing reads leads nowhere.
	for use, want := range map[string]int{"": 2, `as = "signal"`: 1} {
		if f := predict(t, parse(t, fmt.Sprintf(judge, use)), &forecast.Table{Outcomes: table}); f.Unrecorded != want {
			t.Errorf("judge %s: %d verdicts are not recorded, want %d", use, f.Unrecorded, want)
		}
	}
	if f := predict(t, parse(t, two+"strategy \"threshold\" {\n  threshold = 0.5\n}\n"), &forecast.Table{Outcomes: table}); f.Unrecorded != 0 {
		t.Errorf("%d verdicts without a judge", f.Unrecorded)
	}
}

// For answers passed by a judge with known error rates, the quality is the posterior, and the judge repeats its pass.
func TestVerdictsThatErrAreNotTheTruth(t *testing.T) {
	passed := &sdk.Verdict{Verifier: "judge", Outcome: sdk.Passed, IfRight: 0.95, IfWrong: 0.15}
	f := predict(t, parse(t, two+`verifier "judge" {
  plugin  = "verifier-judge"
  config {
    model = "small"
  }
}
strategy "threshold" {
  threshold = 0.5
}
`), &forecast.Traces{Steps: []*sdk.Trace{{ID: "1", InputTokens: 1000, Calls: []sdk.Call{{Model: "small", CostUSD: 0.001, Quality: sdk.Estimate{Mean: 0.9}, Verdict: passed}}}}})
	if f.Judged.Answers != 1 || f.Judged.Mean != 0.9 || f.Steps != 1 {
		t.Errorf("judged %+v, %v models run", f.Judged, f.Steps)
	}
	// What is believed of it is the chance that it is right, and no measurement.
	if want := math.Sqrt(0.9 * 0.1); math.Abs(f.Judged.StdError-want) > 1e-9 {
		t.Errorf("an answer right with 0.9 has the standard error %v, want %v", f.Judged.StdError, want)
	}
}

// The verdict on a run is the quality of its answer, whatever a judge said and was believed then, even without a
// judge; the judge repeats its verdict.
func TestHowARunEndedIsTheQualityOfItsAnswer(t *testing.T) {
	for _, judge := range []*sdk.Verdict{{Verifier: "judge", Outcome: sdk.Passed, IfRight: 0.95, IfWrong: 0.15}, {Verifier: "judge", Outcome: sdk.Passed}, {Verifier: "judge", Outcome: sdk.Passed, Confidence: 0.9}, nil} {
		steps := []*sdk.Trace{
			{ID: "1", Run: "a", Chosen: "small", InputTokens: 1000, Calls: []sdk.Call{{Model: "small", CostUSD: 0.001, Quality: sdk.Estimate{Mean: 0.9}, Verdict: judge}}},
			{ID: "2", Run: "b", Chosen: "small", InputTokens: 1000, Calls: []sdk.Call{{Model: "small", CostUSD: 0.001, Quality: sdk.Estimate{Mean: 0.9}, Verdict: judge}}},
		}
		reports := []*sdk.Trace{
			{ID: "3", Run: "a", Mode: sdk.ModeVerdict, Verdict: &sdk.Verdict{Outcome: sdk.Failed}},
			{ID: "4", Run: "b", Mode: sdk.ModeVerdict, Verdict: &sdk.Verdict{Outcome: sdk.Passed}},
		}
		threshold := 0.5
		if judge == nil {
			threshold = 0 // a verdict that is drawn changes nothing
		}
		f := predict(t, parse(t, two+fmt.Sprintf("verifier \"judge\" {\n  plugin = \"verifier-judge\"\n  config {\n    model = \"small\"\n  }\n}\nstrategy \"threshold\" {\n  threshold = %v\n}\n", threshold)),
			&forecast.Traces{Steps: steps, Reports: reports})
		if f.Judged.Answers != 2 || f.Judged.Mean != 0.5 || f.Steps != 1 {
			t.Errorf("judged %+v, %v models run", f.Judged, f.Steps)
		}
	}
}

// recorded is a step of a run, a session and a tenant in which small answered, after some failures, for 0.01 USD.
func recorded(n, failures int, at time.Time) *sdk.Trace {
	t := &sdk.Trace{
		ID: fmt.Sprint(n), Start: at, Run: "run", Tenant: "trial", Session: "talk", InputTokens: 1000, Labels: map[string]string{"team": "search"},
		Decisions: []sdk.Decision{{Run: "small", Models: []sdk.Belief{
			{Model: "small", Quality: sdk.Estimate{Mean: 0.6}}, {Model: "large", Quality: sdk.Estimate{Mean: 0.7}},
		}}},
	}
	for range failures {
		t.Calls = append(t.Calls, sdk.Call{Model: "small", Error: "503"})
	}
	t.Calls = append(t.Calls, sdk.Call{Model: "small", CostUSD: 0.01, Quality: sdk.Estimate{Mean: 0.7}})
	return t
}

const good = "strategy \"threshold\" {\n  threshold = 0.6\n}\n"

// Every setting of a policy that affects recorded steps shows in the forecast.
func TestWhatShowsInTheForecastOfTraces(t *testing.T) {
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var quiet, failing []*sdk.Trace
	for n := range 10 {
		quiet = append(quiet, recorded(n, 0, day.Add(time.Duration(n)*3*time.Hour)))
		failing = append(failing, recorded(n, 3, day))
	}
	// The longest answer of small may cost 0.052 USD and its prompt less than 0.002.
	for name, tt := range map[string]struct {
		steps []*sdk.Trace
		text  string
		want  func(*forecast.Forecast) bool
	}{
		"nothing":          {quiet, good, func(f *forecast.Forecast) bool { return f.Models[0].Chosen == 1 && math.Abs(f.CostUSD-0.01) < 1e-12 }},
		"cap of a run":     {quiet, good + "budget {\n  run_usd = 0.085\n}\n", func(f *forecast.Forecast) bool { return f.Refused == 6 && f.Models[0].Chosen == 0.4 }},
		"cap of a tenant":  {quiet, good + "budget {\n  tenant_usd = 1\n  tenant \"trial\" {\n    usd = 0.085\n  }\n}\n", func(f *forecast.Forecast) bool { return f.Refused == 6 }},
		"cap of a day":     {quiet, good + "budget {\n  tenant_usd    = 0.085\n  tenant_period = \"24h\"\n}\n", func(f *forecast.Forecast) bool { return f.Refused == 4 }},
		"tries":            {failing, good + "retry {\n  max_attempts = 4\n}\n", func(f *forecast.Forecast) bool { return f.FailedCalls == 3 && f.Models[0].Chosen == 1 }},
		"too few tries":    {failing, good + "retry {\n  max_attempts = 2\n}\n", func(f *forecast.Forecast) bool { return f.FailedCalls == 2 && f.Models[1].Chosen == 1 }},
		"more deployments": {failing, good, func(f *forecast.Forecast) bool { return f.FailedCalls == 1 && f.Models[0].Chosen == 1 }},
		"match by label": {quiet, good + "match \"search\" {\n  models = [\"large\"]\n  when {\n    labels = { team = \"search\" }\n  }\n  strategy \"route\" {\n    lambda = 1\n  }\n}\n",
			func(f *forecast.Forecast) bool { return f.Matches["search"] == 10 && f.Models[1].Chosen == 1 }},
		"observe": {quiet, good + "mode = \"observe\"\nbaseline = \"large\"\n", func(f *forecast.Forecast) bool { return f.Models[1].Chosen == 1 && f.Models[0].Ran == 0 }},
		"shadow": {quiet, good + "mode = \"shadow\"\nbaseline = \"large\"\nshadow {\n  share = 0.5\n  max_usd = 1\n}\n",
			func(f *forecast.Forecast) bool { return f.Models[1].Chosen == 1 && math.Abs(f.ShadowUSD-0.005) < 1e-12 }},
	} {
		t.Run(name, func(t *testing.T) {
			models := estimated
			if name == "more deployments" {
				models = strings.Replace(estimated, "  quality {", "  deployment \"spare\" {\n    base_url = \"http://spare\"\n  }\n  quality {", 1)
			}
			p := parse(t, models+tt.text)
			if f := predict(t, p, &forecast.Traces{Steps: tt.steps}); !tt.want(f) {
				t.Errorf("%+v", f)
			}
		})
	}
}

// A session stays with its model where moving costs more than it gains.
func TestSessionsShowInTheForecast(t *testing.T) {
	var steps []*sdk.Trace
	for n := range 10 {
		s := recorded(n, 0, time.Date(2026, 1, 1, 0, n, 0, 0, time.UTC))
		// By turns the one and the other is believed to be better.
		s.Decisions[0].Models[n%2].Quality.Mean = 0.9
		steps = append(steps, s)
	}
	route := "strategy \"route\" {\n  lambda = 1\n}\n"
	if f := predict(t, parse(t, estimated+route), &forecast.Traces{Steps: steps}); f.Moves != 0.9 {
		t.Errorf("without sessions %+v", f)
	}
	if f := predict(t, parse(t, estimated+route+"session {\n  switch_usd = 1\n}\n"), &forecast.Traces{Steps: steps}); f.Moves != 0 {
		t.Errorf("with sessions %+v", f)
	}
}

// Recorded estimates are visible to estimators only: a policy without one uses its own beliefs.
func TestWithoutAnEstimatorNothingIsSeen(t *testing.T) {
	w := &forecast.Traces{Steps: []*sdk.Trace{recorded(0, 0, time.Unix(0, 0))}}
	if f := predict(t, parse(t, two+good), w); f.Steps != 1 || f.Models[0].Ran != 0 {
		t.Errorf("small is believed to be worth 0.5, the threshold is 0.6, and nothing looks: %+v", f)
	}
}

// Judged and guessed qualities are never combined in one figure.
func TestVerdictsAndGuessesAreKeptApart(t *testing.T) {
	step := func(id string, v *sdk.Verdict) *sdk.Trace {
		return &sdk.Trace{
			ID: id, Chosen: "small", Decisions: []sdk.Decision{{Run: "small", Models: []sdk.Belief{{Model: "small", Quality: sdk.Estimate{Mean: 0.7}, CostUSD: 0.001}}}},
			Calls: []sdk.Call{{Model: "small", CostUSD: 0.001, Quality: sdk.Estimate{Mean: 0.7}, Verdict: v}},
		}
	}
	policy := parse(t, `
strategy "route" { lambda = 1 }
model "small" {
	provider = "go"
	price {
		input_usd_per_million  = 1
		output_usd_per_million = 1
	}
}
`)
	f := predict(t, policy, &forecast.Traces{Steps: []*sdk.Trace{
		step("a", &sdk.Verdict{Verifier: "tests", Outcome: sdk.Failed}), step("b", &sdk.Verdict{Verifier: "tests", Outcome: sdk.Passed}), step("c", nil),
		step("d", &sdk.Verdict{Verifier: "check:json", Outcome: sdk.Failed}),
	}})
	if f.Judged.Answers != 2 || f.Judged.Mean != 0.5 || f.Guessed.Answers != 2 || f.Quality != 0 {
		t.Errorf("judged %+v, guessed %+v, together %v", f.Judged, f.Guessed, f.Quality)
	}
}

const agreeing = `
model "a" {
  provider = "openai"
  served   = "gpt-4.1-mini"
  quality { mean = 0.8 }
}
model "b" {
  provider = "openai"
  served   = "gpt-4.1-nano"
  quality { mean = 0.8 }
}
model "large" {
  provider = "openai"
  served   = "gpt-4.1"
  quality { mean = 0.89 }
}
estimator "pair" {
  plugin = "agreement"
}
strategy "threshold" { threshold = 0.9 }
`

// The answers of models that were not asked agree as often as in a world of beliefs, and a recorded answer of the
// same query under another model is used.
func TestForecastDrawsAgreementOfWhoWasNotAsked(t *testing.T) {
	p := parse(t, agreeing)
	var pinned, whole []*sdk.Trace
	for n := range 400 {
		id := fmt.Sprint("q", n)
		step := func(model, key string) *sdk.Trace {
			return &sdk.Trace{ID: id + model, QueryID: id, InputTokens: 1000, Calls: []sdk.Call{{Model: model, Key: key, CostUSD: 0.001}}}
		}
		pinned = append(pinned, step("large", "k"))
		second := "k"
		if n%10 == 0 {
			second = "other"
		}
		whole = append(whole, step("a", "k"), step("b", second), step("large", "k"))
	}
	beliefs := predict(t, p, &forecast.Beliefs{Queries: []*sdk.Query{{InputTokens: 1000}}, Draws: 4000, Seed: 1})
	f := predict(t, p, &forecast.Traces{Steps: pinned, Seed: 1})
	if math.Abs(f.Models[2].Ran-beliefs.Models[2].Ran) > 0.08 || f.Unknown == 0 {
		t.Errorf("large is run for %v and in a world of beliefs for %v; %d unknown", f.Models[2].Ran, beliefs.Models[2].Ran, f.Unknown)
	}
	if f := predict(t, p, &forecast.Traces{Steps: whole, Seed: 1}); math.Abs(f.Models[2].Ran-0.1) > 1e-9 || f.Unknown != 0 {
		t.Errorf("all answers are recorded: large is run for %v, want 0.1; %d unknown", f.Models[2].Ran, f.Unknown)
	}
}

// Costs computed from expected lengths are counted as assumed; recorded ones and free calls are not.
func TestAssumedCostsAreCounted(t *testing.T) {
	nan := math.NaN()
	one := func(v float64) [][]float64 { return [][]float64{{v, v}, {v, v}} }
	for name, c := range map[string]struct {
		usd, lengths [][]float64
		want         int
	}{
		"nothing":    {nil, nil, 2},
		"costs":      {one(0.01), nil, 0},
		"free":       {one(0), nil, 0},
		"lengths":    {nil, one(100), 0},
		"half of it": {[][]float64{{0.01, 0.01}, {nan, nan}}, nil, 1},
	} {
		table := &outcome.Table{Models: []string{"small", "large"}, Queries: []string{"a", "b"}, Quality: one(1), CostUSD: c.usd, InputTokens: c.lengths, OutputTokens: c.lengths}
		if f := predict(t, parse(t, two+"strategy \"route\" {\n  lambda = 1\n}\n"), &forecast.Table{Outcomes: table}); f.Assumed != c.want {
			t.Errorf("%s: %d of 2 calls have assumed costs, want %d", name, f.Assumed, c.want)
		}
	}
}

// Estimators in a plan over traces see answers as long as those in use and in a fit do: with their reasoning,
// and not at all where the length was only estimated.
func TestAnswersInTracesAreAsLongAsInAFit(t *testing.T) {
	for want, usage := range map[int]sdk.Usage{
		500: {OutputTokens: 100, ReasoningTokens: 400},
		0:   {OutputTokens: 100, Estimated: true},
	} {
		trace := &sdk.Trace{ID: "1", Calls: []sdk.Call{{Model: "small", CostUSD: 0.001, Usage: usage, Verdict: &sdk.Verdict{Outcome: sdk.Passed}}}}
		w := &forecast.Traces{Steps: []*sdk.Trace{trace}}
		table, err := outcome.OfTraces(w.Steps)
		if err != nil {
			t.Fatal(err)
		}
		fitted := outcome.At(table.OutputTokens, 0, 0) // NaN is unknown
		if got := w.Outcome(0, forecast.Model{Name: "small"}).Usage.OutputTokens; got != want || want > 0 && fitted != float64(want) || want == 0 && fitted > 0 {
			t.Errorf("%+v: %d tokens in a plan, %v in a fit, want %d", usage, got, fitted, want)
		}
	}
}

// A model that has not run is assumed to find as much of the prompt in its cache as the model that ran.
func TestModelsThatHaveNotRunHaveCachesToo(t *testing.T) {
	p := parse(t, two+"strategy \"route\" {\n  lambda = 1\n}\n")
	price := p.Models[1].Price.SDK()
	usage := sdk.Usage{InputTokens: 100, CachedInputTokens: 9000, CacheWriteTokens: 900, OutputTokens: 50}
	trace := &sdk.Trace{ID: "1", InputTokens: 10000, Calls: []sdk.Call{{Model: "small", CostUSD: 0.001, Usage: usage}}}
	o := (&forecast.Traces{Steps: []*sdk.Trace{trace}}).Outcome(0, forecast.Model{Name: p.Models[1].Name, Price: price})
	if o.Known || o.Usage != usage {
		t.Errorf("large answers with %+v, want %+v", o.Usage, usage)
	}
	if f := predict(t, p, &forecast.Traces{Steps: []*sdk.Trace{trace}, Seed: 1}); f.Models[1].Ran == 1 && math.Abs(f.CostUSD-price.CostUSD(usage)) > 1e-9 {
		t.Errorf("the step costs %v, want %v", f.CostUSD, price.CostUSD(usage))
	}
}

// The cost of a verdict is also known from the shadows of steps whose own answers nobody judged.
func TestVerdictsOfShadows(t *testing.T) {
	call := func(usd float64) []sdk.Call {
		return []sdk.Call{{Model: "small", Verdict: &sdk.Verdict{Verifier: "judge", CostUSD: usd}}}
	}
	world := &forecast.Traces{
		Steps:   []*sdk.Trace{{QueryID: "a", Calls: []sdk.Call{{Model: "large"}}}, {QueryID: "b"}},
		Shadows: []*sdk.Trace{{QueryID: "a", Calls: call(0.005)}, {QueryID: "c", Calls: call(0.001)}},
	}
	for n, want := range []float64{0.005, 0.003} {
		if usd, known := world.VerdictUSD(n, "judge", "small"); !known || math.Abs(usd-want) > 1e-12 {
			t.Errorf("step %d: %v, %v, want %v", n, usd, known, want)
		}
	}
}

// A model that others answer for finds less of a run's prompt in its cache than in a shadow, where it is always asked.
func TestCallsCostWhatTheirCachesLeave(t *testing.T) {
	price := sdk.Price{Input: 2, CachedInput: 0.5, CacheWrite: 2.5, Output: 10}
	w := &forecast.Traces{}
	for n := range 3 {
		usage := sdk.Usage{CachedInputTokens: 1000 * n, CacheWriteTokens: 1000, OutputTokens: 10}
		small := sdk.Call{Model: "small", Usage: sdk.Usage{InputTokens: 1000 * (n + 1), OutputTokens: 20}}
		s := &sdk.Trace{ID: fmt.Sprint(n), Run: "r", Tools: []string{"read"}, Chosen: "small", InputTokens: 1000 * (n + 1), Decisions: []sdk.Decision{{Models: []sdk.Belief{{Model: "large", Price: &price}}}}, Calls: []sdk.Call{small}}
		if n < 2 {
			s.Calls = append(s.Calls, sdk.Call{Model: "large", CostUSD: price.CostUSD(usage), Usage: usage})
		}
		w.Steps = append(w.Steps, s)
	}
	large := forecast.Model{Name: "large", Price: price}
	const usd = 2e-6 // a cached token less
	for read, want := range map[float64]float64{1000: 0, 0: 1000 * usd} {
		if got := w.DearerUSD(1, large, read); math.Abs(got-want) > 1e-12 {
			t.Errorf("a call in step 1 is %v dearer after reading %v tokens, want %v", got, read, want)
		}
	}
	unasked := w.Outcome(2, large).CostUSD
	for read, want := range map[float64]float64{0: 3000 * 2.5e-6, 2000: 2000*0.5e-6 + 1000*2.5e-6} {
		if got, answer := unasked+w.DearerUSD(2, large, read), 20*10e-6; math.Abs(got-want-answer) > 1e-12 {
			t.Errorf("step 2 costs %v after reading %v tokens, want %v", got, read, want+answer)
		}
	}
}
