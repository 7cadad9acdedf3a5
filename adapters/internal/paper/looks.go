package paper

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// The signals that are drawn: how far the means of right and wrong answers lie apart, in
// deviations, how the two are correlated beside that, and how often a further sample goes
// as the first did.
const (
	drawnLogProb, drawnJudge, drawnTogether = 0.9, 1.8, 0.3
	drawnSame, drawnSameWrong               = 0.6, 0.5
	drawnSamples                            = 3
)

// judgeTokens are what a judge reads beside question and answer, and what it writes.
const judgeTokens, judgeWrites = 200, 20

// judges are who judges, and their prices in US dollars per million tokens.
var judges = []struct {
	name          string
	input, output float64
}{
	{"cheap judge (gpt-4o-mini's price)", 0.15, 0.6},
	{"dear judge (gpt-4o's price)", 2.5, 10},
}

const (
	logProbSignal = "log_prob"
	judgeSignal   = "judge"
)

// drawn returns the table with further samples of its cheapest model, and with the
// signals of log-probabilities and of a judge, drawn from a seed. Qualities, costs and
// answers of the models themselves stay.
func drawnSignals(t *outcome.Table, input, output float64, seed uint64) *outcome.Table {
	c := *t
	rng := rand.New(rand.NewPCG(seed, 0x10c5))
	cheapest := 0
	costs := t.MeanCosts()
	for m, v := range costs {
		if v < costs[cheapest] {
			cheapest = m
		}
	}
	mean := t.MeanQualities()[cheapest]
	c.Models = append([]string(nil), t.Models...)
	for k := 2; k <= drawnSamples; k++ {
		c.Models = append(c.Models, fmt.Sprintf("%s#%d", t.Models[cheapest], k))
	}
	c.Signals = map[string][][]float64{}
	grow := func(m [][]float64, further func(q, k int) float64) [][]float64 {
		out := make([][]float64, len(t.Queries))
		for q := range out {
			out[q] = append([]float64(nil), m[q]...)
			for k := 2; k <= drawnSamples; k++ {
				out[q] = append(out[q], further(q, k))
			}
		}
		return out
	}
	same := func(m [][]float64) [][]float64 {
		return grow(m, func(q, _ int) float64 { return m[q][cheapest] })
	}
	c.CostUSD, c.InputTokens, c.OutputTokens = same(t.CostUSD), same(t.InputTokens), same(t.OutputTokens)
	c.Answers = make([][]string, len(t.Queries))
	c.Quality = grow(t.Quality, func(q, k int) float64 {
		first := t.Quality[q][cheapest]
		if rng.Float64() < drawnSame {
			return first
		}
		return float64(btoi(rng.Float64() < mean))
	})
	for q := range c.Answers {
		c.Answers[q] = append([]string(nil), t.Answers[q]...)
		for k := 2; k <= drawnSamples; k++ {
			c.Answers[q] = append(c.Answers[q], furtherAnswer(t, q, cheapest, k, c.Quality[q][len(t.Models)+k-2], rng))
		}
	}
	logProb, judge, paid := make([][]float64, len(t.Queries)), make([][]float64, len(t.Queries)), make([][]float64, len(t.Queries))
	for q, row := range c.Quality {
		for m, v := range row {
			shared, a, b := rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()
			r := math.Sqrt(drawnTogether)
			logProb[q] = append(logProb[q], drawnLogProb*v+r*shared+math.Sqrt(1-drawnTogether)*a)
			judge[q] = append(judge[q], drawnJudge*v+r*shared+math.Sqrt(1-drawnTogether)*b)
			paid[q] = append(paid[q], ((c.InputTokens[q][m]+c.OutputTokens[q][m]+judgeTokens)*input+judgeWrites*output)/1e6)
		}
	}
	c.Signals[logProbSignal], c.Signals[judgeSignal], c.Signals[judgeSignal+sdk.SignalCostUSD] = logProb, judge, paid
	return &c
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// furtherAnswer is the answer of a further sample: that of any right model where it is
// right; where it is wrong as the first was, often the same.
func furtherAnswer(t *outcome.Table, q, model, k int, quality float64, rng *rand.Rand) string {
	if quality >= 0.5 {
		for m, v := range t.Quality[q] {
			if v >= 0.5 {
				return t.Answers[q][m]
			}
		}
		return "right"
	}
	if t.Quality[q][model] < 0.5 && rng.Float64() < drawnSameWrong {
		return t.Answers[q][model]
	}
	return fmt.Sprintf("wrong %d", k)
}

// lookWay is what is seen of an answer.
type lookWay struct {
	name  string
	table func(t *outcome.Table) (*outcome.Table, error)
}

// Changes of a table: what is not seen is left out.
func withoutAnswers(t *outcome.Table) *outcome.Table {
	c := *t
	c.Answers, c.OutputTokens = nil, nil
	return &c
}

func withSignals(t *outcome.Table, names ...string) *outcome.Table {
	c := *t
	c.Signals = map[string][][]float64{}
	for _, name := range names {
		c.Signals[name] = t.Signals[name]
	}
	return &c
}

// judgedAlways has the judge's price in that of every answer.
func judgedAlways(t *outcome.Table) *outcome.Table {
	c := *t
	c.CostUSD = make([][]float64, len(t.Queries))
	for q, row := range t.CostUSD {
		for m, v := range row {
			c.CostUSD[q] = append(c.CostUSD[q], v+t.Signals[judgeSignal+sdk.SignalCostUSD][q][m])
		}
	}
	return &c
}

func once(t *outcome.Table) (*outcome.Table, error) {
	var models []string
	for i, first := range sdk.Samples(t.Models) {
		if first == i {
			models = append(models, t.Models[i])
		}
	}
	return t.Select(models...)
}

func lookWays() []lookWay {
	const price = judgeSignal + sdk.SignalCostUSD
	single := func(change func(t *outcome.Table) *outcome.Table) func(*outcome.Table) (*outcome.Table, error) {
		return func(t *outcome.Table) (*outcome.Table, error) { return once(change(t)) }
	}
	return []lookWay{
		{"nothing: routing", single(func(t *outcome.Table) *outcome.Table { return withSignals(withoutAnswers(t)) })},
		{"log-probabilities", single(func(t *outcome.Table) *outcome.Table { return withSignals(withoutAnswers(t), logProbSignal) })},
		{"agreement of models", single(func(t *outcome.Table) *outcome.Table { return withSignals(t) })},
		{"agreement of models and of samples", func(t *outcome.Table) (*outcome.Table, error) { return withSignals(t), nil }},
		{"judge, always", single(func(t *outcome.Table) *outcome.Table {
			return withSignals(judgedAlways(withoutAnswers(t)), judgeSignal)
		})},
		{"judge, bought where it is worth it", single(func(t *outcome.Table) *outcome.Table { return withSignals(withoutAnswers(t), judgeSignal, price) })},
		{"all, no judge", func(t *outcome.Table) (*outcome.Table, error) { return withSignals(t, logProbSignal), nil }},
		{"all, judge always", func(t *outcome.Table) (*outcome.Table, error) {
			return withSignals(judgedAlways(t), logProbSignal, judgeSignal), nil
		}},
		{"all, judge bought where it is worth it", func(t *outcome.Table) (*outcome.Table, error) {
			return withSignals(t, logProbSignal, judgeSignal, price), nil
		}},
	}
}

func (e *Env) lookSets() []modelSet {
	var list []modelSet
	for _, s := range sets(e.questionData().Table) {
		if len(s.models) <= 5 {
			list = append(list, s)
		}
	}
	return list
}

func looksPieces(e *Env) int { return len(e.lookSets()) * len(judges) }

// looks measures what several signals of one answer are worth, one by one and in one
// fitted model, with what they cost.
func looks(ctx context.Context, e *Env) (*Page, error) {
	p := newPage("looks", "Several signals of one answer, and what they cost")
	d := e.questionData()
	p.printf("What tells of an answer: log-probabilities (free), further samples of the cheapest model that agree or do not (each costs what the first did), other models' answers, and a judge's score (each call has its price). "+
		"One fitted model takes them together, and the decision buys a score only where it is expected to gain more than it costs. Everything is learnt on one half of the queries and measured on the other, prices of samples and judges included: "+
		"means over %d random halves, ± is two standard deviations over them, of differences within each half.\n\n"+
		"Data: %s. Right and wrong, costs, lengths and the models' own answers are real. **Drawn** are the signals: log-probabilities with an AUROC of %.2f, the judge's score with %.2f, both correlated by %.1f beside what the answer is; "+
		"and samples 2 and 3 of the cheapest model, which go as the first did in %.0f %% and else as any of its answers. So this page shows what the method makes of such signals, not how good real ones are.\n",
		e.splits(), d, auroc(drawnLogProb), auroc(drawnJudge), drawnTogether, 100*drawnSame)
	for _, set := range e.lookSets() {
		t, err := d.Table.Select(set.models...)
		if err != nil {
			return nil, err
		}
		out := &eval.Table{Header: []string{"seen of an answer"}}
		ways := lookWays()
		lines := make([][]string, len(ways))
		for _, judge := range judges {
			e.startingf("looks: %s models, %s", set.name, judge.name)
			areas, err := e.lookAreas(ctx, t, ways, judge.input, judge.output)
			if err != nil {
				return nil, err
			}
			out.Header = append(out.Header, "AUC %, "+judge.name, "all, bought, beside it")
			last := areas[len(areas)-1]
			for i := range ways {
				mean, _ := spreadOf(areas[i])
				lines[i] = append(lines[i], fmt.Sprintf("%.2f", 100*mean))
				gaps := make([]float64, len(last))
				for k := range gaps {
					gaps[k] = last[k] - areas[i][k]
				}
				if i == len(ways)-1 {
					lines[i] = append(lines[i], "-")
					continue
				}
				gap, two := spreadOf(gaps)
				lines[i] = append(lines[i], fmt.Sprintf("%+.2f ± %.2f", 100*gap, 100*two))
			}
		}
		for i, way := range ways {
			out.Cells = append(out.Cells, append([]string{way.name}, lines[i]...))
		}
		p.section(fmt.Sprintf("%d models", len(set.models)))
		p.table(out)
	}
	return p, nil
}

// auroc is the chance that a right answer has the greater of two numbers whose means lie
// so many deviations apart.
func auroc(apart float64) float64 { return 0.5 * math.Erfc(-apart/2) }

// lookAreas returns the areas under the curves of index by way and split, all within
// the costs of the models without their judge.
func (e *Env) lookAreas(ctx context.Context, t *outcome.Table, ways []lookWay, input, output float64) ([][]float64, error) {
	areas := make([][]float64, len(ways))
	whole := drawnSignals(t, input, output, e.Seed)
	var frames []eval.Frame
	for i, way := range ways {
		table, err := way.table(whole)
		if err != nil {
			return nil, err
		}
		c, err := e.run(ctx, table, e.share(0.5), e.splits(), func(s *eval.Study) {
			s.Signals, s.Strategies, s.Bootstrap, s.Estimator = eval.SignalsFeatures, []string{cascade.NameIndex}, 0, "latent"
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", way.name, err)
		}
		for k, comparison := range c.comparisons {
			if i == 0 {
				frames = append(frames, comparison.Frame)
			}
			areas[i] = append(areas[i], comparison.Row(cascade.NameIndex).Curve.AUC(&frames[k]))
		}
	}
	return areas, nil
}
