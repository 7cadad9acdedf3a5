package eval

import (
	"context"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/replay"
)

// Options are compared on the train half by the AUC of a curve of tunePoints lambdas. The standard error
// of a gain is computed from tuneResamples paired resamples.
const (
	tunePoints    = 16
	tuneResamples = 60
)

// option is one way to play a strategy, on beliefs about the train half.
type option struct {
	rule   strategyAt
	source replay.Source
}

// aucs replays options over the train half and returns the AUC of each, on all
// queries and on resamples of them.
func aucs(ctx context.Context, train *outcome.Table, options []option, seed uint64) (all []float64, resampled [][]float64, err error) {
	some, source := head(train, options[0].source, gridQueries)
	lambdas, err := spreadLambdas(ctx, some, source, options[0].rule, tunePoints, seed)
	if err != nil {
		return nil, nil, err
	}
	players := make([]*Player, len(options))
	for i, o := range options {
		if players[i], err = o.rule.player("", "", o.source, lambdas); err != nil {
			return nil, nil, err
		}
	}
	samples, err := Replay(ctx, train, players, seed, nil)
	if err != nil {
		return nil, nil, err
	}
	models := singles(train)
	frame := models.newFrame(nil)
	for _, s := range samples {
		all = append(all, s.curve(nil, &frame).AUC(&frame))
		resampled = append(resampled, make([]float64, tuneResamples))
	}
	for k := range tuneResamples {
		w := weights(seed, k, len(train.Queries))
		f := models.newFrame(w)
		for i, s := range samples {
			resampled[i][k] = s.curve(w, &f).AUC(&f)
		}
	}
	return all, resampled, nil
}

// choose returns the index of the option with the greatest AUC on the train half, or 0
// if that does not beat the first option by a standard error.
func choose(ctx context.Context, train *outcome.Table, options []option) (int, error) {
	if len(options) == 1 {
		return 0, nil
	}
	all, resampled, err := aucs(ctx, train, options, 0)
	if err != nil {
		return 0, err
	}
	best := floats.MaxIdx(all)
	gains := make([]float64, tuneResamples)
	floats.SubTo(gains, resampled[best], resampled[0])
	if all[best]-all[0] > stat.StdDev(gains, nil) {
		return best, nil
	}
	return 0, nil
}

// scales are the factors on the deviations of estimates to try; the first leaves them
// unchanged.
var scales = []float64{1, 0.7, 0.45, 0.25, 0.12, 0}

// fittedScale returns the best factor on the deviations of the estimates on the train
// half: 1 unless another one gains more than a standard error. It is a property of the
// estimates, and is fitted with the index strategy because that is the fastest.
func (s *fittedSources) fittedScale(ctx context.Context, train *outcome.Table) (float64, error) {
	if s.scale != nil {
		return *s.scale, nil
	}
	options := make([]option, len(scales))
	for i, scale := range scales {
		rule, err := indexRule(scale)
		if err != nil {
			return 0, err
		}
		options[i] = option{rule, s.Train}
	}
	best, err := choose(ctx, train, options)
	if err != nil {
		return 0, err
	}
	s.scale = &scales[best]
	return scales[best], nil
}

func indexRule(scale float64) (strategyAt, error) { return withScale(cascade.NameIndex, scale) }

// withScale returns the rule of a strategy with its deviations multiplied by a factor.
func withScale(name string, scale float64) (strategyAt, error) {
	return strategyWith(name, cascade.Params{Scale: scale, NoExpect: scale == 0})
}

func scaledRule(name string) ruleOf {
	return func(ctx context.Context, p *problem, s *fittedSources) (strategyAt, error) {
		scale, err := s.fittedScale(ctx, p.Train)
		if err != nil {
			return nil, err
		}
		return withScale(name, scale)
	}
}

// cascadeRule returns the rule of the cascade over all models by cost or, if that is
// better on the train half, over those that are better than all cheaper ones.
func cascadeRule(ctx context.Context, p *problem, s *fittedSources) (strategyAt, error) {
	var options []option
	for _, order := range costOrders(p.Train) {
		rule, err := strategyWith(cascade.NameCascade, cascade.Params{Order: order})
		if err != nil {
			return nil, err
		}
		options = append(options, option{rule, s.Train})
	}
	best, err := choose(ctx, p.Train, options)
	if err != nil {
		return nil, err
	}
	return options[best].rule, nil
}

// chooseSources returns the estimates to decide on: the first, unless the index strategy
// gains more than a standard error with others.
func chooseSources(ctx context.Context, train *outcome.Table, candidates []*fittedSources) (*fittedSources, error) {
	rule, err := indexRule(1)
	if err != nil {
		return nil, err
	}
	options := make([]option, len(candidates))
	for i, s := range candidates {
		options[i] = option{rule, s.Train}
	}
	best, err := choose(ctx, train, options)
	if err != nil {
		return nil, err
	}
	return candidates[best], nil
}
