package fit

import (
	"cmp"
	"encoding/csv"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/outcome/outcometest"
)

var armHalves = flag.Int("arms", 0, "number of halves on which to measure efforts and retries")

// TestMeasureArms prints the mean AUC on test halves of MCPMark, verified, of an index
// over one effort of each model, over all efforts, and over all efforts and retries:
//
//	go test ./sdk/fit -v -timeout 1h -run MeasureArms -args -arms 20
func TestMeasureArms(t *testing.T) {
	if *armHalves == 0 {
		t.Skip("measures on demand")
	}
	rows := armRows(mcpmarkRuns(t, 0).Models)
	gains := map[string][]float64{}
	for seed := range uint64(*armHalves) {
		train, test := mcpmarkRuns(t, seed).Split(0.5, seed)
		base, err := test.Select(rows["efforts"]...)
		if err != nil {
			t.Fatal(err)
		}
		linear := linearArea(base)
		for name, models := range rows {
			train, err := train.Select(models...)
			if err != nil {
				t.Fatal(err)
			}
			test, err := test.Select(models...)
			if err != nil {
				t.Fatal(err)
			}
			gains[name] = append(gains[name], area(base, fittedPoints(t, train, test, "auto", cascade.NameIndex, seed))-linear)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(gains)) {
		var own []float64
		for i, g := range gains[name] {
			own = append(own, g-gains["lowest"][i])
		}
		fmt.Printf("%-20s %2d candidates: %+.2f over the mix, %+.2f (worst %+.2f) over the lowest effort of each model\n", name, len(rows[name]), 100*average(gains[name]), 100*average(own), 100*slices.Min(own))
	}
}

// armRows are the candidates of each way to use efforts and tries.
func armRows(models []string) map[string][]string {
	level := func(name string) int { return slices.Index([]string{"low", "medium", "high"}, name) }
	byModel := map[string][]string{}
	rows := map[string][]string{}
	for _, name := range models {
		if !strings.HasSuffix(name, "#2") {
			model, _, _ := strings.Cut(name, "@")
			byModel[model] = append(byModel[model], name)
			rows["efforts"] = append(rows["efforts"], name)
		}
		rows["efforts tried twice"] = append(rows["efforts tried twice"], name)
	}
	for _, efforts := range byModel {
		slices.SortFunc(efforts, func(a, b string) int {
			_, one, _ := strings.Cut(a, "@")
			_, other, _ := strings.Cut(b, "@")
			return cmp.Compare(level(one), level(other))
		})
	}
	for _, name := range models {
		first, again := strings.CutSuffix(name, "#2")
		model, _, _ := strings.Cut(first, "@")
		efforts := byModel[model]
		if first == efforts[0] {
			rows["lowest tried twice"] = append(rows["lowest tried twice"], name)
			if !again {
				rows["lowest"] = append(rows["lowest"], name)
			}
		}
		if name == efforts[len(efforts)/2] {
			rows["middle"] = append(rows["middle"], name)
		}
		if name == efforts[len(efforts)-1] {
			rows["highest"] = append(rows["highest"], name)
		}
	}
	return rows
}

// mcpmarkRuns returns two runs of each model and effort on the tasks of MCPMark, in the
// table's names: MODEL@EFFORT, and MODEL@EFFORT#2 for the second.
func mcpmarkRuns(t *testing.T, seed uint64) *outcome.Table {
	t.Helper()
	f, err := os.Open(outcometest.File(t, "mcpmark_runs.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	table := &outcome.Table{Verified: true}
	place := map[string]int{}
	type run struct{ quality, cost float64 }
	runs := map[[2]string][]run{}
	for _, r := range rows[1:] {
		task, name := r[0], r[3]
		if r[4] != "" {
			name += "@" + r[4]
		}
		if _, known := place[task]; !known {
			place[task] = len(table.Queries)
			table.Queries, table.Groups = append(table.Queries, task), append(table.Groups, r[1])
		}
		if !slices.Contains(table.Models, name) {
			table.Models = append(table.Models, name)
		}
		quality, _ := strconv.ParseFloat(r[6], 64)
		cost, err := strconv.ParseFloat(r[9], 64)
		if err != nil || cost == 0 {
			cost = math.NaN()
		}
		runs[[2]string{task, name}] = append(runs[[2]string{task, name}], run{quality, cost})
	}
	rng := rand.New(rand.NewPCG(seed, 0xa4))
	for _, name := range slices.Clone(table.Models) {
		if len(runs[[2]string{table.Queries[0], name}]) > 1 {
			table.Models = append(table.Models, name+"#2")
		}
	}
	for _, task := range table.Queries {
		quality, cost := make([]float64, len(table.Models)), make([]float64, len(table.Models))
		for m, name := range table.Models {
			name, again := strings.CutSuffix(name, "#2")
			list := runs[[2]string{task, name}]
			if !again {
				rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			}
			r := list[0]
			if again {
				r = list[min(1, len(list)-1)]
			}
			quality[m], cost[m] = r.quality, r.cost
		}
		table.Quality, table.CostUSD = append(table.Quality, quality), append(table.CostUSD, cost)
	}
	means := table.MeanCosts()
	for _, row := range table.CostUSD {
		for m, c := range row {
			if math.IsNaN(c) {
				row[m] = means[m]
			}
		}
	}
	return table
}
