package paper

import (
	"context"
	"errors"
	"fmt"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/replay"
)

// promiseConfidence is the confidence of promises.
const promiseConfidence = 0.95

// promiseResult is the result of one promise on one split.
type promiseResult struct {
	promised, broken bool
	// cost is relative to the cheapest point of the same curve that keeps the floor on the test half.
	cost float64
}

// promises checks the promised qualities of fits on unseen halves: of the tables of agents, and of three models on
// questions without verdicts.
func promises(ctx context.Context, e *Env, p *Page) error {
	splits := 20 * e.splits()
	p.printf("`stepfall fit --min-quality`, `--as-good-as` and `--max-wrong` promise something of as many new queries as they have seen, with confidence %.2g. "+
		"Here every promise is made on one half of a table and checked on the other, on %d random halves. A promise may be broken in %.0f of 100. "+
		"Where it cannot be made, the fit says so. The oracle knows the test half and takes the cheapest point of the same curve that keeps the floor there.\n",
		promiseConfidence, splits, 100*(1-promiseConfidence))
	list, data := e.Own, []*Data{}
	if len(list) == 0 {
		list, data = e.Agents, e.questionsOf("3")
	}
	var judged []*Data
	for _, d := range list {
		t := *d.Table
		t.Verified = true
		judged = append(judged, d.of(&t, ""))
	}
	return e.eachData(p, append(judged, data...), func(d *Data) (*eval.Table, error) { return e.promiseTable(ctx, d.Table, splits) })
}

// promise is one row: the options of a fit, and the check on the test half.
type promise struct {
	name    string
	options func(train *outcome.Table) fit.Options
	check   func(ctx context.Context, test *outcome.Table, p *fit.Profile) (promiseResult, error)
}

