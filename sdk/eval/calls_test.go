package eval_test

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/replay"
)

// recordedCalls reads function calls of the named models, or of all, with the call in canonical form as
// the answer. This is third-party data, and the test is skipped without it.
func recordedCalls(t *testing.T, models ...string) *outcome.Table {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", "bfcl_calls.csv.gz"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no recorded calls")
	} else if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(unzipped).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	if len(models) == 0 { // those of the first query
		for _, row := range rows[1:] {
			if row[column["query_id"]] == rows[1][column["query_id"]] {
				models = append(models, row[column["model"]])
			}
		}
	}
	table := &outcome.Table{Models: models}
	place := map[string]int{}
	for _, row := range rows[1:] {
		m := table.Index(row[column["model"]])
		if m < 0 {
			continue
		}
		id := row[column["query_id"]]
		q, known := place[id]
		if !known {
			q = len(table.Queries)
			place[id] = q
			table.Queries = append(table.Queries, id)
			table.Groups = append(table.Groups, row[column["group"]])
			table.Quality = append(table.Quality, make([]float64, len(models)))
			table.CostUSD = append(table.CostUSD, make([]float64, len(models)))
			table.Answers = append(table.Answers, make([]string, len(models)))
		}
		table.Quality[q][m], _ = strconv.ParseFloat(row[column["quality"]], 64)
		table.CostUSD[q][m], _ = strconv.ParseFloat(row[column["cost_usd"]], 64)
		table.Answers[q][m] = row[column["call"]]
		if kind := row[column["kind"]]; (kind == "late" || kind == "bad") && !strings.HasPrefix(table.Answers[q][m], "!") {
			table.Answers[q][m] = "!" + table.Answers[q][m]
		}
	}
	return table
}

// likeReference returns the table with agreement with one model's call as its quality.
func likeReference(t *outcome.Table, reference int) *outcome.Table {
	c := *t
	c.Quality = make([][]float64, len(t.Quality))
	for q, row := range t.Answers {
		c.Quality[q] = make([]float64, len(row))
		for m, answer := range row {
			if answer == row[reference] {
				c.Quality[q][m] = 1
			}
		}
	}
	return &c
}

var elevenCallers = []string{
	"gpt-4o-mini-2024-07-18-FC", "gpt-4o-mini-2024-07-18", "gemini-1.5-flash-preview-0514", "open-mistral-nemo-2407-FC-Auto", "gpt-3.5-turbo-0125-FC", "claude-3-haiku-20240307",
	"gemini-1.5-pro-preview-0514", "gpt-4o-2024-08-06-FC", "gpt-4o-2024-05-13-FC", "claude-3-5-sonnet-20240620", "gpt-4-turbo-2024-04-09",
}

// If calls can be compared, an index fitted to half of them beats the linear mix of the models
// on the other half, and reaches the best model's quality at a fraction of its price: fitted
// to the truth and, less so, to the reference's calls alone.
func TestFittedToCallsThatCanBeCompared(t *testing.T) {
	table := recordedCalls(t, elevenCallers...)
	const halves = 5
	likeSonnet := likeReference(table, table.Index("claude-3-5-sonnet-20240620"))
	likeSonnet.Reference, likeSonnet.Labels = "claude-3-5-sonnet-20240620", "agreement with claude-3-5-sonnet-20240620"
	likeAll, err := estimate.Consensus(likeSonnet)
	if err != nil {
		t.Fatal(err)
	}
	// How often models are right is told within seven points, without any truth.
	told, truth := likeAll.MeanQualities(), table.MeanQualities()
	for m, name := range table.Models {
		if math.Abs(told[m]-truth[m]) > 0.07 {
			t.Errorf("%s: %.3f by agreement, %.3f in truth", name, told[m], truth[m])
		}
	}
	for _, test := range []struct {
		name        string
		labels      *outcome.Table
		gain, share float64
	}{{"truth", nil, 1.8, 0.2}, {"reference", likeAll, 1.5, 0.25}} {
		gain, share := 0.0, 0.0
		for seed := range uint64(halves) {
			train, test1 := table.SplitRows(0.5, seed+1)
			h, err := eval.NewHalves(table.Rows(train), table.Rows(test1), false)
			if err != nil {
				t.Fatal(err)
			}
			s := &eval.Study{Halves: h, Signals: eval.SignalsFeatures, Strategies: []string{"linear_interpolation", "index"}, Seed: seed + 1}
			if test.labels != nil {
				s.Verdicts = &eval.Verdicts{Train: test.labels.Rows(train), Test: test.labels.Rows(test1)}
			}
			c, err := s.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			index, linear := c.Rows[slices.IndexFunc(c.Rows, named("index"))], c.Rows[slices.IndexFunc(c.Rows, named("linear_interpolation"))]
			gain += 100 * (index.AUC - linear.AUC) / float64(halves)
			share += index.CostAtBest / c.Frame.Models[c.Frame.Best].Cost / float64(halves)
		}
		t.Logf("%s: %+.2f points of AUC, the best model's quality at %.2f of its cost", test.name, gain, share)
		if gain < test.gain || share > test.share {
			t.Errorf("%s: %+.2f points of AUC, the best model's quality at %.2f of its cost; want %+.2f and %.2f", test.name, gain, share, test.gain, test.share)
		}
	}
}

