package outcome

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
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
