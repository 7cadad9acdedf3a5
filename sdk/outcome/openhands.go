package outcome

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
