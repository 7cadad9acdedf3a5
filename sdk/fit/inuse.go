package fit

import (
	"context"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/replay"
)

// asked holds the models that a strategy asks on each query, by its name.
type asked map[string][]int

// refits is how often a profile is fitted again to the costs that follow from the caches which its strategy leaves.
const refits = 2

// fitInUse fits a profile to the costs that calls have in use: how much of a prompt a model finds in its cache depends on
// which models the strategy asked in the steps before, and that on the costs.
func fitInUse(ctx context.Context, t *outcome.Table, o Options, fit func(context.Context, *outcome.Table, Options) (*Profile, asked, error)) (*Profile, error) {
	p, models, err := fit(ctx, t, o)
	caches := t.Caches()
	if err != nil || caches == nil {
		return p, err
	}
	hash := p.Data.SHA256
	for range refits {
		if o.Progress != nil {
			o.Progress("fitting again: how much of its prompt a model finds in its cache depends on who answered before")
		}
		inUse := caches.TableIf(func(q, m int) bool {
			if known, isReplayed := models[t.Queries[q]]; isReplayed {
				return slices.Contains(known, m)
			}
			return !math.IsNaN(outcome.At(t.InputTokens, q, m))
		})
		if p, models, err = fit(ctx, inUse, o); err != nil {
			return nil, err
		}
		p.Data.SHA256 = hash
	}
	return p, nil
}

// setCached sets what caches save on average.
func setCached(models []Model, t *outcome.Table) {
	if t.CachedUSD == nil {
		return
	}
	for m, usd := range (&outcome.Table{Models: t.Models, CostUSD: t.CachedUSD}).MeanCosts() {
		if usd > 0 {
			models[m].CachedUSD = usd
		}
	}
}

// askedModels replays a strategy.
func askedModels(s cascade.Strategy, t *outcome.Table, source *estimate.Replay) asked {
	models := asked{}
	for q, name := range t.Queries {
		step := replay.NewWalker(source.Start(q), t.Quality[q], t.CostUSD[q]).Walk(s, 0.5, nil)
		models[name] = slices.DeleteFunc(slices.Clone(step.Seen), func(mark int) bool { return mark >= len(t.Models) })
	}
	return models
}
