package outcome

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// leaderboard has the fields used of a SWE-bench leaderboard. There is one result for
// each submission; only those with details by instance are used.
type leaderboard struct {
	Name    string   `json:"name"`
	Results []result `json:"results"`
}

type result struct {
	Name    string                     `json:"name"`
	Date    string                     `json:"date"`
	Folder  string                     `json:"folder"`
	Details map[string]json.RawMessage `json:"per_instance_details"`
}

type instance struct {
	Resolved *bool    `json:"resolved"`
	Cost     *float64 `json:"cost"`
	Calls    *float64 `json:"api_calls"`
}

func (b *builder) readLeaderboards(r io.Reader, name string) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return &Error{File: name, Err: err}
	}
	var file struct {
		Leaderboards []leaderboard `json:"leaderboards"`
		Results      []result      `json:"results"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return &Error{File: name, Err: err}
	}
	found := 0
	for _, board := range append(file.Leaderboards, leaderboard{Results: file.Results}) {
		for _, r := range board.Results {
			if len(r.Details) == 0 {
				continue
			}
			found++
			if err := b.addResult(b.submission(board.Name, &r), &r, name); err != nil {
				return err
			}
		}
	}
	if found == 0 {
		return &Error{File: name, Err: errors.New("no result has per_instance_details")}
	}
	return nil
}

// addResult adds the instances of a result.
func (b *builder) addResult(model string, r *result, name string) error {
	for _, id := range slices.Sorted(maps.Keys(r.Details)) {
		place := fmt.Sprintf("per_instance_details of %q, %s", r.Name, id)
		var one instance
		if err := json.Unmarshal(r.Details[id], &one); err != nil {
			return &Error{File: name, Column: place, Err: err}
		}
		c := cell{query: id, group: repository(id), model: model, numbers: map[string]float64{
			colCost: unknownAsNaN(one.Cost), "api_calls": unknownAsNaN(one.Calls),
		}}
		if one.Resolved != nil {
			c.numbers[colQuality] = oneIf(*one.Resolved)
		}
		if f := b.add(&c); f != nil {
			return &Error{File: name, Column: place, Err: f.err}
		}
	}
	return nil
}

// submission returns a unique model name for a result, since a model can be submitted several times.
func (b *builder) submission(board string, r *result) string {
	name := r.Name
	for _, more := range []string{r.Date, r.Folder, board} {
		if _, taken := b.models[name]; !taken {
			break
		}
		if more != "" {
			name = fmt.Sprintf("%s (%s)", r.Name, more)
		}
	}
	return name
}

// repository returns the repository in the name of an instance such as astropy__astropy-13033.
func repository(instance string) string {
	name := instance
	if i := strings.LastIndex(instance, "-"); i > 0 {
		name = instance[:i]
	}
	return strings.Replace(name, "__", "/", 1)
}

func unknownAsNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// leastCoverage is the share of the instances that a model must have runs of to be included, since missing
// ones count as failures.
const leastCoverage = 0.97

// agentRun is one instance of an OpenHands index file: results/MODEL/
// instance_results/BENCHMARK.json is an object of these by instance. No run was free: a
// cost of 0 was not recorded, like null.
type agentRun struct {
	Resolved bool     `json:"resolved"`
	Cost     *float64 `json:"cost"`
}

func (r agentRun) hasCost() bool { return r.Cost != nil && *r.Cost != 0 && !math.IsNaN(*r.Cost) }

// readEach reads the files that match a pattern with one star, which stands for the model.
// A missing or zero cost becomes the model's mean, and a missing instance a failure at that
// cost; models with too few instances are left out.
func (b *builder) readEach(pattern string) error {
	pattern = filepath.Clean(pattern) // as Glob returns clean paths
	models, all, err := readRuns(pattern)
	if err != nil {
		return err
	}
	maps.DeleteFunc(models, func(_ string, runs map[string]agentRun) bool {
		_, isKnown := meanCost(runs)
		return float64(len(runs)) < leastCoverage*float64(len(all)) || !isKnown
	})
	if len(models) == 0 {
		return &Error{File: pattern, Err: errors.New("no model was run on nearly all instances with known costs")}
	}
	for _, model := range slices.Sorted(maps.Keys(models)) {
		mean, _ := meanCost(models[model])
		for _, id := range all {
			run, usd := models[model][id], mean
			if run.hasCost() {
				usd = *run.Cost
			}
			c := cell{query: id, group: repository(id), model: model, numbers: map[string]float64{colQuality: oneIf(run.Resolved), colCost: usd}}
			if f := b.add(&c); f != nil {
				return &Error{File: pattern, Column: model + ", " + id, Err: f.err}
			}
		}
	}
	return nil
}

// readRuns reads the runs of each model and returns the names of all instances, sorted.
func readRuns(pattern string) (models map[string]map[string]agentRun, all []string, err error) {
	paths, err := filepath.Glob(pattern)
	if err == nil && len(paths) == 0 {
		err = os.ErrNotExist
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading outcomes %s: %w", pattern, err)
	}
	before, after, _ := strings.Cut(pattern, "*")
	models = map[string]map[string]agentRun{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("reading outcomes: %w", err)
		}
		var runs map[string]agentRun
		if err := json.Unmarshal(data, &runs); err != nil {
			return nil, nil, &Error{File: path, Err: err}
		}
		models[strings.TrimSuffix(strings.TrimPrefix(path, before), after)] = runs
		all = slices.AppendSeq(all, maps.Keys(runs))
	}
	slices.Sort(all)
	return models, slices.Compact(all), nil
}

// meanCost returns the mean of the known costs, and false if there are none.
func meanCost(runs map[string]agentRun) (float64, bool) {
	sum, n := 0.0, 0.0
	for _, id := range slices.Sorted(maps.Keys(runs)) {
		if run := runs[id]; run.hasCost() {
			sum, n = sum+*run.Cost, n+1
		}
	}
	return sum / n, n > 0
}

// The columns of RouterBench's wide tables. Each model has a column of its name with the
// quality, and two more with these suffixes.
const (
	wideID       = "sample_id"
	widePrompt   = "prompt"
	wideGroup    = "eval_name"
	wideResponse = "|model_response"
	wideCost     = "|total_cost"
)

// isRouterBench detects RouterBench's wide layout by its header.
func isRouterBench(header []string) bool {
	return slices.Contains(header, wideID) && slices.ContainsFunc(header, func(c string) bool { return strings.HasSuffix(c, wideCost) })
}

// readRouterBench reads the rows of a wide table, one per query.
func (b *builder) readRouterBench(rows *csv.Reader, header []string, name string) error {
	models := slices.DeleteFunc(slices.Clone(header), func(column string) bool { return !strings.HasSuffix(column, wideCost) })
	for i, column := range models {
		if models[i] = strings.TrimSuffix(column, wideCost); !slices.Contains(header, models[i]) {
			return &Error{File: name, Row: 1, Column: models[i], Err: fmt.Errorf("missing: the quality of the model of column %q", column)}
		}
	}
	return eachRecord(rows, name, func(line int, record []string) error {
		value := map[string]string{}
		for i, column := range slices.Backward(header) { // of duplicate names the first counts
			value[column] = record[i]
		}
		for _, m := range models {
			c := cell{query: value[wideID], model: m, prompt: value[widePrompt], group: value[wideGroup], answer: value[m+wideResponse], numbers: map[string]float64{}}
			for _, x := range [...]struct{ column, from string }{{colQuality, m}, {colCost, m + wideCost}} {
				v, err := number(strings.TrimSpace(value[x.from]))
				if err != nil {
					return &Error{File: name, Row: line, Column: x.from, Err: err}
				}
				c.numbers[x.column] = v
			}
			if f := b.add(&c); f != nil {
				return &Error{File: name, Row: line, Column: m, Err: f.err}
			}
		}
		return nil
	})
}
