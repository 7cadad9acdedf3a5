package eval

import (
	"fmt"

	"github.com/stepfall/stepfall/sdk/estimate"
)

// trainFolds is the number of folds for the beliefs on the train half.
const trainFolds = 4

// fitSources fits one estimator to the train half for the test half, and one per fold
// for the train half itself.
func fitSources(h *Halves, name string, o estimate.Options) (*fittedSources, error) {
	whole, train, _, err := estimate.FitFolds(h.Train, min(trainFolds, len(h.Train.Queries)), o)
	if err != nil {
		return nil, fmt.Errorf("fitting the %s estimate to %d queries: %w", name, len(h.Train.Queries), err)
	}
	test, err := whole.On(h.Test)
	if err != nil {
		return nil, err
	}
	return &fittedSources{Name: name, Train: train.Source(), Test: test.Source()}, nil
}
