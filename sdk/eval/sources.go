package eval

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// replayed is the source of one fitted estimator over a table.
type replayed struct{ *estimate.Replay }

// Start returns the reading of a query.
func (r replayed) Start(query int) Cursor { return r.Replay.Start(query) }

// folded is a source over the train half in which each query is estimated by an
// estimator that was fitted without the query's fold.
type folded struct {
	fold    []int
	replays []*estimate.Replay
}

// Start returns the reading of a query by the estimator that has not seen it.
func (f *folded) Start(query int) Cursor { return f.replays[f.fold[query]].Start(query) }

// Fit makes an estimator from a table.
type Fit func(t *outcome.Table) (*estimate.Estimator, error)

// trainFolds is the number of folds in which train-half beliefs are made.
const trainFolds = 4

// FitSources fits an estimator to the train half for the test half, and one per fold
// for the train half itself.
func FitSources(ctx context.Context, h *Halves, name string, fit Fit, seed uint64) (*Sources, error) {
	folds := min(trainFolds, len(h.Train.Queries))
	f := &folded{fold: h.Train.Folds(folds, seed), replays: make([]*estimate.Replay, folds)}
	s := &Sources{Name: name, Train: f}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for k := range folds {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			var others []int
			for q, fold := range f.fold {
				if fold != k {
					others = append(others, q)
				}
			}
			e, err := fit(h.Train.Rows(others))
			if err != nil {
				return fmt.Errorf("fitting the %s estimate to %d queries: %w", name, len(others), err)
			}
			f.replays[k], err = e.On(h.Train)
			return err
		})
	}
	group.Go(func() error {
		e, err := fit(h.Train)
		if err != nil {
			return fmt.Errorf("fitting the %s estimate: %w", name, err)
		}
		r, err := e.On(h.Test)
		if err != nil {
			return err
		}
		s.Test = replayed{r}
		return nil
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return s, nil
}
