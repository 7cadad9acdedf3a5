package paper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/figure"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/eval"
)

// variant is one line of the runtime figure.
type variant struct {
	label, name string
	params      cascade.Params
	most        int
}

func runtimes(ctx context.Context, e *Env, p *Page) error {
	p.printf("The first decision on random estimates, as in the paper's study: quality uniform in [0, 1] with standard deviation 0.1, "+
		"cost and lambda uniform in [0, 1]. Microseconds on one core of this machine (%s/%s, %d cores); the lowest of %d means over random states. "+
		"For orientation, the published Python needs 8 ms at 11 models and 1.1 s at 40. "+
		"Random estimates are easy to prune: on recorded outcomes, where models are nearly level, a decision of cascade_route among 24 models takes about four times as long ([curves](curves.md), last column).\n\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), e.splits())
	variants := []variant{
		{"route", cascade.NameRoute, cascade.Params{}, 80},
		{"cascade", cascade.NameCascade, cascade.Params{}, 80},
		{"cascade_route", cascade.NameCascadeRoute, cascade.Params{}, 80},
		{"slow", cascade.NameCascadeRouteSlow, cascade.Params{}, 13},
		{"greedy", cascade.NameCascadeRouteGreedy, cascade.Params{}, 80},
		{"no_expect", cascade.NameCascadeRouteNoExpect, cascade.Params{}, 80},
		{"max depth 3", cascade.NameCascadeRoute, cascade.Params{MaxDepth: 3}, 80},
		{"index", cascade.NameIndex, cascade.Params{}, 80},
	}
	t := &eval.Table{Header: []string{"models"}}
	series := make([]figure.Series, len(variants))
	for i, v := range variants {
		t.Header = append(t.Header, v.label+", µs")
		series[i].Name = v.label
	}
	for _, n := range []int{2, 3, 5, 8, 11, 13, 16, 24, 40, 60, 80} {
		e.startingf("runtime: %d models", n)
		line := []string{fmt.Sprint(n)}
		for i, v := range variants {
			if n > v.most {
				line = append(line, "-")
				continue
			}
			took, err := v.time(ctx, n, e.splits(), e.Seed)
			if err != nil {
				return err
			}
			us := float64(took.Nanoseconds()) / 1e3
			series[i].X, series[i].Y = append(series[i].X, float64(n)), append(series[i].Y, us)
			line = append(line, fmt.Sprintf("%.3g", us))
		}
		t.Cells = append(t.Cells, line)
	}
	f, err := figure.Lines("runtime", figure.Axes{
		Title: "Time of one decision", X: "number of models (log scale)", Y: "microseconds (log scale)", LogX: true, LogY: true,
	}, series, nil)
	if err != nil {
		return err
	}
	p.figure(f, "Time of one decision by number of models")
	p.table(t)
	return nil
}

// randomState returns a state of n models that have not run, as in the paper's study:
// quality uniform in [0, 1] with standard deviation 0.1, and cost uniform in [0, 1].
func randomState(rng *rand.Rand, n int) *cascade.State {
	s := &cascade.State{Beliefs: make([]cascade.Belief, n), Costs: make([]float64, n), Coin: rng.Float64()}
	for i := range n {
		s.Beliefs[i] = cascade.Belief{Mean: rng.Float64(), StdDev: 0.1}
		s.Costs[i] = rng.Float64()
	}
	return s
}

// time returns the mean time of a first decision over random states, the lowest of several rounds.
func (v *variant) time(ctx context.Context, n, rounds int, seed uint64) (time.Duration, error) {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	const states, budget = 200, 10 * time.Millisecond
	list := make([]*cascade.State, states)
	strategies := make([]cascade.Strategy, states)
	for i := range list {
		list[i] = randomState(rng, n)
		params := v.params
		params.Lambdas = []float64{rng.Float64()}
		s, err := cascade.New(v.name, params)
		if err != nil {
			return 0, err
		}
		strategies[i] = s
	}
	// A cascade's first decision is trivial; its second is the one to time.
	if v.name == cascade.NameCascade && n > 1 {
		for _, s := range list {
			s.Ran = []int{0}
		}
	}
	best := time.Duration(1<<63 - 1)
	for range rounds {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		start, decisions := time.Now(), 0
		for time.Since(start) < budget || decisions < states {
			for i, s := range list {
				strategies[i].Decide(s)
			}
			decisions += states
			if time.Since(start) > 20*budget {
				break
			}
		}
		best = min(best, time.Since(start)/time.Duration(decisions))
	}
	return best, nil
}
