package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// change is what another policy is expected to do with the steps.
type change struct {
	// What is the change, in words of the policy.
	What          string
	CostUSD, Mean float64
	// CostShare is its cost beside the present one, less 1; Points the difference in quality.
	CostShare, Points float64
	// Value is what it is worth, in quality per step: the difference in quality less
	// lambda times the difference in cost.
	Value float64
}

// changes lets the steps be decided anew by policies that differ from the present one in
// one thing: its lambda, its strategy, one model less. The most valuable come first. It
// returns what it has when ctx ends.
func changes(ctx context.Context, qs []*question, now *prospect, off float64) (list []change) {
	try := func(what string, decide func(*question) (cascade.Strategy, error), without string) {
		if ctx.Err() != nil {
			return
		}
		p, ok := expected(qs, decide, without)
		if !ok {
			return
		}
		p.CostUSD *= off
		c := change{What: what, CostUSD: p.CostUSD, Mean: p.Mean, Points: p.Mean - now.Mean, Value: p.Mean - now.Mean - now.Knob*(p.CostUSD-now.CostUSD)}
		if now.CostUSD > 0 {
			c.CostShare = p.CostUSD/now.CostUSD - 1
		}
		if c.CostShare != 0 || c.Points != 0 {
			list = append(list, c)
		}
	}
	for _, name := range []string{cascade.NameRoute, cascade.NameIndex, cascade.NameCascadeRoute} {
		if name != qs[0].trace.Strategy {
			try(fmt.Sprintf("strategy %q", name), func(q *question) (cascade.Strategy, error) { return q.by(name) }, "")
		}
	}
	for i := range qs[0].decision.Models {
		if name := qs[0].decision.Models[i].Model; len(qs[0].decision.Models) > 2 {
			try("without the model "+plain(name), nil, name)
		}
	}
	for _, factor := range []float64{0.25, 0.5, 2, 4} {
		try(fmt.Sprintf("lambda times %g, about %s", factor, lambda(factor*now.Knob)),
			func(q *question) (cascade.Strategy, error) { return q.at(factor * q.knob()) }, "")
	}
	slices.SortStableFunc(list, func(a, b change) int { return cmp.Compare(b.Value, a.Value) })
	return list
}

// by returns another strategy with the numbers of the one that decided.
func (q *question) by(name string) (cascade.Strategy, error) {
	setting := q.setting
	setting.Name = name
	names := make([]string, len(q.decision.Models))
	for i := range names {
		names[i] = q.decision.Models[i].Model
	}
	return setting.Strategy(names)
}