func (e *Env) promiseTable(ctx context.Context, t *outcome.Table, splits int) (*eval.Table, error) {
	out := &eval.Table{Header: []string{"promise", "made on", "broken on", "cost over the oracle's, median", "mean share served as good"}}
	for _, row := range promiseRows(t.Verified) {
		results, err := overSplits(ctx, splits, func(ctx context.Context, i int) (promiseResult, error) {
			train, test := t.Split(0.5, e.Seed+uint64(i))
			o := row.options(train)
			o.Confidence, o.Seed = promiseConfidence, e.Seed+uint64(i)
			profile, err := fit.Fit(ctx, train, o)
			if _, missing := errors.AsType[*fit.FloorError](err); missing || err != nil {
				if missing {
					err = nil
				}
				return promiseResult{}, err
			}
			return row.check(ctx, test, profile)
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", row.name, err)
		}
		out.Cells = append(out.Cells, promiseLine(row.name, results))
	}
	return out, nil
}

func promiseLine(name string, results []promiseResult) []string {
	made, broken := 0, 0
	var costs []float64
	for _, r := range results {
		if !r.promised {
			continue
		}
		made++
		broken += btoi(r.broken)
		costs = append(costs, r.cost)
	}
	line := []string{name, fmt.Sprintf("%d of %d", made, len(results)), fmt.Sprint(broken), "-", "-"}
	if made > 0 {
		if name[:2] == "at" {
			line[4] = fmt.Sprintf("%.0f %%", 100*stat.Mean(costs, nil))
		} else {
			line[3] = fmt.Sprintf("%.2f times", median(costs))
		}
	}
	return line
}

// promiseRows returns floors a few points below the quality of the best single model of the train half, and bounds on
// the share of wrong answers.
func promiseRows(verified bool) []promise {
	rows := []promise{
		{"quality of the best model less 5 points", func(train *outcome.Table) fit.Options {
			_, quality := bestSingle(train)
			return fit.Options{Floor: &fit.Floor{MinQuality: quality - 0.05}}
		}, checkFloor},
		{"as good as the best model to within 2 points", func(train *outcome.Table) fit.Options {
			name, _ := bestSingle(train)
			return fit.Options{Floor: &fit.Floor{AsGoodAs: name, Margin: 0.02}}
		}, checkFloor},
		{"at most 10 % of the answers served as good are wrong", func(*outcome.Table) fit.Options { return fit.Options{MaxWrong: 0.1} }, checkServed},
	}
	if verified {
		return rows[:2] // an infallible check lets nothing wrong pass
	}
	return rows
}

func bestSingle(t *outcome.Table) (string, float64) {
	qualities := t.MeanQualities()
	best := floats.MaxIdx(qualities)
	return t.Models[best], qualities[best]
}

func checkFloor(ctx context.Context, test *outcome.Table, p *fit.Profile) (promiseResult, error) {
	least := p.Kept.MinQuality
	if m := test.Index(p.Kept.AsGoodAs); m >= 0 {
		least = test.MeanQualities()[m] - p.Kept.Margin
	}
	points, err := points(ctx, test, p, p.Expected.CostUSD)
	if err != nil {
		return promiseResult{}, err
	}
	cheapest := points[0].Cost
	for _, point := range points[1:] {
		if point.Quality >= least-1e-9 {
			cheapest = min(cheapest, point.Cost)
		}
	}
	return promiseResult{promised: true, broken: points[0].Quality < least-1e-9, cost: points[0].Cost / cheapest}, nil
}

// points returns the results of a profile on a table: first at the operating point of its promise, then at the points
// of its curve that cost no more than limit.
func points(ctx context.Context, t *outcome.Table, p *fit.Profile, limit float64) ([]eval.Point, error) {
	beliefs, err := p.Estimator.On(t)
	if err != nil {
		return nil, err
	}
	s, err := p.NewStrategy(t.Models)
	if err != nil {
		return nil, err
	}
	player := &eval.Player{Source: beliefs.Source(), Lambdas: []float64{0}, Strategies: []cascade.Strategy{s}}
	for _, point := range p.Curve {
		if point.CostUSD > limit {
			continue
		}
		setting := p.Strategy.At(point.Value)
		if s, err = setting.Strategy(t.Models); err != nil {
			return nil, err
		}
		player.Lambdas, player.Strategies = append(player.Lambdas, point.Value), append(player.Strategies, s)
	}
	return play(ctx, t, player)
}

// play returns the mean results of a player's strategies on a table.
func play(ctx context.Context, t *outcome.Table, player *eval.Player) ([]eval.Point, error) {
	samples, err := eval.Replay(ctx, t, []*eval.Player{player}, 1, nil)
	if err != nil {
		return nil, err
	}
	out := make([]eval.Point, len(player.Lambdas))
	for l := range out {
		out[l] = eval.Point{Cost: stat.Mean(samples[0].Cost[l], nil), Quality: stat.Mean(samples[0].Quality[l], nil)}
	}
	return out, nil
}

// checkServed counts the answers that are served as good, and the wrong ones among them.
func checkServed(_ context.Context, test *outcome.Table, p *fit.Profile) (promiseResult, error) {
	s, err := p.NewStrategy(test.Models)
	if err != nil {
		return promiseResult{}, err
	}
	beliefs, err := p.Estimator.On(test)
	if err != nil {
		return promiseResult{}, err
	}
	served, wrong := 0.0, 0.0
	for q := range test.Queries {
		best := 0.0
		step := replay.NewWalker(beliefs.Start(q), test.Quality[q], test.CostUSD[q]).Walk(s, 0.5, func(turn *replay.Turn) {
			best = 0
			for _, m := range turn.State.Ran {
				best = max(best, turn.State.Beliefs[m].Mean)
			}
		})
		if p.Served.Good(best) {
			served++
			wrong += 1 - step.Quality
		}
	}
	return promiseResult{
		promised: p.Served.Estimate <= 1, broken: wrong > p.Served.MaxWrong*served+1e-9, cost: served / float64(len(test.Queries)),
	}, nil
}