func named(name string) func(r *eval.Row) bool {
	return func(r *eval.Row) bool { return r.Name == name }
}

// Without any outcomes, the agreement of two cheap models of different makers is accepted,
// and the large one is called if they differ. Over all triples of 51 models this is hardly
// ever worse than the large model, unless that is far better than both.
func TestPairsOfCallsWithoutOutcomes(t *testing.T) {
	const (
		gap   = 0.08 // by how much the large model may be better than each cheap one
		ratio = 5    // how many times dearer it is than each
	)
	if testing.Short() {
		t.Skip("a measurement")
	}
	all := recordedCalls(t)
	quality, cost := all.MeanQualities(), all.MeanCosts()
	maker := func(m int) string {
		name, _, _ := strings.Cut(strings.TrimPrefix(all.Models[m], "open-"), "-")
		return strings.NewReplacer("mixtral", "mistral").Replace(name)
	}
	triples, worse, gain, share := 0, 0, 0.0, 0.0
	for l := range all.Models {
		for a := range all.Models {
			for b := range a {
				if maker(a) == maker(b) || cost[l] < ratio*max(cost[a], cost[b]) || quality[l] < max(quality[a], quality[b]) || quality[l]-min(quality[a], quality[b]) > gap {
					continue
				}
				triples++
				q, c := pairOutcome(t, all, a, b, l)
				gain += 100 * (q - quality[l])
				share += c / cost[l]
				if q < quality[l]-0.01 {
					worse++
				}
			}
		}
	}
	n := float64(triples)
	t.Logf("%d triples: %+.2f points at %.2f of the large model's cost, %d worse by more than a point", triples, gain/n, share/n, worse)
	if triples < 150 || float64(worse) > 0.02*n || gain/n < 1 || share/n > 0.6 {
		t.Errorf("%d triples: %+.2f points at %.2f of the large model's cost, %d worse by more than a point", triples, gain/n, share/n, worse)
	}
}

// pairOutcome returns the mean quality and cost of calling two models, and a third if the
// best estimate stays below a threshold.
func pairOutcome(t *testing.T, all *outcome.Table, models ...int) (quality, cost float64) {
	t.Helper()
	names, priced := make([]string, len(models)), make([]sdk.Model, len(models))
	costs := all.MeanCosts()
	for i, m := range models {
		names[i] = all.Models[m]
		priced[i] = sdk.Model{Name: names[i], Price: sdk.Price{Output: costs[m]}}
	}
	table, err := all.Select(names...)
	if err != nil {
		t.Fatal(err)
	}
	beliefs, err := estimate.OfPriors(priced, make([]float64, len(models))).On(table)
	if err != nil {
		t.Fatal(err)
	}
	strategy, err := cascade.New(cascade.NameThreshold, cascade.Params{Thresholds: []float64{0.9}})
	if err != nil {
		t.Fatal(err)
	}
	return walked(table, beliefs, strategy)
}

