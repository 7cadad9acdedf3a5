package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// changes is the result of replaying steps with changes of the policy.
type changes struct {
	Policy string // its path
	Steps  int
	At     time.Time
	// Judged counts the steps whose answers have a verdict under every policy that was tried.
	Judged int
	// USD is the mean cost of a step under the current policy.
	USD float64
	// List holds the changes that are expected to pay, the best first; Others counts the other changes tried.
	List   []policyChange
	Others int
	Fitted bool
	Err    string
}

type policyChange struct {
	Sets []string
	forecast.Difference
	// Share is the difference in cost relative to the current cost.
	Share float64
}

// Flags returns the arguments of stepfall policy plan for the change.
func (c *policyChange) Flags() string {
	return "--set '" + strings.Join(c.Sets, "' --set '") + "'"
}

func (c *policyChange) Kind() string {
	switch {
	case c.Quality > 2*c.QualityStdError && c.USD < 0:
		return "better and cheaper"
	case c.Quality > 2*c.QualityStdError:
		return "better"
	}
	return "cheaper"
}

// pays reports whether the change is significantly cheaper at about the same quality, or significantly better.
func (c *policyChange) pays() bool {
	const point = 0.01
	low := c.Quality - 2*c.QualityStdError
	return c.USD < -2*c.USDStdError && c.Quality > -point/2 && low > -2*point || low > 0 && c.Quality > point/2
}

const mostChanges = 5

// changesTried returns the settings to replay: enforcing where the policy does not, other prices of quality, a single
// model per step, and each model left out.
func changesTried(p *policies.Policy) (tried [][]string) {
	var enforce []string
	if p.Mode != string(middleware.Enforce) {
		enforce = []string{"mode=" + string(middleware.Enforce)}
		tried = append(tried, enforce)
	}
	add := func(name string, value any) {
		sets := append(slices.Clone(enforce), fmt.Sprintf("strategy.%s.%s=%v", p.Strategy.Kind, name, value))
		if !slices.ContainsFunc(tried, func(other []string) bool { return slices.Equal(other, sets) }) {
			tried = append(tried, sets)
		}
	}
	s := &p.Strategy
	if p.Fit == nil {
		addPrices(s, add)
	}
	if s.MaxDepth != 1 && s.Kind != "route" {
		add("max_depth", 1)
	}
	if p.Fit == nil && slices.Contains([]string{"threshold", "cascade", "cascade_route"}, s.Kind) {
		addOrders(p, add)
	}
	return tried
}

// addPrices adds other prices of quality, and other thresholds.
func addPrices(s *policies.Strategy, add func(name string, value any)) {
	for _, factor := range []float64{0.25, 0.5, 2, 4} {
		switch {
		case s.WorthUSD > 0:
			add("worth_usd", formatRounded(s.WorthUSD*factor))
		case len(s.Lambda) > 0 && slices.Max(s.Lambda) > 0:
			add("lambda", listOf(s.Lambda, func(v float64) float64 { return v * factor }))
		}
	}
	for _, shift := range []float64{-0.2, -0.1, 0.1, 0.2} {
		if len(s.Threshold) > 0 {
			add("threshold", listOf(s.Threshold, func(v float64) float64 { return min(max(v+shift, 0), 1) }))
		}
	}
}

// addOrders adds, for three to six models, the order without each one of them.
func addOrders(p *policies.Policy, add func(name string, value any)) {
	names := p.Strategy.Order
	if len(names) == 0 {
		for i := range p.Models {
			names = append(names, p.Models[i].Name)
		}
	}
	if len(names) < 3 || len(names) > 6 {
		return
	}
	for i := range names {
		var rest []string
		for _, name := range slices.Delete(slices.Clone(names), i, i+1) {
			rest = append(rest, strconv.Quote(name))
		}
		add("order", "["+strings.Join(rest, ", ")+"]")
	}
}

func formatRounded(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

func listOf(values []float64, change func(float64) float64) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = formatRounded(change(v))
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

func tryChanges(ctx context.Context, load func(sets ...string) (*policies.Policy, error), traces []*sdk.Trace) *changes {
	w := &forecast.Traces{Seed: 1}
	for _, t := range traces {
		w.Add(t)
	}
	c := &changes{At: time.Now(), Steps: len(w.Steps)}
	p, err := load()
	var base *forecast.Forecast
	if err == nil {
		c.Policy, c.Fitted = p.Path, p.Fit != nil
		base, err = forecast.New(ctx, p, w, forecast.Options{Seed: 1})
	}
	if err != nil {
		c.Err = err.Error()
		return c
	}
	c.USD, c.Judged = base.CostUSD, c.Steps
	for _, sets := range changesTried(p) {
		c.Others++
		other, err := load(sets...)
		if err != nil {
			continue // the setting does not apply to the policy
		}
		f, err := forecast.New(ctx, other, w, forecast.Options{Seed: 1})
		if err != nil {
			c.Err = err.Error()
			return c
		}
		one := policyChange{Sets: sets, Difference: f.Minus(base)}
		c.Judged = min(c.Judged, one.Judged)
		if base.CostUSD > 0 {
			one.Share = one.USD / base.CostUSD
		}
		if one.pays() {
			c.List = append(c.List, one)
		}
	}
	// Cheaper changes first, by what they save, the better of equals first; then those that are only better, by how
	// much.
	slices.SortStableFunc(c.List, func(a, b policyChange) int {
		return cmp.Or(cmp.Compare(min(a.USD, 0), min(b.USD, 0)), cmp.Compare(b.Quality, a.Quality))
	})
	c.List = c.List[:min(len(c.List), mostChanges)]
	c.Others -= len(c.List)
	return c
}

// replayer tries changes in the background, for one filter at a time, at most once a minute.
type replayer struct {
	running singleflight.Group

	mu   sync.Mutex
	key  string
	last *changes
}

const (
	// replayAge is how long a result is reused although there may be newer steps.
	replayAge = time.Minute
	// replayWait is how long a page waits for a replay; a later page load shows the result.
	replayWait = 300 * time.Millisecond
)

// changes returns the latest result for the key, and starts another replay if it is stale. Without a result it waits
// up to wait, and returns nil if there still is none.
func (r *replayer) changes(load func(sets ...string) (*policies.Policy, error), key string, traces []*sdk.Trace, wait time.Duration) *changes {
	last := r.newest(key)
	if last != nil && time.Since(last.At) <= replayAge {
		return last
	}
	done := r.running.DoChan("", func() (any, error) {
		result := tryChanges(context.Background(), load, traces)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.key, r.last = key, result
		return nil, nil
	})
	if last == nil {
		select {
		case <-done:
		case <-time.After(wait):
		}
	}
	return r.newest(key)
}

// newest returns the latest result, or nil if it is for another key.
func (r *replayer) newest(key string) *changes {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.key != key {
		return nil
	}
	return r.last
}
