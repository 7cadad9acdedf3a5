package outcome_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
)

const wide = `sample_id,prompt,eval_name,gpt,claude,gpt|model_response,gpt|total_cost,claude|model_response,claude|total_cost,oracle_model_to_route_to
mmlu.1,"['Which?']",mmlu,1.0,0.0,['A'],1e-05,['B'],0.0002,gpt
mmlu.2,"['Why
so?']",mmlu,0.25,,['C'],2e-05,,,gpt
`

func TestRouterBenchWide(t *testing.T) {
	table := read(t, wide)
	if !slices.Equal(table.Models, []string{"gpt", "claude"}) || table.Group(0) != "mmlu" || table.Prompt(1) != "['Why\nso?']" {
		t.Errorf("models %q, groups %q, prompts %q", table.Models, table.Groups, table.Prompts)
	}
	if table.Quality[1][0] != 0.25 || !math.IsNaN(table.Quality[1][1]) || !math.IsNaN(table.CostUSD[1][1]) || table.CostUSD[0][1] != 0.0002 {
		t.Errorf("quality %v, cost %v", table.Quality, table.CostUSD)
	}
	if table.Answer(0, 1) != "['B']" {
		t.Errorf("answers %q", table.Answers)
	}
	_, err := outcome.Read(strings.NewReader(strings.Replace(wide, "1e-05", "cheap", 1)), "wide.csv", outcome.Options{})
	if err == nil || !strings.Contains(err.Error(), `wide.csv:2: column "gpt|total_cost": "cheap" is not a number`) {
		t.Errorf("error %v", err)
	}
}

func TestLeaderboards(t *testing.T) {
	table := read(t, `{"leaderboards": [{"name": "bash-only", "results": [
		{"name": "small", "per_instance_details": {"astropy__astropy-1": {"resolved": true, "cost": 0.1, "api_calls": 7},
			"astropy__astropy-2": {"resolved": false}}},
		{"name": "summary only"}]}]}`)
	q := slices.Index(table.Queries, "astropy__astropy-2")
	if len(table.Queries) != 2 || table.Group(q) != "astropy/astropy" || table.Quality[q][0] != 0 || !math.IsNaN(table.CostUSD[q][0]) {
		t.Errorf("%+v", table)
	}
	if table.CostUSD[1-q][0] != 0.1 || table.Signals["api_calls"][1-q][0] != 7 {
		t.Errorf("cost %v", table.CostUSD)
	}
}

func TestLeaderboardsReadTheSameEveryTime(t *testing.T) {
	const board = `{"leaderboards": [{"name": "bash-only", "results": [
		{"name": "small", "date": "2025-07-26", "per_instance_details": {"d-1": {"resolved": true}, "a-1": {"resolved": true}, "c-1": {"resolved": true}, "b-1": {"resolved": true}}},
		{"name": "small", "date": "2025-12-01", "per_instance_details": {"a-1": {"resolved": false}}}]}]}`
	for range 5 {
		table := read(t, board)
		if !slices.Equal(table.Queries, []string{"a-1", "b-1", "c-1", "d-1"}) {
			t.Fatalf("queries %q", table.Queries)
		}
		if !slices.Equal(table.Models, []string{"small", "small (2025-12-01)"}) || table.Quality[0][1] != 0 {
			t.Fatalf("a second submission of one model: models %q, quality %v", table.Models, table.Quality[0])
		}
	}
}

func TestTracesHoldOnlyWhatRan(t *testing.T) {
	passed := &sdk.Verdict{Outcome: sdk.Passed}
	var lines bytes.Buffer
	packed := gzip.NewWriter(&lines)
	for _, trace := range []sdk.Trace{
		{ID: "1", QueryID: "q1", Group: "g", Decisions: []sdk.Decision{}, Calls: []sdk.Call{
			{Model: "small", CostUSD: 0.5, Error: "timeout"},
			{Model: "small", CostUSD: 1, Latency: 2 * time.Second, Answer: "4", Usage: sdk.Usage{OutputTokens: 3}},
			{Model: "large", CostUSD: 10, Answer: "5", Verdict: passed},
		}},
		{ID: "2", QueryID: "q2", Decisions: []sdk.Decision{}, Calls: []sdk.Call{{Model: "small", CostUSD: 1, Verdict: passed}}},
	} {
		line, err := json.Marshal(trace)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := packed.Write(append(line, '\n')); err != nil {
			t.Fatal(err)
		}
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	table, err := outcome.Read(&lines, "traces.jsonl.gz", outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if table.CostUSD[0][0] != 1.5 || !math.IsNaN(table.Quality[0][0]) || table.Quality[0][1] != 1 || table.OutputTokens[0][0] != 3 {
		t.Errorf("quality %v, cost %v", table.Quality, table.CostUSD)
	}
	if !math.IsNaN(table.CostUSD[1][1]) || !math.IsNaN(table.Quality[1][1]) {
		t.Error("a model that did not run has an outcome")
	}
	if d := table.Describe(); d.Complete != 0 || d.Models[0].Missing != 1 || !math.IsNaN(d.OracleQuality) {
		t.Errorf("summary %+v", d)
	}
}

// FuzzRead looks for input that makes the importers panic or return a table that
// cannot be used.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{small, wide, `{"query_id":"q","model":"m","quality":1,"truth":0,"signals":{"s":1},"verdict":{"verifier":"t","outcome":"passed","cost_usd":1}}`, `{"leaderboards":[{"results":[{"name":"m","per_instance_details":{"a-1":{"resolved":true}}}]}]}`, `{"id":"1","calls":[],"decisions":[]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := outcome.Read(bytes.NewReader(data), "fuzz", outcome.Options{})
		if err != nil {
			return
		}
		for q := range table.Queries {
			if len(table.Quality[q]) != len(table.Models) {
				t.Fatalf("query %d has %d qualities for %d models", q, len(table.Quality[q]), len(table.Models))
			}
		}
		table.Describe()
		table.Hash()
	})
}
