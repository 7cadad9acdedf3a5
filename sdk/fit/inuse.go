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

// modelsAsked holds the models that a strategy asks on each query, by its name.
type modelsAsked map[string][]int

// refits is how often a profile is fitted again to the costs that follow from the caches which its strategy leaves.
const refits = 2

// goldenRatio spreads coins evenly.
const goldenRatio = math.Phi - 1

// fitInUse fits a profile to the costs that calls have in use: how much of a prompt a model finds in its cache depends on
// which models the strategy asked in the steps before, and that on the costs.
func fitInUse(ctx context.Context, t *outcome.Table, o Options, fit func(context.Context, *outcome.Table, Options) (*Profile, modelsAsked, error)) (*Profile, error) {
	if o.caches = t.Caches(); o.caches == nil {
		p, _, err := fit(ctx, t, o)
		return p, err
	}
	o.always = t.AlwaysUSD()
	p, models, err := fit(ctx, t, o)
	if err != nil {
		return nil, err
	}
	hash := p.Data.SHA256
	for range refits {
		if o.Progress != nil {
			o.Progress("fitting again: how much of its prompt a model finds in its cache depends on who answered before")
		}
		inUse := o.caches.TableIf(func(q, m int) bool {
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

// setCached sets what caches save on average, and on the first call in a run.
func (o *Options) setCached(models []Model, t *outcome.Table) {
	if t.CachedUSD == nil {
		return
	}
	for m, usd := range (&outcome.Table{Models: t.Models, CostUSD: t.CachedUSD}).MeanCosts() {
		if !(usd > 0) {
			continue
		}
		models[m].CachedUSD, models[m].FirstUSD = usd, usd
		if o.caches != nil {
			models[m].FirstUSD = o.caches.FirstUSD(m)
		}
	}
}

// askedModels replays a strategy.
func askedModels(s cascade.Strategy, t *outcome.Table, source *estimate.Replay) modelsAsked {
	models := modelsAsked{}
	for q, name := range t.Queries {
		_, coin := math.Modf(goldenRatio * float64(q))
		step := replay.NewWalker(source.Start(q), t.Quality[q], t.CostUSD[q]).Walk(s, coin, nil)
		models[name] = slices.DeleteFunc(slices.Clone(step.Seen), func(mark int) bool { return mark >= len(t.Models) })
	}
	return models
}