// A pair chosen by the reference model's calls on only 100 or 200 steps costs well under half
// as much and is right at least as often, on unseen steps.
func TestPairOfShadowedCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("a measurement")
	}
	const halves = 20
	table := recordedCalls(t, elevenCallers...)
	for _, reference := range []string{"claude-3-5-sonnet-20240620", "gpt-4-turbo-2024-04-09", "gpt-4o-2024-05-13-FC"} {
		r := table.Index(reference)
		labelled := likeReference(table, r)
		labelled.Labels, labelled.Reference = "agreement with "+reference, reference
		for _, steps := range []int{100, 200} {
			gain, share, worst, refused := 0.0, 0.0, math.Inf(1), 0
			for seed := range uint64(halves) {
				train, unseen := table.SplitRows(float64(steps)/float64(len(table.Queries)), seed+1)
				p, err := fit.Pair(t.Context(), labelled.Rows(train), fit.Options{Seed: 1})
				if none := new(fit.PairError); errors.As(err, &none) {
					refused++
					continue
				} else if err != nil {
					t.Fatal(err)
				}
				rest := table.Rows(unseen)
				beliefs, err := p.Estimator.On(rest)
				if err != nil {
					t.Fatal(err)
				}
				s, err := p.NewStrategy(rest.Models)
				if err != nil {
					t.Fatal(err)
				}
				quality, cost := walked(rest, beliefs, s)
				points := 100 * (quality - rest.MeanQualities()[r])
				gain += points
				worst = min(worst, points)
				share += cost / rest.MeanCosts()[r]
			}
			n := float64(halves - refused)
			t.Logf("%d steps of %s: %+.2f points (worst %+.2f) at %.2f of its cost; refused %d of %d", steps, reference, gain/n, worst, share/n, refused, halves)
			if refused > halves/5 || gain/n < 0 || share/n > 0.5 {
				t.Errorf("%d steps of %s: %+.2f points (worst %+.2f) at %.2f of its cost; refused %d of %d", steps, reference, gain/n, worst, share/n, refused, halves)
			}
		}
	}
}

// walked returns the mean quality and cost of a strategy on a table.
func walked(t *outcome.Table, beliefs *estimate.Replay, s cascade.Strategy) (quality, cost float64) {
	for q := range t.Queries {
		step := replay.NewWalker(beliefs.Start(q), t.Quality[q], t.CostUSD[q]).Walk(s, 0.5, nil)
		quality += step.Quality / float64(len(t.Queries))
		cost += step.CostUSD / float64(len(t.Queries))
	}
	return quality, cost
}

// Strategies see the columns of verdicts, and are measured by the qualities.
func TestVerdictColumns(t *testing.T) {
	table := &outcome.Table{Models: []string{"small", "large"}, Verdicts: map[string][][]float64{"gate": nil}}
	for q := range 200 {
		small := float64(min(q%3, 1))
		table.Queries = append(table.Queries, fmt.Sprint("q", q))
		table.Quality, table.CostUSD = append(table.Quality, []float64{small, 1}), append(table.CostUSD, []float64{1, 10})
		table.Verdicts["gate"] = append(table.Verdicts["gate"], []float64{small, 1})
	}
	train, test := table.Split(0.5, 1)
	h, err := eval.NewHalves(train, test, false)
	if err != nil {
		t.Fatal(err)
	}
	s := &eval.Study{Halves: h, Strategies: []string{"linear_interpolation", "index"}}
	c, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	index := c.Rows[slices.IndexFunc(c.Rows, named("index"))]
	// The judge is right: the large model is asked where the small one fails, on a third.
	if want := 1 + 10.0/3; math.Abs(index.CostAtBest-want) > 0.5 {
		t.Errorf("the large model's quality at a cost of %v, want %v", index.CostAtBest, want)
	}
	if note := c.Setup["estimates"]; !strings.Contains(note, "gate") || !strings.Contains(note, estimate.KindLatent) {
		t.Errorf("estimates by %q", note)
	}
}
