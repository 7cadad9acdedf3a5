package step_test

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/step"
)

// The trace has the strategy's parameters, with models by name.
func TestTheTraceTellsTheSetting(t *testing.T) {
	for what, c := range map[string]struct {
		name   string
		params cascade.Params
		want   cascade.Setting
	}{
		"threshold": {cascade.NameThreshold, cascade.Params{Order: []int{2, 0}, Thresholds: []float64{0.5}, Answer: cascade.Last, MaxDepth: 2},
			cascade.Setting{Order: []string{"large", "small"}, Thresholds: []float64{0.5}, LastAnswer: true, MaxDepth: 2}},
		"best answer": {cascade.NameThreshold, cascade.Params{Thresholds: []float64{0.5}}, cascade.Setting{Thresholds: []float64{0.5}}},
		"scaled":      {cascade.NameCascadeRoute, cascade.Params{Scale: 0.5}, cascade.Setting{Scale: 0.5}},
		"not scaled":  {cascade.NameCascadeRoute, cascade.Params{}, cascade.Setting{}},
		"no expect":   {cascade.NameCascadeRouteNoExpect, cascade.Params{}, cascade.Setting{NoExpect: true}},
	} {
		s, err := cascade.New(c.name, c.params)
		if err != nil {
			t.Fatal(err)
		}
		res, err := engine(t, step.Config{Candidates: candidates(), Strategy: s, Coin: func() float64 { return 0.25 }}).Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		got := res.Trace.Setting
		if got.Coin != 0.25 || got.LastAnswer != c.want.LastAnswer || got.Scale != c.want.Scale || got.NoExpect != c.want.NoExpect ||
			got.MaxDepth != c.want.MaxDepth || !slices.Equal(got.Order, c.want.Order) || !slices.Equal(got.Thresholds, c.want.Thresholds) {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
	}
}

// ordered is a strategy that describes an order with an index beyond the candidates.
type ordered struct{ scripted }

func (ordered) Describe() cascade.Description {
	return cascade.Description{Name: "ordered", Params: cascade.Params{Order: []int{1, 3, 0, 7}}}
}

func TestPlacesThatNoCandidateHasAreNotInTheTrace(t *testing.T) {
	s := ordered{func(s *cascade.State) cascade.Decision {
		if len(s.Ran) == 0 {
			return cascade.Decision{Run: 1, Answer: cascade.None}
		}
		return cascade.Decision{Run: cascade.Stop, Answer: 1}
	}}
	res, err := engine(t, step.Config{Candidates: candidates(), Strategy: s}).Run(t.Context(), step.Request{Query: query(), Caller: says()})
	if err != nil || !slices.Equal(res.Trace.Setting.Order, []string{"middle", "small"}) {
		t.Errorf("order %v, %v", res.Trace.Setting.Order, err)
	}
}

// A trace's ID is 128 random bits in hexadecimal, as in OpenTelemetry.
func TestTraceIDs(t *testing.T) {
	e := engine(t, step.Config{Candidates: candidates(), Strategy: route(t)})
	form, seen := regexp.MustCompile(`^[0-9a-f]{32}$`), map[string]bool{}
	var digits [32]map[byte]bool
	for range 200 {
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		id := res.Trace.ID
		if !form.MatchString(id) || seen[id] {
			t.Fatalf("id %q", id)
		}
		seen[id] = true
		for i := range digits {
			if digits[i] == nil {
				digits[i] = map[byte]bool{}
			}
			digits[i][id[i]] = true
		}
	}
	for i, d := range digits {
		if len(d) < 14 { // 200 draws leave three of 16 digits out once in 10^14
			t.Errorf("digit %d of an id takes only %d values", i, len(d))
		}
	}
}

// The trace names the tools that a query offers.
func TestTheTraceNamesTheTools(t *testing.T) {
	list := candidates()
	list[0].Model.Capabilities.Tools = true
	e := engine(t, step.Config{Candidates: list, Strategy: route(t)})
	for _, tools := range [][]string{nil, {"search"}, {"search", "run"}} {
		q := query()
		for _, name := range tools {
			q.Tools = append(q.Tools, sdk.Tool{Name: name})
		}
		res, err := e.Run(t.Context(), step.Request{Query: q, Caller: says()})
		if err != nil || !slices.Equal(res.Trace.Tools, tools) {
			t.Errorf("tools %v, want %v; %v", res.Trace.Tools, tools, err)
		}
	}
}

// The first answer of a step has no agreement signal, since there is no other.
func TestTheFirstAnswerHasNoAgreement(t *testing.T) {
	e := engine(t, step.Config{Candidates: candidates(), Strategy: route(t)})
	res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
		return &sdk.Answer{Text: "x", LogProbs: []sdk.TokenLogProb{{Token: "x", LogProb: -1}}}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	if v, has := res.Answer.Signals[feature.SignalAgreement]; has || res.Answer.Signals["mean_log_prob"] != -1 {
		t.Errorf("agreement %v of %v", v, res.Answer.Signals)
	}
}

// The log line names run, session, tenant and mode if they are set.
func TestLogNamesWhatIsKnown(t *testing.T) {
	var out bytes.Buffer
	sink := step.Log(slog.New(slog.NewTextHandler(&out, nil)))
	sink(t.Context(), &sdk.Trace{Run: "r7", Tenant: "blue"})
	if line := out.String(); !strings.Contains(line, " run=r7 tenant=blue") || strings.Contains(line, "session") || strings.Contains(line, "mode") {
		t.Errorf("log %q", line)
	}
}

// A trace file can be exactly as long as its limit; a longer line gets a file of its own;
// 0 is no limit.
func TestTraceFilesKeepTheirSize(t *testing.T) {
	record := func(t *testing.T, limit int64, ids ...string) (older, newest string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "traces.jsonl")
		j, err := step.OpenJSONLines(path, limit, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			j.Record(t.Context(), &sdk.Trace{ID: id})
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j.Record(t.Context(), &sdk.Trace{ID: "after the end"})
		names := func(file string) string {
			data, err := os.ReadFile(file)
			if err != nil {
				return "none"
			}
			var list []string
			for _, m := range regexp.MustCompile(`"id":"(.*?)"`).FindAllStringSubmatch(string(data), -1) {
				list = append(list, m[1])
			}
			return strings.Join(list, " ")
		}
		if err := j.Close(); err != nil {
			t.Errorf("closing twice: %v", err)
		}
		return names(path + ".1"), names(path)
	}
	path := filepath.Join(t.TempDir(), "one.jsonl")
	j, err := step.OpenJSONLines(path, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	j.Record(t.Context(), &sdk.Trace{ID: "a"})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	one := int64(len(data)) // a line with an id of one letter
	for _, c := range []struct {
		limit         int64
		older, newest string
	}{
		{0, "none", "a b c"},
		{3 * one, "none", "a b c"},
		{3*one - 1, "a b", "c"},
		{2 * one, "a b", "c"},
		{2*one - 1, "b", "c"},
		{one - 1, "b", "c"},
	} {
		if older, newest := record(t, c.limit, "a", "b", "c"); older != c.older || newest != c.newest {
			t.Errorf("limit of %d lines of %d bytes: %q and %q, want %q and %q", c.limit, one, older, newest, c.older, c.newest)
		}
	}
	if older, newest := record(t, 1, "a"); older != "none" || newest != "a" {
		t.Errorf("one line over the limit: %q and %q", older, newest)
	}
}

// The trace has the alternatives as the strategy ranks them, with infinities as the largest numbers. Only the first
// decision has the prices.
func TestTheTraceHasTheAlternatives(t *testing.T) {
	for _, lambda := range []float64{0, 1} {
		res, err := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, lambda), Explain: true, Verifiers: []step.Verifier{verdicts(map[string]bool{"large": true})}, Estimators: looks(estimator{"small": 0.1})}).
			Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil || len(res.Trace.Decisions) < 2 {
			t.Fatalf("%d decisions, %v", len(res.Trace.Decisions), err)
		}
		first := res.Trace.Decisions[0]
		for _, a := range first.Alternatives {
			at := slices.IndexFunc(first.Models, func(b sdk.Belief) bool { return b.Model == a.Models[0] })
			b := first.Models[at]
			if len(a.Models) != 1 || a.ExpectedMax != b.Quality.Mean || a.CostUSD != b.CostUSD || !nearly(a.Tau, b.Quality.Mean-lambda*b.CostUSD) || !nearly(a.Reservation, 1-lambda*b.CostUSD/b.Quality.Mean) {
				t.Errorf("lambda %v: %+v of %+v", lambda, a, b)
			}
		}
		if len(first.Alternatives) != 3 {
			t.Errorf("lambda %v: %+v", lambda, first.Alternatives)
		}
		for i, d := range res.Trace.Decisions {
			for _, b := range d.Models {
				if (b.Price != nil) != (i == 0) || (b.OutputTokens == 500) != (i == 0) {
					t.Errorf("decision %d has the price %+v of %s and %v tokens", i, b.Price, b.Model, b.OutputTokens)
				}
			}
		}
	}
	free := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 0), Explain: true, Estimators: looks(estimator{"small": 0.1, "middle": 0.1, "large": 0.1})})
	res, err := free.Run(t.Context(), step.Request{Query: query(), Caller: says()})
	if err != nil || res.Trace.Decisions[0].Alternatives[0].Reservation != math.MaxFloat64 {
		t.Errorf("%+v, %v", res.Trace.Decisions[0].Alternatives, err)
	}
}

