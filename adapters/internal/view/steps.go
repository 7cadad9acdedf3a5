package view

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

type stepsPage struct {
	frame
	Asked pageQuery
	Steps []store.Step
	Next  string // address of the next page
	// Back is the time down to which a text search got, if it stopped early.
	Back     time.Time
	Earlier  bool // this is not the first page
	Models   []string
	Order    []string
	Stops    []sdk.StopReason
	Outcomes []string
	Filtered bool
	Sorts    []string
	// Sorted is the number of newest steps that were sorted by an order other than time; 0 means by time.
	Sorted int
}

const pageOfSteps = 100

var allStops = []sdk.StopReason{sdk.StopNotWorth, sdk.StopExhausted, sdk.StopDepth, sdk.StopBudget, sdk.StopDeadline, sdk.StopRefused, sdk.StopError}

func (v *viewer) steps(ctx context.Context, q url.Values) (*stepsPage, error) {
	a, err := readQuery(q)
	if err != nil {
		return nil, err
	}
	if before := q.Get("before"); before != "" {
		ns, err := strconv.ParseInt(before, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: before=%q", errBadQuery, before)
		}
		seq, _ := strconv.ParseInt(q.Get("seq"), 10, 64)
		a.Before = &store.Step{Start: time.Unix(0, ns).UTC(), ID: q.Get("id"), Seq: seq}
	}
	p, err := v.makeSteps(ctx, a, pageOfSteps)
	if err != nil {
		return nil, err
	}
	var last *store.Step
	if len(p.Steps) == pageOfSteps && p.Sorted == 0 {
		last = &p.Steps[len(p.Steps)-1]
	} else if !p.Back.IsZero() {
		last = &store.Step{Start: p.Back.Add(-1), Seq: math.MaxInt64} // older steps
	}
	if last != nil {
		next := maps.Clone(q)
		next.Set("before", strconv.FormatInt(last.Start.UnixNano(), 10))
		next.Set("id", last.ID)
		next.Set("seq", strconv.FormatInt(last.Seq, 10))
		p.Next = "steps?" + next.Encode()
	}
	return p, nil
}

func (v *viewer) makeSteps(ctx context.Context, a pageQuery, limit int) (p *stepsPage, err error) {
	p = &stepsPage{
		frame: v.frame("steps", "Steps", a.Before == nil), Asked: a, Earlier: a.Before != nil,
		Stops: allStops, Sorts: slices.Sorted(maps.Keys(stepOrders)), Outcomes: []string{sdk.Passed.String(), sdk.Failed.String(), sdk.Inconclusive.String()},
	}
	f := a.Filter
	f.Limit = limit
	if order := stepOrders[a.Sort]; order != nil && v.export == nil {
		f.Limit = 10 * limit
		if p.Steps, err = v.o.Traces.Steps(ctx, f); err == nil {
			p.Sorted = len(p.Steps)
			slices.SortStableFunc(p.Steps, order)
			p.Steps = p.Steps[:min(limit, len(p.Steps))]
		}
	} else if f.Text != "" && f.Run == "" && f.Session == "" && f.Query == "" {
		p.Steps, p.Back, err = v.search(ctx, f)
	} else {
		p.Steps, err = v.o.Traces.Steps(ctx, f)
	}
	if err != nil {
		return nil, err
	}
	if p.Models, err = v.models(ctx); err != nil {
		return nil, err
	}
	p.Order = p.Models
	f.Before, f.Limit = nil, 0
	p.Filtered = f != (store.Filter{})
	return p, nil
}

// stepOrders are the orders of a list of steps other than by time, all descending.
var stepOrders = map[string]func(a, b store.Step) int{
	"cost": func(a, b store.Step) int { return cmp.Compare(b.CostUSD, a.CostUSD) },
	"time": func(a, b store.Step) int { return cmp.Compare(b.Duration, a.Duration) },
	"tokens": func(a, b store.Step) int {
		return cmp.Compare(b.InputTokens+b.OutputTokens, a.InputTokens+a.OutputTokens)
	},
	"calls": func(a, b store.Step) int { return cmp.Compare(b.Calls, a.Calls) },
}

// models returns the names of all models that were asked: those of the newest steps first, by expected cost.
func (v *viewer) models(ctx context.Context) ([]string, error) {
	traces, err := v.sampler.newest(ctx, store.Filter{}, 20)
	if err != nil {
		return nil, err
	}
	names := candidates(traces)
	sums, err := v.o.Traces.Sums(ctx, []store.Dimension{store.ByModel}, store.Filter{})
	if err != nil {
		return nil, err
	}
	for i := range sums {
		if name := sums[i].Model; name != "" && sums[i].Calls > 0 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}
