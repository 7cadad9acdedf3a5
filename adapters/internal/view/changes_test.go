package view

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// changePolicy is a policy that spends more on quality than it is worth, or less.
func changePolicy(t *testing.T, worthUSD float64) func(sets ...string) (*policies.Policy, error) {
	t.Helper()
	text := fmt.Sprintf(`
model "small" {
  provider = "openai"
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 1
  }
  quality {
    mean    = 0.7
    std_dev = 0.2
  }
}
model "large" {
  provider = "openai"
  price {
    input_usd_per_million  = 100
    output_usd_per_million = 100
  }
  quality {
    mean    = 0.72
    std_dev = 0.2
  }
}
strategy "route" { worth_usd = %g }
`, worthUSD)
	return func(sets ...string) (*policies.Policy, error) {
		return policies.Parse("policy.hcl", []byte(text), policies.LoadOptions{Env: []string{}, Sets: sets})
	}
}

// changeTraces are steps that both models answered, which cost 0.0002 and 0.02 USD, and were
// right with probability small and large.
func changeTraces(n int, small, large float64) []*sdk.Trace {
	random := rand.New(rand.NewPCG(1, 2))
	var list []*sdk.Trace
	for i := range n {
		at := time.Date(2026, 11, 1, 0, 0, i, 0, time.UTC)
		t := &sdk.Trace{ID: fmt.Sprint("s", i), QueryID: fmt.Sprint("q", i), Start: at, InputTokens: 100, Duration: time.Second, Chosen: "large", Stop: sdk.StopNotWorth}
		for _, m := range []struct {
			name       string
			right, usd float64
		}{{"small", small, 0.0002}, {"large", large, 0.02}} {
			v := &sdk.Verdict{Outcome: sdk.Failed, Confidence: 1, Verifier: "tests"}
			if random.Float64() < m.right {
				v.Outcome = sdk.Passed
			}
			t.Calls = append(t.Calls, sdk.Call{
				Model: m.name, Start: at, Latency: time.Second, CostUSD: m.usd, Usage: sdk.Usage{InputTokens: 100, OutputTokens: 100}, Verdict: v,
			})
			t.CostUSD += m.usd
		}
		list = append(list, t)
	}
	return list
}