// A verdict on a run needs a run, numbers in [0, 1] and, if it is inconclusive, a reason or a verifier.
func TestVerdictsThatCanBeReported(t *testing.T) {
	for _, c := range []struct {
		run     string
		verdict sdk.Verdict
		want    string
	}{
		{"r", sdk.Verdict{Outcome: sdk.Passed}, ""},
		{"r", sdk.Verdict{Outcome: sdk.Failed, Score: 1, Confidence: 1}, ""},
		{"", sdk.Verdict{Outcome: sdk.Passed}, "the run has no name"},
		{"r", sdk.Verdict{}, "it has no outcome"},
		{"r", sdk.Verdict{Evidence: "a mistake"}, ""},
		{"r", sdk.Verdict{Verifier: "support"}, ""},
		{"r", sdk.Verdict{Outcome: sdk.Passed, Score: 1.01}, "a score of 1.01"},
		{"r", sdk.Verdict{Outcome: sdk.Passed, Score: -0.01}, "a score of -0.01"},
		{"r", sdk.Verdict{Outcome: sdk.Passed, Confidence: math.NaN()}, "a confidence of NaN"},
		{"r", sdk.Verdict{Outcome: sdk.Passed, Confidence: 1.5}, "a confidence of 1.5"},
	} {
		trace, err := step.VerdictTrace(c.run, "blue", &c.verdict)
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v, want %q", c.verdict, err, c.want)
			}
		case err != nil || trace.Run != c.run || trace.Tenant != "blue" || trace.Mode != sdk.ModeVerdict || trace.Verdict != &c.verdict:
			t.Errorf("%+v: %+v, %v", c.verdict, trace, err)
		}
	}
}
