package estimate

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/replay"
)

// Replay computes an estimator's beliefs on a table of outcomes. The estimator sees only
// the outcomes of models that have run. It is safe for concurrent use.
type Replay struct {
	estimators []*Estimator
	fold       []int // of each query: index into estimators
	table      *outcome.Table
	signals    [][][][]float64 // of each estimator; nil if the table has no such signal
	panels     []*panel        // of each estimator; nil if no fallible judge has verdicts
	tokens     []float64       // of each query's prompt
	texts      []atomic.Uint64 // of each query: see queryFacts
	checkUSD   [][]float64     // cost of the check's verdicts, in a verified table
}

// On returns the replay of e over a table, whose models must be those of e, in the
// same order.
func (e *Estimator) On(t *outcome.Table) (*Replay, error) {
	return newReplay(withKeys(t), make([]int, len(t.Queries)), e)
}

// FitFolds is [Fit] that also returns two replays of the table's complete queries. In held,
// each query is estimated by an estimator fitted without it, one for each of k folds, so
// that hyperparameters are chosen on out-of-fold estimates. In known, each is estimated by
// the estimator of the next fold, which was fitted to it. All estimators share one scale of
// deviations, fitted on held, so that what is chosen on held also suits whole.
func FitFolds(t *outcome.Table, k int, o Options) (whole *Estimator, held, known *Replay, err error) {
	if err := t.ValidateShape(); err != nil {
		return nil, nil, nil, err
	}
	t = withKeys(t)
	complete := t.Complete()
	if k < 2 || len(complete.Queries) < k {
		return nil, nil, nil, fmt.Errorf("%d folds of %d queries", k, len(complete.Queries))
	}
	o = o.Resolve(complete)
	fold := complete.Folds(k, o.Seed)
	estimators := make([]*Estimator, k+1)
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for f := range estimators {
		g.Go(func() (err error) {
			if f == k {
				estimators[f], err = fit(t, o)
				return err
			}
			var rest []int
			for q := range complete.Queries {
				if fold[q] != f {
					rest = append(rest, q)
				}
			}
			estimators[f], err = fit(complete.Rows(rest), o)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, nil, err
	}
	whole = estimators[k]
	if held, err = newReplay(complete, fold, estimators[:k]...); err != nil {
		return nil, nil, nil, err
	}
	next := make([]int, len(fold))
	for q, f := range fold {
		next[q] = (f + 1) % k
	}
	if known, err = newReplay(complete, next, estimators[:k]...); err != nil {
		return nil, nil, nil, err
	}
	if g, ok := whole.Quality.(gainEstimator); ok && g.looks() {
		scale := fitGainScale(held)
		for _, e := range estimators {
			e.Quality.(gainEstimator).setGain(scale)
		}
	}
	return whole, held, known, nil
}

func newReplay(t *outcome.Table, fold []int, estimators ...*Estimator) (*Replay, error) {
	e := estimators[0]
	if !slices.Equal(e.Models, t.Models) {
		return nil, fmt.Errorf("estimator fitted to models %q cannot read a table of %q", e.Models, t.Models)
	}
	r := &Replay{estimators: estimators, fold: fold, table: t, tokens: promptLengths(t), texts: make([]atomic.Uint64, len(t.Queries))}
	for _, e := range estimators {
		r.signals = append(r.signals, columnsOf(t, e.Quality.Signals()))
		r.panels = append(r.panels, panelOf(t, e))
	}
	if t.Verified {
		r.checkUSD = t.VerdictCosts(t.Judges()...)
	}
	return r, nil
}

// newReader returns a replay that only reads the facts of a table, for an estimator that is
// being fitted: it has no estimators and no judges.
func newReader(t *outcome.Table, signals []string) *Replay {
	return &Replay{
		table: t, fold: make([]int, len(t.Queries)), tokens: promptLengths(t), signals: [][][][]float64{columnsOf(t, signals)}, panels: []*panel{nil},
	}
}

func promptLengths(t *outcome.Table) []float64 {
	tokens := make([]float64, len(t.Queries))
	for q := range tokens {
		tokens[q] = promptTokens(t, q)
	}
	return tokens
}

// columnsOf returns a table's signals by name; those that it does not have are nil.
func columnsOf(t *outcome.Table, names []string) [][][]float64 {
	var columns [][][]float64
	for _, name := range names {
		columns = append(columns, t.Signals[name])
	}
	return columns
}

func promptTokens(t *outcome.Table, query int) float64 { return float64(t.PromptTokens(query)) }

// withKeys returns the table with its answers in the canonical form in which the step
// engine compares them.
func withKeys(t *outcome.Table) *outcome.Table {
	if t.Answers == nil {
		return t
	}
	c := *t
	c.Answers = make([][]string, len(t.Answers))
	for q, row := range t.Answers {
		c.Answers[q] = make([]string, len(row))
		for m, text := range row {
			c.Answers[q][m] = feature.AnswerKey(&sdk.Answer{Text: text})
		}
	}
	return &c
}

// query returns the facts about a query before any model has run.
func (r *Replay) query(i int) queryFacts {
	q := queryFacts{Group: r.table.Group(i), Prompt: r.table.Prompt(i), InputTokens: r.tokens[i], Troubles: r.table.Troubles(i)}
	if r.table.Ante != nil {
		q.Ante = r.table.Ante[i]
	}
	return q
}

// run fills in the result of running a model on a query. dst.Signals must have the right length.
func (r *Replay) run(query, model int, dst *runFacts) {
	t := r.table
	dst.Verdict = math.NaN()
	if t.Verified {
		dst.Verdict = outcome.At(t.Quality, query, model)
	}
	dst.IfRight, dst.IfWrong = 0, 0
	if p := r.panel(query); p != nil {
		dst.IfRight, dst.IfWrong = p.likelihoods(query, model)
	}
	dst.Post = outcome.At(t.Post, query, model)
	dst.CostUSD = positive(outcome.At(t.CostUSD, query, model))
	dst.OutputTokens = positive(math.Round(outcome.At(t.OutputTokens, query, model)))
	dst.Answer = t.Answer(query, model)
	for i, m := range r.signals[r.fold[query]] {
		dst.Signals[i] = outcome.At(m, query, model)
	}
}

// panel returns the judges of a query's answers, or nil if there are none.
func (r *Replay) panel(query int) *panel { return r.panels[r.fold[query]] }

// reading is one query of a replay. It belongs to one goroutine.
type reading struct {
	replay  *Replay
	quality qualityCursor
	latent  *latentCursor // quality, if it is one, else nil
	cost    costCursor
	row     int
	query   queryFacts
	run     runFacts
	ran     []int
	sells   bool // verdicts with a price are looks
	apart   bool // all verdicts with a price are separate from the answers
}

// Sell implements [replay.Seller].
func (x *reading) Sell() { x.sells = true }

// isSold reports whether the verdicts of the judges are looks.
func (x *reading) isSold(p *panel) bool {
	return p != nil && (x.sells && p.usual != nil || x.apart && p.costs != nil && !x.replay.table.Verified)
}

// SellVerdicts implements [replay.VerdictSeller].
func (x *reading) SellVerdicts() bool {
	x.apart = true
	return isPriced(x.replay.checkUSD) || x.isSold(x.replay.panel(x.row))
}

// VerdictUSD implements [replay.VerdictSeller].
func (x *reading) VerdictUSD(model int) (usd float64, isApart bool) {
	if costs := x.replay.checkUSD; costs != nil {
		return costs[x.row][model], false
	}
	return x.replay.panel(x.row).costs[x.row][model], true
}

// Start returns a reading of a query of the table, before any model has run.
func (r *Replay) Start(query int) *reading {
	e := r.estimators[r.fold[query]]
	x := &reading{replay: r, quality: e.Quality.Cursor(), cost: e.Cost.Cursor(), row: query, query: r.query(query)}
	x.latent, _ = x.quality.(*latentCursor)
	x.query.text = &r.texts[query]
	x.run.Signals = make([]float64, len(r.signals[r.fold[query]]))
	x.ran = make([]int, 0, len(r.table.Models))
	x.restart()
	return x
}

// Source returns r as the source of a walk.
func (r *Replay) Source() replay.Source { return source{r} }

type source struct{ *Replay }

func (s source) Start(query int) replay.Cursor { return s.Replay.Start(query) }

// LookUSD implements [replay.Pricer]. It returns the recorded cost of a look, encoded as for
// Believe, or else its mean cost.
func (x *reading) LookUSD(look int) float64 {
	n := len(x.replay.table.Models)
	e := x.replay.estimators[x.replay.fold[x.row]].Quality.(*latent).Evidence
	model, bought := look%n, look/n-1
	if p := x.replay.panel(x.row); x.isSold(p) {
		if bought == 0 {
			return p.usd(x.row, model)
		}
		bought--
	}
	usd := outcome.At(x.replay.table.Signals[e.Names[e.free()+bought]+sdk.SignalCostUSD], x.row, model)
	if !(usd >= 0) {
		return e.CostUSD[bought][model]
	}
	return usd
}

func (x *reading) restart() {
	x.quality.Begin(&x.query)
	x.cost.Begin(&x.query)
	x.ran = x.ran[:0]
}

// Believe implements [replay.Cursor]. It fills in the beliefs and predicted costs given
// the models that have run, in order, where n·k + m stands for the k-th look at the answer
// of model m of n. It is incremental if ran continues that of the last call.
func (x *reading) Believe(ran []int, beliefs []cascade.Belief, costs []float64) {
	x.showAll(ran)
	x.quality.Beliefs(beliefs)
	x.cost.Costs(costs)
	x.prepare(beliefs)
}

// Means is a cheaper Believe that computes only the means of the beliefs: their deviations
// and looks can be missing.
func (x *reading) Means(ran []int, beliefs []cascade.Belief) {
	x.showAll(ran)
	if x.latent != nil {
		x.latent.means(beliefs)
	} else {
		x.quality.Beliefs(beliefs)
	}
	x.prepare(beliefs)
}

// showAll adds the results of the models that have run since the last call to the cursors.
func (x *reading) showAll(ran []int) {
	if len(ran) < len(x.ran) || !slices.Equal(ran[:len(x.ran)], x.ran) {
		x.restart()
	}
	n, isSold := len(x.replay.table.Models), x.isSold(x.replay.panel(x.row))
	for _, mark := range ran[len(x.ran):] {
		model, verdict := mark%n, &x.run
		x.replay.run(x.row, model, &x.run)
		ifRight, ifWrong := verdict.IfRight, verdict.IfWrong
		if isSold {
			verdict.IfRight, verdict.IfWrong = 0, 0
		}
		switch {
		case mark < n:
			x.quality.Observe(model, &x.run)
			x.cost.Observe(model, &x.run)
		case isSold && mark < 2*n:
			if x.latent != nil {
				x.latent.judge(model, ifRight, ifWrong)
			}
		default:
			x.latent.Look(model, x.run.Signals)
		}
		x.ran = append(x.ran, mark)
	}
}

// prepare turns an estimator's beliefs into those that strategies use.
func (x *reading) prepare(beliefs []cascade.Belief) {
	for i, b := range beliefs {
		beliefs[i] = forStrategy(b)
	}
	switch r := x.replay; {
	case r.table.Verified:
		x.judge(beliefs)
	case r.panel(x.row) != nil:
		x.weigh(r.panel(x.row), beliefs)
	}
}

// weigh turns estimates into beliefs for fallible judges: for a model that has not run, the
// probability that it is right with the judges' error rates; for one that has, its posterior
// after their verdicts.
func (x *reading) weigh(p *panel, beliefs []cascade.Belief) {
	seen := x.judgedModels(p)
	for i, b := range beliefs {
		mean := min(max(b.Mean, 0), 1)
		rates, judged := p.rates(x.row, i, seen)
		switch isKnown := slices.Contains(seen, i); {
		case !isKnown && judged:
			if x.latent != nil {
				rates = x.latent.judgeRates(i, rates)
			}
			beliefs[i] = cascade.Belief{Mean: mean, Bernoulli: true, Judge: rates, Shared: b.Shared}
			if x.isSold(p) && p.usual != nil {
				beliefs[i].Look = cascade.LookOf(0, p.usual[i], &rates)
			}
		case isKnown:
			right, wrong := p.likelihoods(x.row, i)
			switch {
			case right == 0 && wrong == 0:
			case x.latent != nil:
				beliefs[i] = cascade.Belief{Mean: mean, Look: b.Look}
			default:
				beliefs[i] = cascade.Belief{Mean: cascade.Posterior(mean, right, wrong)}
			}
		}
	}
}

func (x *reading) judgedModels(p *panel) []int {
	n, first := len(x.replay.table.Models), 0
	if x.isSold(p) {
		first = n
	}
	isOther := func(mark int) bool { return mark < first || mark >= first+n }
	if first == 0 && !slices.ContainsFunc(x.ran, isOther) {
		return x.ran
	}
	models := slices.DeleteFunc(slices.Clone(x.ran), isOther)
	for k := range models {
		models[k] -= first
	}
	return models
}

// judge turns estimates into beliefs for a check that judges every answer: for a model that
// has run its verdict, for others the probability that they pass. If the check is not certain
// of an answer that it passed, a further pass is worth no more.
func (x *reading) judge(beliefs []cascade.Belief) {
	passed := 0.0
	for _, m := range x.ran {
		if v := outcome.At(x.replay.table.Quality, x.row, m); v >= 0.5 {
			passed = max(passed, v)
		}
	}
	for i, b := range beliefs {
		switch verdict := outcome.At(x.replay.table.Quality, x.row, i); {
		case !slices.Contains(x.ran, i) && passed > 0 && passed < 1:
			beliefs[i] = cascade.Belief{Mean: passed * min(max(b.Mean, 0), 1)}
		case !slices.Contains(x.ran, i):
			beliefs[i] = cascade.Belief{Mean: min(max(b.Mean, 0), 1), Bernoulli: true}
		case !math.IsNaN(verdict):
			beliefs[i] = cascade.Belief{Mean: verdict, StdDev: math.Sqrt(verdict * (1 - verdict))}
		}
	}
}

// forStrategy returns a belief for strategies, with a mean close to the range of qualities
// and a valid deviation. A Bernoulli belief gets a deviation of 0, since without a verdict
// its outcome is not revealed.
func forStrategy(b cascade.Belief) cascade.Belief {
	b.Mean = min(max(b.Mean, -0.5), 1.5)
	if b.Bernoulli || !(b.StdDev >= 0) || math.IsInf(b.StdDev, 0) {
		b.StdDev = 0
	}
	return cascade.Belief{Mean: b.Mean, StdDev: b.StdDev, Look: b.Look, Shared: b.Shared}
}

// least is the smallest cost in US dollars that counts.
const least = 1e-15

// positive returns x, or NaN if it is not above zero: such costs and lengths were not
// recorded.
func positive(x float64) float64 {
	if x > least {
		return x
	}
	return math.NaN()
}
