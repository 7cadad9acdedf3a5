package fit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

const (
	// pairShare is the least share of steps on which a pair's cascade must give the reference's answer. On
	// recorded calls (BFCL), such pairs are right at least as often as the reference.
	pairShare = 0.93
	// agreeThreshold is the estimate from which an agreement is accepted.
	agreeThreshold = 0.9
)

// Pair fits a cascade to steps whose only labels are the answers of a reference model: it calls two cheap
// models and, if their answers differ, the reference. It takes the cheapest pair whose cascade gives the
// reference's answer on 93 % of the steps. The estimates are general ones for agreement
// ([estimate.OfPriors]), so a hundred steps are enough; such labels do not say how good the answers are.
func Pair(ctx context.Context, t *outcome.Table, o Options) (*Profile, error) {
	return fitInUse(ctx, t, o, pairTable)
}

func pairTable(ctx context.Context, t *outcome.Table, o Options) (*Profile, modelsAsked, error) {
	if err := o.check(ctx, t); err != nil {
		return nil, nil, err
	}
	reference := t.Index(t.Reference)
	if reference < 0 || t.Answers == nil || t.CostUSD == nil {
		return nil, nil, fmt.Errorf("%w: a pair is chosen by answers beside those of a reference model, with their costs", ErrTooFew)
	}
	models, err := candidatesFor(t, o.Models)
	if err != nil {
		return nil, nil, err
	}
	if _, err := weighLabels(t, models); err != nil { // only reported: the reference's answer is what counts here
		return nil, nil, err
	}
	complete := t.Complete()
	if n := len(complete.Queries); n < minQueries {
		return nil, nil, fmt.Errorf("%w: %d steps have answers of all %d models, of %d in all; %d are needed", ErrTooFew, n, len(t.Models), len(t.Queries), minQueries)
	}
	o.setCached(models, complete)
	o.Estimate.Seed = o.Seed
	o.Estimate.Quality = estimate.KindMean // only the cost estimator is used
	fitted, err := estimate.Fit(t, o.Estimate)
	if err != nil {
		return nil, nil, err
	}
	costs := complete.MeanCosts()
	priced := make([]sdk.Model, len(costs))
	for i, usd := range costs {
		priced[i] = sdk.Model{Name: t.Models[i], Price: sdk.Price{Output: usd}}
	}
	estimator := estimate.OfPriors(priced, make([]float64, len(priced)))
	estimator.Cost = fitted.Cost
	replay, err := estimator.On(complete)
	if err != nil {
		return nil, nil, err
	}
	all := newStage(complete, replay)
	pairs, strategies, err := pairCascades(costs, reference)
	if err != nil {
		return nil, nil, err
	}
	o.Progress(fmt.Sprintf("replaying %d pairs before %s", len(pairs), t.Reference))
	results, err := all.play(ctx, strategies)
	if err != nil {
		return nil, nil, err
	}
	if o.always != nil {
		costs[reference] = o.always[reference]
	}
	least := pairShare * complete.MeanQualities()[reference]
	chosen, nearest := -1, math.Inf(-1)
	for i := range results {
		cost, quality := average(results[i].cost), average(results[i].quality)
		nearest = max(nearest, quality)
		if quality >= least && cost < costs[reference] && (chosen < 0 || cost < average(results[chosen].cost)) {
			chosen = i
		}
	}
	if chosen < 0 {
		return nil, nil, &PairError{Reference: t.Reference, Pairs: len(pairs), Steps: len(complete.Queries), Share: max(nearest, 0)}
	}
	point := results[chosen].point(agreeThreshold)
	return &Profile{
		Version: version,
		Data: Data{
			SHA256: t.Hash(), Queries: len(t.Queries), Complete: len(complete.Queries), Folds: o.Folds, Seed: o.Seed, Labels: t.Labels, StepsPerRun: t.StepsPerRun,
			Groups: slices.Compact(slices.Sorted(slices.Values(t.Groups))),
		},
		Models: models, OnlyJudge: o.OnlyJudge, Estimator: estimator, Calibration: calibrate(complete, replay, false), Usual: tallyErrors(strategies[chosen], complete, models, estimator, replay),
		Strategy: cascade.SettingOf(cascade.Description{Name: cascade.NameThreshold, Params: pairs[chosen]}, complete.Models),
		Curve:    []Point{point}, Expected: Expectation{CostUSD: point.CostUSD, Quality: point.Quality, Steps: point.Steps},
	}, askedModels(strategies[chosen], complete, replay), nil
}

// pairCascades returns the cascades of two models that are cheaper than the reference, the
// cheapest first, before the reference.
func pairCascades(costs []float64, reference int) (params []cascade.Params, strategies []cascade.Strategy, err error) {
	for a := range costs {
		for b := range costs {
			if cmp.Or(cmp.Compare(costs[a], costs[b]), a-b) >= 0 || costs[b] >= costs[reference] {
				continue
			}
			p := cascade.Params{Order: []int{a, b, reference}, Thresholds: []float64{agreeThreshold}}
			s, err := cascade.New(cascade.NameThreshold, p)
			if err != nil {
				return nil, nil, err
			}
			params, strategies = append(params, p), append(strategies, s)
		}
	}
	return params, strategies, nil
}

// PairError says that no pair can replace the reference model.
type PairError struct {
	Reference    string
	Pairs, Steps int
	// Share is the share of steps on which the best pair's cascade gives the reference's answer.
	Share float64
}

// Error says how close the best pair comes.
func (e *PairError) Error() string {
	if e.Pairs == 0 {
		return fmt.Sprintf("no two models are cheaper than %s: add cheap ones of different makers", e.Reference)
	}
	return fmt.Sprintf("of %d pairs before %s none gives its answer on %.0f %% of %d steps at a lower cost; the best comes to %.0f %%: try other cheap models, of different makers",
		e.Pairs, e.Reference, 100*pairShare, e.Steps, 100*e.Share)
}
