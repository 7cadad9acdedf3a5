package outcome_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/outcome/outcometest"
)

const small = `query_id,group,model,quality,cost_usd,output_tokens,answer,note,perplexity
q1,a,small,1,0.001,10,4,x,1.5
q1,a,large,1,0.01,12,4,x,
q2,b,small,0,0.002,,five,x,2
q2,b,large,,0.02,20,6,x,3
q3,b,large,0.5,0.03,30,,x,3
`

func read(t *testing.T, text string) *outcome.Table {
	t.Helper()
	table, err := outcome.Read(strings.NewReader(text), "runs.csv", outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestReadKeepsWhatIsUnknownUnknown(t *testing.T) {
	table := read(t, small)
	if got := table.Models; !slices.Equal(got, []string{"small", "large"}) {
		t.Fatalf("models %q", got)
	}
	for _, c := range []struct {
		name        string
		matrix      [][]float64
		query, col  int
		want        float64
		wantUnknown bool
	}{
		{"quality", table.Quality, 0, 0, 1, false},
		{"empty quality", table.Quality, 1, 1, 0, true},
		{"absent row", table.Quality, 2, 0, 0, true},
		{"absent row's cost", table.CostUSD, 2, 0, 0, true},
		{"empty tokens", table.OutputTokens, 1, 0, 0, true},
		{"no latency", table.LatencySeconds, 0, 0, 0, true},
		{"signal", table.Signals["perplexity"], 1, 1, 3, false},
		{"empty signal", table.Signals["perplexity"], 0, 1, 0, true},
	} {
		got := outcome.At(c.matrix, c.query, c.col)
		if c.wantUnknown != math.IsNaN(got) || !c.wantUnknown && got != c.want {
			t.Errorf("%s: %v, want %v (unknown %v)", c.name, got, c.want, c.wantUnknown)
		}
	}
	if table.Answer(1, 0) != "five" || table.Answer(2, 1) != "" || table.Group(2) != "b" {
		t.Errorf("answers %q, groups %q", table.Answers, table.Groups)
	}
	if got := table.Complete().Queries; !slices.Equal(got, []string{"q1"}) {
		t.Errorf("complete queries %q", got)
	}
	if got := table.MeanQualities(); got[0] != 0.5 || got[1] != 0.75 {
		t.Errorf("mean qualities %v", got)
	}
}

func TestReadSaysWhereTheFaultIs(t *testing.T) {
	const header = "query_id,model,quality,cost_usd\n"
	for text, want := range map[string]string{
		"":                                 "runs.csv: empty",
		"query_id,model\n":                 `runs.csv:1: column "quality": missing`,
		"query_id,model,quality,quality\n": `runs.csv:1: column "quality": named twice`,
		header:                             "runs.csv: no outcomes",
		header + "q,m,1,1e308\n":           `runs.csv:2: column "cost_usd": 1e+308 is more than 1e+12`,
		header + "q,m,2,0\n":               `runs.csv:2: column "quality": 2 is not in [0, 1]`,
		header + "q,m,1,-1\n":              `runs.csv:2: column "cost_usd": -1 is not`,
		"query_id,model,quality,group\nq,m,1,g\nq,n,1,h\n":                  `runs.csv:3: column "group": query "q" is of group "h" here and of "g" before`,
		`{"query_id":"q","model":"m","quality":1,"cost_usd":0,"quality":0}`: `runs.csv:1: column "quality": named twice`,
		header + "q,m,1,1\nq,m,1,1\n":                                       `runs.csv:3: column "model": second outcome of model "m" for query "q"`,
		header + "q,m,good,1\n":                                             `runs.csv:2: column "quality": "good" is not a number`,
		header[:len(header)-1] + ",judge_cost_usd\nq,m,1,0,free\n":          `runs.csv:2: column "judge_cost_usd": "free" is not a number`,
		header[:len(header)-1] + ",judge_cost_usd\nq,m,1,0,-0.5\n":          `runs.csv:2: column "judge_cost_usd": -0.5 is not a finite number of at least 0`,
		"q,m,1,1\n":                              "runs.csv:1: no header: want a first row with the names query_id, model and quality",
		"query_id;model;quality\nq;m;1\n":        "model and quality; columns are separated by commas",
		header + "q,m,1\n":                       "runs.csv:2: wrong number of fields",
		header + ",m,1,1\n":                      `runs.csv:2: column "query_id": empty`,
		`{"query_id":"q","model":"m"}`:           `runs.csv:1: column "quality": missing`,
		`{"query_id":"q","model":3,"quality":[`:  "runs.csv:1: no JSON object, which must end on the line that it begins on: unexpected end of JSON input",
		`{"query_id":["q"],"quality":1}`:         `runs.csv:1: column "query_id": a list where a string`,
		header + "q,m,,1\n":                      `runs.csv: column "quality": no row has a value`,
		"query_id,model,quality\n\"q,m,1\nq,m,1": `runs.csv:`,
	} {
		_, err := outcome.Read(strings.NewReader(text), "runs.csv", outcome.Options{})
		var fault *outcome.Error
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestJSONLinesEqualCSV(t *testing.T) {
	table := read(t, `{"query_id":"q1","model":"a","quality":true,"cost_usd":0.5,"log_probs":[-1,-2,-3]}

{"query_id":"q1","model":"b","quality":null,"answer":7}`)
	if table.Quality[0][0] != 1 || !math.IsNaN(table.Quality[0][1]) || table.CostUSD[0][0] != 0.5 {
		t.Errorf("quality %v, cost %v", table.Quality, table.CostUSD)
	}
	if table.Answer(0, 1) != "7" || table.Signals["mean_log_prob"][0][0] != -2 {
		t.Errorf("answers %q, signals %v", table.Answers, table.Signals)
	}
}

// In a collection with truths, the recorded verdicts are those of a fallible judge.
func TestTruthBesideAVerdict(t *testing.T) {
	table := read(t, `{"query_id":"q1","model":"a","quality":0.95,"truth":0,"verdict":{"verifier":"tests","outcome":"passed","confidence":0.95,"cost_usd":0.01}}
{"query_id":"q1","model":"b","quality":0.95,"verdict":{"verifier":"tests","outcome":"passed","confidence":0.95}}
{"query_id":"q2","model":"a","quality":0,"truth":1,"verdict":{"verifier":"tests","outcome":"failed"}}`)
	if got := fmt.Sprint(table.Quality, table.Verdicts, table.SignalNames(), table.VerdictsUSD); got != "[[0 0.95] [1 NaN]] map[tests:[[1 NaN] [0 NaN]]] [] [[0.01 NaN] [NaN NaN]]" {
		t.Error(got)
	}
}

// An unreadable truth or verdict is an error: otherwise the judge's quality would count as the truth.
func TestTruthThatCannotBeRead(t *testing.T) {
	for row, want := range map[string]string{
		`"truth":"0","verdict":{"verifier":"tests","outcome":"passed"}`: `runs.jsonl:2: column "truth": a string where a number is wanted`,
		`"truth":{},"verdict":{"verifier":"tests","outcome":"passed"}`:  `runs.jsonl:2: column "truth": an object where a number is wanted`,
		`"cost_usd":[1]`: `runs.jsonl:2: column "cost_usd": a list where a number is wanted`,
		`"truth":-1,"verdict":{"verifier":"tests","outcome":"passed"}`:   `runs.jsonl:2: column "truth": -1 is not between 0 and 1`,
		`"truth":0,"verdict":{"verifier":"tests","outcome":"PASSED"}`:    `runs.jsonl:2: column "verdict": outcome "PASSED": want "passed", "failed" or "inconclusive"`,
		`"truth":0,"verdict":{"verifier":"tests"}`:                       `runs.jsonl:2: column "verdict": outcome "": want "passed", "failed" or "inconclusive"`,
		`"truth":0,"verdict":{"verifier":"tests","outcome":[]}`:          `runs.jsonl:2: column "verdict": outcome ""`,
		`"truth":0,"verdict":{"outcome":"passed"}`:                       `runs.jsonl:2: column "verdict": a truth next to`,
		`"truth":0,"verdict":"passed"`:                                   `runs.jsonl:2: column "verdict": a truth next to`,
		`"truth":0`:                                                      `runs.jsonl:2: column "verdict": a truth next to`,
		`"truth":0,"verdict":{"verifier":"tests","outcome":"passed"}`:    "",
		`"truth":0,"verdict":{"verifier":"t","outcome":"inconclusive"}`:  "",
		`"truth":null,"verdict":{"verifier":"tests","outcome":"passed"}`: "",
		`"verdict":"passed"`:                                             "",
	} {
		text := `{"query_id":"q1","model":"a","quality":1}` + "\n" + `{"query_id":"q1","model":"b","quality":1,` + row + "}\n"
		_, err := outcome.Read(strings.NewReader(text), "runs.jsonl", outcome.Options{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", row, err, want)
		}
	}
}

func TestSplitIsStratifiedAndRepeatable(t *testing.T) {
	var text strings.Builder
	text.WriteString("query_id,group,model,quality\n")
	for i := range 100 {
		fmt.Fprintf(&text, "q%d,g%d,m,1\n", i, i%4)
	}
	table := read(t, text.String())
	first, second := table.SplitRows(0.2, 7)
	again, _ := table.SplitRows(0.2, 7)
	other, _ := table.SplitRows(0.2, 8)
	if !slices.Equal(first, again) || slices.Equal(first, other) {
		t.Error("a seed does not decide the split")
	}
	if both := append(slices.Clone(first), second...); len(first) != 20 || len(slices.Compact(slices.Sorted(slices.Values(both)))) != 100 {
		t.Errorf("%d and %d queries, want 20 and the 80 others", len(first), len(second))
	}
	count := map[string]int{}
	for _, q := range first {
		count[table.Group(q)]++
	}
	for group, n := range count {
		if n != 5 {
			t.Errorf("group %s has %d of the first half, want 5", group, n)
		}
	}
	folds := map[int]int{}
	for _, f := range table.Folds(5, 1) {
		folds[f]++
	}
	for f := range 5 {
		if folds[f] != 20 {
			t.Errorf("fold %d has %d queries, want 20", f, folds[f])
		}
	}
}

func TestGroupsOfOneAreSplitByChance(t *testing.T) {
	table := &outcome.Table{Models: []string{"a"}}
	for q := range 40 {
		table.Queries, table.Groups = append(table.Queries, fmt.Sprint("q", q)), append(table.Groups, fmt.Sprint("g", q))
		table.Quality, table.CostUSD = append(table.Quality, []float64{1}), append(table.CostUSD, []float64{1})
	}
	first, _ := table.SplitRows(0.5, 1)
	other, _ := table.SplitRows(0.5, 2)
	if len(first) != 20 || slices.Equal(first, other) {
		t.Errorf("halves of %d: %v and %v", len(first), first, other)
	}
}

func TestWidenKeepsEveryColumn(t *testing.T) {
	table := &outcome.Table{
		Models: []string{"a"}, Queries: []string{"q"}, Quality: [][]float64{{1}}, Answers: [][]string{{"x"}}, EstimatedInputTokens: [][]float64{{3}},
		Verdicts: map[string][][]float64{"judge": {{0}}}, Signals: map[string][][]float64{"score": {{2}}},
	}
	wide := table.Widen("a", "b")
	if got, want := fmt.Sprint(wide.Models, wide.Quality, wide.Answers, wide.Verdicts, wide.Signals, wide.EstimatedInputTokens, wide.CostUSD), "[a b] [[1 NaN]] [[x ]] map[judge:[[0 NaN]]] map[score:[[2 NaN]]] [[3 NaN]] []"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if len(table.Models) != 1 || len(table.Quality[0]) != 1 {
		t.Error("the table itself was changed")
	}
}

func TestSubsets(t *testing.T) {
	table := read(t, small)
	sub, err := table.Subset("large, small")
	if err != nil || sub.Quality[0][0] != 1 || sub.CostUSD[0][0] != 0.01 || sub.Answer(1, 1) != "five" {
		t.Errorf("subset %+v, error %v", sub, err)
	}
	for _, name := range []string{"tiny", "small,small", "11"} {
		if _, err := table.Subset(name); err == nil {
			t.Errorf("subset %q: no error", name)
		}
	}
}

func TestRealOutcomes(t *testing.T) {
	zeroeval := outcometest.Zeroeval(t, "11")
	if len(zeroeval.Models) != 11 || len(zeroeval.Queries) != 1421 || len(zeroeval.Complete().Queries) != 1421 || zeroeval.Prompt(1420) == "" {
		t.Errorf("%d models, %d queries", len(zeroeval.Models), len(zeroeval.Queries))
	}
	swebench := outcometest.Swebench(t)
	if len(swebench.Models) != 24 || len(swebench.Queries) != 252 || !swebench.Verified {
		t.Errorf("%d models, %d queries", len(swebench.Models), len(swebench.Queries))
	}
}

func TestAColumnSaysWhichAnswerItIs(t *testing.T) {
	table := read(t, "query_id,model,sample,quality,cost_usd\nq,small,1,0,1\nq,small,2,1,1\nq,large,,1,3\n")
	if got := fmt.Sprint(table.Models, table.Quality, table.SignalNames()); got != "[small small#2 large] [[0 1 1]] []" {
		t.Error(got)
	}
	for _, bad := range []string{"0", "1.5", "-2", "1e9", "x"} {
		_, err := outcome.Read(strings.NewReader("query_id,model,sample,quality\nq,small,"+bad+",0\n"), "runs.csv", outcome.Options{})
		if err == nil || !strings.Contains(err.Error(), `runs.csv:2: column "sample"`) {
			t.Errorf("sample %s: %v", bad, err)
		}
	}
}

// A judge's verdicts are 0 and 1: text is an error rather than a column to skip, and so is a column
// without any verdict.
func TestVerdictsThatCannotBeRead(t *testing.T) {
	const header = "query_id,model,quality,verdict_judge\n"
	for rows, want := range map[string]string{
		"a,small,1,1\nb,small,0,\n":            "",
		"a,small,1,passed\nb,small,0,failed\n": `:2: column "verdict_judge": "passed" is not a number: 1 is a pass, 0 a fail`,
		"a,small,1,0.7\nb,small,0,0\n":         "0.7 is no verdict",
		"a,small,1,\nb,small,0,NaN\n":          `:1: column "verdict_judge": no row has a verdict`,
	} {
		_, err := outcome.Read(strings.NewReader(header+rows), "runs.csv", outcome.Options{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", rows, err, want)
		}
	}
}

// A judge's own prices are not counted again in the total of all verdicts.
func TestVerdictCostsCountOnce(t *testing.T) {
	table := read(t, `query_id,model,quality,cost_usd,verdict_gate,gate_cost_usd,verdicts_cost_usd
a,small,1,0.001,1,0.25,0.5
a,large,1,0.01,1,,0.5
b,small,0,0.001,0,0.25,0.5
b,large,1,0.01,1,0.75,0.5
`)
	for judge, want := range map[string]string{"gate": "[[0.25 0.75] [0.25 0.75]]", "other": "[[0.5 0.5] [0.5 0.5]]"} {
		if got := fmt.Sprint(table.VerdictCosts(judge)); got != want {
			t.Errorf("verdicts of %s cost %s, want %s", judge, got, want)
		}
	}
}

// Spaces around names are ignored, as around the names of columns.
func TestSpacesAroundNames(t *testing.T) {
	table := read(t, "query_id, group,model ,quality\nq, g,small,1\n q ,g , large ,0\n")
	if len(table.Queries) != 1 || table.Index("large") < 0 || table.Group(0) != "g" {
		t.Errorf("queries %q, models %q, group %q", table.Queries, table.Models, table.Group(0))
	}
}

// JSON lines are read like CSV, and their errors name the line and use the terms of JSON.
func TestLinesOfJSON(t *testing.T) {
	good := `{"query_id": "q", "group": "g", "model": "small", "quality": 1, "verdict_judge": 1}` + "\n"
	for line, want := range map[string]string{
		`{" query_id ": " q ", "group": " g", "model": " large ", "quality": 0, "verdict_judge": 1}`: "",
		`[1]`:                "runs.jsonl:2: no JSON object",
		`null`:               "runs.jsonl:2: no JSON object",
		`{"query_id": "q`:    "runs.jsonl:2: no JSON object, which must end on the line",
		`{"query_id": "  "}`: `runs.jsonl:2: column "quality": missing`,
		`{"a": 1, " a ": 2}`: `runs.jsonl:2: column "a": named twice`,
		`{"query_id": "a", "model": "m", "quality": 1, "verdict_": 1}`:                 `runs.jsonl:2: column "verdict_": names no judge`,
		`{"query_id": "a", "model": "m", "quality": 1, "verdict_other": null}`:         `column "verdict_other": no row has a verdict`,
		`{"query_id": " ", "model": "m", "quality": 1}`:                                `runs.jsonl:2: column "query_id": empty`,
		`{"id": "t", "decisions": [], "calls": [{"model": "small", "cost_usd": "1"}]}`: `runs.jsonl:2: column "calls.cost_usd": a trace has no string there`,
		`{"id": "t", "decisions": [], "calls": {}}`:                                    `runs.jsonl:2: column "calls": a trace has no object there`,
	} {
		table, err := outcome.Read(strings.NewReader(good+line+"\n"), "runs.jsonl", outcome.Options{})
		switch {
		case want == "" && (err != nil || len(table.Queries) != 1 || table.Index("large") != 1 || table.Group(0) != "g"):
			t.Errorf("%s: %+v, %v", line, table, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Go ")):
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	for line, want := range map[string]string{
		`{"query_id": " q ", "prompt": "why"}`: "",
		`{"query_id": "q", "prompt": ["why"]}`: `:1: column "prompt": a list where a string is wanted`,
		`{"query_id": "other", "prompt": "?"}`: "no prompt of a query that has outcomes",
		`{"prompt": "why"}`:                    `:1: column "query_id": missing`,
		`[]`:                                   ":1: no JSON object",
	} {
		path := filepath.Join(t.TempDir(), "prompts.jsonl")
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		table, err := outcome.Read(strings.NewReader(good), "runs.jsonl", outcome.Options{Prompts: path})
		if want == "" && (err != nil || table.Prompt(0) != "why") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}
