package fit

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/replay"
)

// stage is a table with the estimates for its queries, and the rows to replay.
type stage struct {
	table  *outcome.Table
	replay *estimate.Replay
	rows   []int
}

func newStage(t *outcome.Table, r *estimate.Replay) *stage {
	s := &stage{t, r, make([]int, len(t.Queries))}
	for q := range s.rows {
		s.rows[q] = q
	}
	return s
}

// each calls f concurrently for every row, with its place among the rows.
func (s *stage) each(ctx context.Context, f func(place int, w *walker)) error {
	workers := min(runtime.GOMAXPROCS(0), len(s.rows))
	group, ctx := errgroup.WithContext(ctx)
	for first := range workers {
		group.Go(func() error {
			for i := first; i < len(s.rows); i += workers {
				if err := ctx.Err(); err != nil {
					return err
				}
				q := s.rows[i]
				f(i, &walker{Walker: replay.NewWalker(s.replay.Start(q), s.table.Quality[q], s.table.CostUSD[q])})
			}
			return nil
		})
	}
	return group.Wait()
}

// play replays every strategy on every row. Ties go to the most expensive set if gamma is 0, otherwise to
// the cheapest.
func (s *stage) play(ctx context.Context, strategies []cascade.Strategy) ([]replayRow, error) {
	out := make([]replayRow, len(strategies))
	for i := range out {
		out[i] = newReplayRow(len(s.rows))
	}
	err := s.each(ctx, func(place int, w *walker) {
		for i, strategy := range strategies {
			w.step(strategy, place, &out[i])
		}
	})
	return out, err
}

// extend replays each candidate at further values, all in one pass. A query that has the same path at two
// values has it in between as well, and is not replayed there: with fixed orders a path only grows or
// shrinks with the value, and a set of models that is best at two lambdas is best in between, since its
// value is linear in lambda (paths include the planned sets). For an index this holds only for close
// values; see canInterpolate.
func (s *stage) extend(ctx context.Context, list []*candidate, values [][]float64) error {
	plans := make([]plan, len(list))
	for i, c := range list {
		var err error
		if plans[i], err = c.addValues(values[i], len(s.rows)); err != nil {
			return err
		}
	}
	return s.each(ctx, func(place int, w *walker) {
		for i, c := range list {
			for _, task := range plans[i] {
				r := &c.results[task.at]
				if min(task.left, task.right) >= 0 {
					left, right := &c.results[task.left], &c.results[task.right]
					if left.path[place] == right.path[place] && c.canInterpolate(task) {
						r.copyFrom(place, left)
						continue
					}
				}
				w.step(task.strategy, place, r)
			}
		}
	})
}

// plan is the order in which the new values of a candidate are replayed: each after
// the neighbours that it is compared with.
type plan []task

// task is one value, by its place among the candidate's, with the nearest places on
// both sides that are replayed before it, -1 if there is none.
type task struct {
	at, left, right int
	strategy        cascade.Strategy
}

// halve appends the new values between two replayed ones, the middle one first. left can be -1, and right
// the number of values.
func (p plan) halve(left, right, values int) plan {
	if right-left < 2 {
		return p
	}
	at := (left + right) / 2
	known := task{at: at, left: left, right: right}
	switch {
	case left < 0:
		known.at = 0
	case right == values:
		known.at = values - 1
	}
	if right == values {
		known.right = -1
	}
	p = append(p, known)
	return p.halve(left, known.at, values).halve(known.at, right, values)
}

// walker replays steps on one query. It wraps the current strategy to add its plans to the path.
type walker struct {
	*replay.Walker
	cascade.Strategy
	path *path
	plan []int // of the current decision
}

func (w *walker) step(s cascade.Strategy, place int, into *replayRow) {
	w.Strategy, w.path = s, &into.path[place]
	step := w.Walk(w, 0, nil)
	for _, mark := range step.Seen {
		*w.path = w.path.and(mark)
	}
	*w.path = w.path.and(step.Answer)
	into.cost[place], into.quality[place], into.estimate[place] = step.CostUSD, step.Quality, step.Estimate
	into.steps[place] = float64(step.Models)
}

// planner is a strategy whose decisions are the first steps of planned sets of models.
type planner interface {
	Plan(s *cascade.State, plan []int) (cascade.Decision, []int)
}

// Decide implements [cascade.Strategy].
func (w *walker) Decide(s *cascade.State) (d cascade.Decision) {
	planning, ok := w.Strategy.(planner)
	if !ok {
		return w.Strategy.Decide(s)
	}
	d, w.plan = planning.Plan(s, w.plan[:0])
	var set [2]uint64
	for _, model := range w.plan {
		set[model/64%2] |= 1 << (model % 64)
	}
	for _, part := range set {
		*w.path = w.path.and(int(part))
	}
	return d
}

// Describe implements [cascade.Describer].
func (w *walker) Describe() cascade.Description { return cascade.Describe(w.Strategy) }

// path is a hash of a step's planned sets, of the models that it ran, in order, and of
// its answer.
type path uint64

func (p path) and(model int) path { return p*0x9e3779b97f4a7c15 + path(model+2) }
