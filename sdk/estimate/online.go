package estimate

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/feature"
)

// FeatureAnte is the prefix of the query feature ([sdk.Query.Features]) that holds a
// model's ex-ante signal, such as "ante:gpt-4o".
const FeatureAnte = "ante:"

// SignalPost is the name of the answer signal ([sdk.Answer.Signals]) that holds the
// post-hoc signal of quality.
const SignalPost = "post"

// QualityEstimator returns e's quality estimator for the step engine. It abstains on
// models that e was not fitted to. The prompt is the last text of the user, and answers
// are compared by [feature.AnswerKey].
func (e *Estimator) QualityEstimator() sdk.QualityEstimator {
	o := &online{estimator: e, signals: e.Quality.Signals()}
	for judge := range e.VerdictsUSD {
		o.judge = judge
	}
	o.pool.New = func() any {
		return &onlineCursor{
			quality: e.Quality.Cursor(),
			beliefs: make([]cascade.Belief, len(e.Models)),
			signals: make([]float64, len(o.signals)),
			judged:  make([]bool, len(e.Models)),
		}
	}
	return sdk.QualityEstimatorFunc(o.quality)
}

// CostEstimator returns e's cost estimator for the step engine. It abstains on models
// that e was not fitted to.
func (e *Estimator) CostEstimator() sdk.CostEstimator {
	o := &online{estimator: e}
	o.pool.New = func() any {
		return &onlineCursor{cost: e.Cost.Cursor(), costs: make([]float64, len(e.Models))}
	}
	return sdk.CostEstimatorFunc(o.costs)
}

type online struct {
	judge     string // the judge whose verdicts have a price; "" for none
	estimator *Estimator
	signals   []string
	pool      sync.Pool
}

type onlineCursor struct {
	quality qualityCursor
	cost    costCursor
	beliefs []cascade.Belief
	costs   []float64
	signals []float64
	judged  []bool // by model: its answer has a verdict
}

func (o *online) quality(_ context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
	c := o.pool.Get().(*onlineCursor)
	defer o.pool.Put(c)
	q := o.query(req.Query)
	c.quality.Begin(&q)
	latent, _ := c.quality.(*latentCursor)
	clear(c.judged)
	o.observe(req.Attempts, c.signals, func(m int, r *runFacts) {
		c.quality.Observe(m, r)
		c.judged[m] = r.IfRight > 0 || r.IfWrong > 0
		for latent != nil {
			at := slices.Index(o.signals, latent.Offered(m))
			if at < 0 || math.IsNaN(r.Signals[at]) {
				break
			}
			latent.Look(m, r.Signals)
		}
	})
	c.quality.Beliefs(c.beliefs)
	estimates, shared := make([]sdk.Estimate, len(req.Models)), make([]float64, len(req.Models))
	var offered []sdk.Look
	for i, name := range req.Models {
		m := slices.Index(o.estimator.Models, name)
		if m < 0 {
			estimates[i] = sdk.Abstain()
			continue
		}
		b := forStrategy(c.beliefs[m])
		estimates[i], shared[i] = sdk.Estimate{Mean: b.Mean, StdDev: b.StdDev}, b.Shared
		isSold := o.judge != "" && !c.judged[m]
		if b.Look == (cascade.Look{}) && !isSold {
			continue
		}
		if offered == nil {
			offered = make([]sdk.Look, len(req.Models))
		}
		if isSold {
			offered[i] = sdk.Look{Signal: o.judge, CostUSD: o.estimator.VerdictsUSD[o.judge][m]}
			continue
		}
		offered[i] = sdk.Look{Signal: latent.Offered(m), StdDev: b.Look.StdDev, CostUSD: b.Look.CostUSD}
		if b.Look.Bernoulli {
			judge := b.Look.Judge
			offered[i].Judge = &judge
		}
	}
	resp := &sdk.QualityResponse{Estimates: estimates, Looks: offered, Shared: shared, Weighs: latent != nil}
	if latent != nil {
		resp.ByAgreement, resp.Judge = latent.byAgreement(), o.judgeRates(latent, req.Models)
	}
	return resp, nil
}

// judgeRates returns the current error rates of a judge whose errors are correlated, or nil if there is none.
func (o *online) judgeRates(c *latentCursor, models []string) *sdk.JudgeRates {
	if c.Misreads == nil {
		return nil
	}
	usual := c.Misreads.Usual
	next := make([]cascade.Rates, len(models))
	for i, name := range models {
		next[i] = usual
		if m := slices.Index(o.estimator.Models, name); m >= 0 {
			next[i] = c.judgeRates(m, usual)
		}
	}
	return &sdk.JudgeRates{Usual: usual, Next: next}
}

func (o *online) costs(_ context.Context, req *sdk.CostRequest) (*sdk.CostResponse, error) {
	c := o.pool.Get().(*onlineCursor)
	defer o.pool.Put(c)
	q := o.query(req.Query)
	c.cost.Begin(&q)
	o.observe(req.Attempts, nil, c.cost.Observe)
	c.cost.Costs(c.costs)
	estimates := make([]sdk.Estimate, len(req.Models))
	for i := range req.Models {
		m := slices.Index(o.estimator.Models, req.Models[i].Name)
		if m < 0 {
			estimates[i] = sdk.Abstain()
			continue
		}
		estimates[i] = sdk.Estimate{Mean: c.costs[m]}
	}
	return &sdk.CostResponse{Estimates: estimates}, nil
}

// query returns the facts about an sdk query, which can be nil.
func (o *online) query(from *sdk.Query) queryFacts {
	var q queryFacts
	if from == nil {
		return q
	}
	q.Group, q.Prompt, q.InputTokens = from.Group, from.LastUserText(), float64(from.InputTokens)
	q.Troubles = feature.ToolTroubles(from.Features)
	for m, name := range o.estimator.Models {
		v, known := from.Features[FeatureAnte+name]
		if !known {
			continue
		}
		if q.Ante == nil {
			q.Ante = make([]float64, len(o.estimator.Models))
			for i := range q.Ante {
				q.Ante[i] = math.NaN()
			}
		}
		q.Ante[m] = v
	}
	return q
}

// signalOf returns a signal of an answer, or NaN if it is unknown.
func signalOf(a *sdk.Answer, name string) float64 {
	if v, known := a.Signals[name]; known {
		return v
	}
	return math.NaN()
}

// observe calls observe with the last attempt of each known model.
func (o *online) observe(attempts []sdk.Attempt, signals []float64, observe func(int, *runFacts)) {
	for i := range attempts {
		a := &attempts[i]
		m := slices.Index(o.estimator.Models, a.Answer.Model)
		later := slices.ContainsFunc(attempts[i+1:], func(b sdk.Attempt) bool { return b.Answer.Model == a.Answer.Model })
		if m < 0 || later {
			continue
		}
		r := unknownRun()
		if a.Verdict.Errs() {
			r.IfRight, r.IfWrong = a.Verdict.IfRight, a.Verdict.IfWrong
		} else if quality, judged := a.Verdict.Quality(); judged {
			r.Verdict = quality
		}
		r.Post = signalOf(&a.Answer, SignalPost)
		r.Answer = feature.AnswerKey(&a.Answer)
		usage := a.Answer.Usage
		if usage.Estimated {
			usage = sdk.Usage{} // estimated lengths count as unknown, as in tables
		}
		r.OutputTokens = positive(float64(usage.OutputTokens + usage.ReasoningTokens))
		r.CostUSD = positive(a.Answer.CostUSD)
		for k, name := range o.signals {
			signals[k] = signalOf(&a.Answer, name)
		}
		r.Signals = signals
		observe(m, &r)
	}
}