// A replay expects what the recorded answers show.
func TestChangesThatPay(t *testing.T) {
	t.Run("cheaper", func(t *testing.T) {
		// The policy believes in two points more, and the verdicts know of no difference.
		c := tryChanges(t.Context(), changePolicy(t, 10), changeTraces(400, 1, 1))
		if c.Err != "" || len(c.List) == 0 {
			t.Fatalf("%+v", c)
		}
		first := c.List[0]
		if first.Kind() != "cheaper" || first.Quality != 0 || math.Abs(first.USD+0.0198) > 1e-9 || c.Judged != 400 || c.Steps != 400 {
			t.Errorf("%+v of %+v", first, c)
		}
		if got := first.Flags(); got != "--set 'strategy.route.worth_usd=2.5'" {
			t.Errorf("%s", got)
		}
	})
	t.Run("better", func(t *testing.T) {
		c := tryChanges(t.Context(), changePolicy(t, 2.5), changeTraces(400, 0.5, 0.9))
		if c.Err != "" || len(c.List) == 0 || c.List[0].Kind() != "better" || c.List[0].Quality < 0.3 {
			t.Errorf("%+v", c)
		}
	})
	t.Run("runs", func(t *testing.T) {
		// By the estimates the large model is better, but its runs failed.
		traces := changeTraces(100, 1, 1)
		for _, one := range traces[:100:100] {
			one.Run = one.ID
			for k, mean := range []float64{0.5, 0.9} {
				one.Calls[k].Verdict, one.Calls[k].Quality.Mean = nil, mean
			}
			report, err := step.VerdictTrace(one.Run, "", &sdk.Verdict{Outcome: sdk.Failed})
			if err != nil {
				t.Fatal(err)
			}
			traces = append(traces, report)
		}
		if c := tryChanges(t.Context(), changePolicy(t, 10), traces); c.Err != "" || len(c.List) == 0 || c.List[0].Kind() != "better and cheaper" {
			t.Errorf("%+v", c)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		// The large model is dearer and no better.
		if c := tryChanges(t.Context(), changePolicy(t, 0.1), changeTraces(400, 0.8, 0.8)); c.Err != "" || len(c.List) > 0 || c.Others == 0 {
			t.Errorf("%+v", c)
		}
	})
}

// Settings that do not apply to a policy are not tried; for a policy in a mode that does not enforce, changes are
// tried in mode enforce.
func TestChangesTried(t *testing.T) {
	for block, want := range map[string]string{
		"strategy \"cascade_route\" { lambda = [2, 4] }":                          "strategy.cascade_route.lambda=[0.5, 1] strategy.cascade_route.lambda=[1, 2] strategy.cascade_route.lambda=[4, 8] strategy.cascade_route.lambda=[8, 16] strategy.cascade_route.max_depth=1",
		"strategy \"threshold\" { threshold = 0.9 }":                              "strategy.threshold.threshold=0.7 strategy.threshold.threshold=0.8 strategy.threshold.threshold=1 strategy.threshold.max_depth=1",
		"mode = \"observe\"\nbaseline = \"a\"\nstrategy \"route\" { lambda = 2 }": "mode=enforce mode=enforce,strategy.route.lambda=0.5 mode=enforce,strategy.route.lambda=1 mode=enforce,strategy.route.lambda=4 mode=enforce,strategy.route.lambda=8",
	} {
		text := block
		for _, name := range []string{"a", "b"} {
			text += fmt.Sprintf("\nmodel %q {\n  provider = \"openai\"\n  price {\n    input_usd_per_million = 1\n    output_usd_per_million = 1\n  }\n  quality { mean = 0.5 }\n}\n", name)
		}
		p, err := policies.Parse("policy.hcl", []byte(text), policies.LoadOptions{Env: []string{}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, sets := range changesTried(p) {
			got = append(got, strings.Join(sets, ","))
			if _, err := policies.Parse("policy.hcl", []byte(text), policies.LoadOptions{Env: []string{}, Sets: sets}); err != nil {
				t.Errorf("%v: %v", sets, err)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s\ngot  %s\nwant %s", block, strings.Join(got, " "), want)
		}
	}
}

// The overview shows changes that pay, how to see more of them and, without a policy, how to enable them.
func TestOverviewShowsChanges(t *testing.T) {
	traces := changeTraces(100, 1, 1)
	h := New(Options{Traces: reader(t, traces), Policy: changePolicy(t, 10)})
	page := get(t, h, "/")
	for strings.Contains(page, "are being replayed") {
		page = get(t, h, "/") // which waits a while for the replay
	}
	for _, want := range []string{"What to change?", "-99 %", "&#43;0.0 ± 0.00", "All answers were judged", "stepfall policy plan policy.hcl --set &#39;strategy.route.worth_usd=2.5&#39; --against policy.hcl"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if page := get(t, New(Options{Traces: reader(t, traces)}), "/"); !strings.Contains(page, "stepfall view TRACES POLICY") {
		t.Error("the page does not say how to have changes tried")
	}
	dir := t.TempDir()
	if _, err := Export(context.Background(), dir, Options{Traces: reader(t, traces), Policy: changePolicy(t, 10)}, 1000); err != nil {
		t.Fatal(err)
	}
	if text := fileText(t, filepath.Join(dir, "index.html")); !strings.Contains(text, "strategy.route.worth_usd=2.5") {
		t.Error("the export has no changes")
	}
}

// An export waits for the replay, however long it takes, since nobody can look again.
func TestExportWaitsForChanges(t *testing.T) {
	quick, recorded := changePolicy(t, 10), reader(t, changeTraces(100, 1, 1))
	synctest.Test(t, func(t *testing.T) {
		v := newViewer(Options{Traces: recorded, Policy: func(sets ...string) (*policies.Policy, error) {
			time.Sleep(time.Minute)
			return quick(sets...)
		}})
		v.export = &exporter{}
		if p, err := v.overview(t.Context(), nil); err != nil || p.Changes == nil || len(p.Changes.List) == 0 {
			t.Errorf("the export has no changes: %v", err)
		}
	})
}

func fileText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
