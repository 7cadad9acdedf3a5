package eval

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/replay"
)

// Player is a strategy to replay: a decision rule for each lambda, over the beliefs
// of one source.
type Player struct {
	Name string
	// Note describes the row in a few words.
	Note    string
	Source  replay.Source
	Lambdas []float64
	// Strategies has the rule for each lambda.
	Strategies       []cascade.Strategy
	train            replay.Source // beliefs about the train half
	decisions, nanos atomic.Int64
}

// decisionTime returns the number of decisions made and their mean time.
func (p *Player) decisionTime() (int64, time.Duration) {
	n := p.decisions.Load()
	if n == 0 {
		return 0, 0
	}
	return n, time.Duration(p.nanos.Load() / n)
}

// Replay runs every player at every lambda on every query of the outcomes, several
// queries concurrently, and returns one sample for each player, in order. The cost of
// a step is the recorded cost of its models and of the verdicts that it used; its
// quality is that of the returned answer. A verdict is used if another model would run
// after a rejection, or if the strategy decides itself which verdicts to buy.
// done, when not nil, is called after each query. Coins are drawn per query from the
// seed, and are the same for all players.
func Replay(ctx context.Context, o *outcome.Table, players []*Player, seed uint64, done func(int)) ([]*Sample, error) {
	if len(o.Models) > replay.MaxModels {
		return nil, fmt.Errorf("%d models: a replay takes at most %d", len(o.Models), replay.MaxModels)
	}
	samples := make([]*Sample, len(players))
	for i, p := range players {
		samples[i] = NewSample(p.Lambdas, len(o.Queries))
	}
	err := inParallel(ctx, len(o.Queries), func(q int) error {
		walkers := map[replay.Source]*replay.Walker{}
		coin := coinOf(seed, q)
		for i, p := range players {
			w := walkers[p.Source]
			if w == nil {
				w = replay.NewWalker(p.Source.Start(q), o.Quality[q], o.CostUSD[q])
				w.BuyUsedVerdicts()
				walkers[p.Source] = w
			}
			var clock timedStrategy
			for l, strategy := range p.Strategies {
				clock.Strategy = strategy
				step, s := w.Walk(&clock, coin, nil), samples[i]
				s.Cost[l][q], s.Quality[l][q], s.Steps[l][q] = step.CostUSD, step.Quality, float64(step.Models)
			}
			p.decisions.Add(clock.decisions)
			p.nanos.Add(int64(clock.spent))
		}
		if done != nil {
			done(1)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return samples, nil
}

// inParallel calls f concurrently for 0 to n-1, until one call fails or ctx ends.
func inParallel(ctx context.Context, n int, f func(i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return f(i)
		})
	}
	return group.Wait()
}

type timedStrategy struct {
	cascade.Strategy
	decisions int64
	spent     time.Duration
}

func (t *timedStrategy) Decide(s *cascade.State) cascade.Decision {
	start := time.Now()
	d := t.Strategy.Decide(s)
	t.spent += time.Since(start)
	t.decisions++
	return d
}

// Describe implements [cascade.Describer].
func (t *timedStrategy) Describe() cascade.Description { return cascade.Describe(t.Strategy) }

// coinOf returns query q's coin, uniform in [0, 1).
func coinOf(seed uint64, q int) float64 {
	x := seed + uint64(q+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}
