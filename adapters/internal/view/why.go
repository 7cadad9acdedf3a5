package view

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// question is a decision of a trace, with the engine's input for it.
type question struct {
	trace    *sdk.Trace
	decision *sdk.Decision
	state    cascade.State
	setting  cascade.Setting
	tuned    cascade.Tunable
	// threshold reports that the slider sets a threshold and not a lambda.
	threshold bool
}

// ExplainDecision recomputes the n-th decision of the trace, counted from 0, and explains it in one sentence. The
// error says why it cannot be recomputed.
func ExplainDecision(t *sdk.Trace, n int) (string, error) {
	q, err := questionAt(t, n)
	if err != nil {
		return "", err
	}
	a, err := q.explain(q.knob())
	if err != nil {
		return "", err
	}
	if a.Run != t.Decisions[n].Run {
		return "", errors.New("the decision cannot be reproduced: the trace lacks some of its inputs")
	}
	return a.Sentence, nil
}

// questionAt returns the n-th decision of the trace, or an error if it cannot be recomputed.
func questionAt(t *sdk.Trace, n int) (*question, error) {
	d := &t.Decisions[n]
	q := &question{trace: t, decision: d, threshold: t.Strategy == cascade.NameThreshold}
	var names []string
	for i := range d.Models {
		b := &d.Models[i]
		names = append(names, b.Model)
		q.state.Beliefs = append(q.state.Beliefs, beliefOf(b))
		q.state.Costs = append(q.state.Costs, b.CostUSD)
	}
	q.state.Ran = ranModels(t, d)
	q.state.Coin = t.Setting.Coin
	if err := q.state.Validate(); err != nil {
		return nil, fmt.Errorf("the decision cannot be recomputed from the trace: %w", err)
	}
	q.setting = t.Setting.Setting
	q.setting.Name, q.setting.Lambdas = t.Strategy, []float64{d.Lambda}
	q.setting.Order = slices.DeleteFunc(slices.Clone(q.setting.Order), func(name string) bool { return !slices.Contains(names, name) })
	if q.threshold {
		q.setting.Lambdas = nil
	}
	strategy, err := q.setting.Strategy(names)
	if err != nil {
		return nil, fmt.Errorf("the strategy %s is not built in: its decisions are shown as recorded", t.Strategy)
	}
	var ok bool
	if q.tuned, ok = strategy.(cascade.Tunable); !ok {
		return nil, fmt.Errorf("the strategy %s has no setting to vary: its decisions are shown as recorded", t.Strategy)
	}
	return q, nil
}

// ranModels returns the indexes in d.Models of the models that had run before the decision, in the order of their
// calls.
func ranModels(t *sdk.Trace, d *sdk.Decision) (ran []int) {
	for _, c := range t.Calls {
		i := slices.IndexFunc(d.Models, func(b sdk.Belief) bool { return b.Model == c.Model && b.Ran })
		if i >= 0 && !slices.Contains(ran, i) {
			ran = append(ran, i)
		}
	}
	return ran
}

// beliefOf returns the belief about a model at a decision. A model that has run is not judged again.
func beliefOf(b *sdk.Belief) cascade.Belief {
	belief := cascade.Belief{Mean: b.Quality.Mean, StdDev: b.Quality.StdDev}
	if !b.Ran {
		belief.Bernoulli, belief.Judge, belief.Shared = b.Judged, b.Judge, b.Shared
	}
	if b.Look != nil {
		belief.Look = cascade.LookOf(b.Look.StdDev, b.Look.CostUSD, b.Look.Judge)
	}
	return belief
}

func (q *question) knob() float64 {
	if !q.threshold {
		return q.decision.Lambda
	}
	if t := q.setting.Thresholds; len(t) > 0 {
		return t[min(max(len(q.state.Ran)-1, 0), len(t)-1)]
	}
	return 0
}

func (q *question) strategyAt(knob float64) (cascade.Strategy, error) {
	return q.tuned.Tune([]float64{knob}, q.setting.Gamma)
}

func (q *question) decide(knob float64) (run string, err error) {
	s, err := q.strategyAt(knob)
	if err != nil {
		return "", err
	}
	d := s.Decide(&q.state)
	if d.Look {
		return "", nil
	}
	return q.name(d.Run), nil
}

func (q *question) name(i int) string {
	if i < 0 {
		return ""
	}
	return q.decision.Models[i].Model
}

// candidate is one model at a decision, at one lambda. Its JSON holds only what depends on the lambda.
type candidate struct {
	Model  string      `json:"model"`
	Belief *sdk.Belief `json:"-"`
	// Price is lambda times the cost; Gain is what running the model adds to the expected quality.
	Price float64 `json:"-"`
	Gain  float64 `json:"-"`
	// Value is the reservation value (index) or the tau of the model on its own.
	Value float64 `json:"-"`
	// PriceText and ValueText are the formatted values, "" without one.
	PriceText string `json:"price"`
	ValueText string `json:"value"`
	Next      bool   `json:"next"`
	// State describes the role of the model in the decision.
	State string `json:"state"`
}

// answer is the engine's decision at one lambda.
type answer struct {
	Knob       float64     `json:"-"`
	Run        string      `json:"run"`
	Sentence   string      `json:"sentence"`
	Candidates []candidate `json:"candidates"`
}

func (q *question) explain(knob float64) (*answer, error) {
	s, err := q.strategyAt(knob)
	if err != nil {
		return nil, err
	}
	x, ok := s.(cascade.Explainer)
	if !ok {
		return nil, fmt.Errorf("the strategy %s explains no decisions", q.trace.Strategy)
	}
	e := x.Explain(&q.state)
	a := &answer{Knob: knob, Run: q.name(e.Decision.Run)}
	for i := range q.decision.Models {
		b := &q.decision.Models[i]
		c := candidate{Model: b.Model, Belief: b, Next: i == e.Decision.Run}
		if !b.Ran && !q.threshold {
			c.Price = knob * b.CostUSD
		}
		if !b.Ran {
			c.PriceText = quality(c.Price)
		}
		q.value(&c, i, &e)
		a.Candidates = append(a.Candidates, c)
	}
	a.Sentence = q.sentence(a, &e)
	return a, nil
}

func (q *question) value(c *candidate, i int, e *cascade.Explanation) {
	for _, alt := range e.Alternatives {
		if len(alt.Models) != len(q.state.Ran)+1 || alt.Models[len(alt.Models)-1] != i {
			continue
		}
		c.Value = alt.Tau
		if q.trace.Strategy == cascade.NameIndex {
			c.Value = alt.Reservation
		}
		if !math.IsInf(c.Value, 0) {
			c.ValueText = quality(c.Value)
		}
	}
	var option *cascade.Option
	if k := slices.IndexFunc(e.Options, func(o cascade.Option) bool { return o.Model == i }); k >= 0 {
		if option = &e.Options[k]; !math.IsInf(option.Gain, 0) {
			c.Gain = option.Gain
		}
	}
	c.State = q.describeState(c, option)
}

// describeState describes the role of a candidate; option is nil if it cannot be asked.
func (q *question) describeState(c *candidate, option *cascade.Option) string {
	switch {
	case c.Belief.Ran:
		return "has run"
	case c.Next:
		return "asked next"
	case option == nil:
		if q.threshold {
			return "waits for its turn"
		}
		return "cannot be asked now"
	case option.Pruned:
		return "pruned: at best it adds less than its price"
	case option.Chosen:
		return "in the plan, after cheaper ones"
	case option.Gain < option.Price:
		return fmt.Sprintf("would add %s, less than its price", quality(option.Gain))
	}
	return "others are worth more"
}

func (q *question) sentence(a *answer, e *cascade.Explanation) string {
	best := ""
	if e.Decision.Answer >= 0 {
		b := q.decision.Models[e.Decision.Answer]
		best = fmt.Sprintf("the answer of %s, with estimated quality %s", plainText(b.Model), percent(b.Quality.Mean))
	}
	if a.Run == "" {
		return q.explainStop(best, a.Knob)
	}
	next := &a.Candidates[e.Decision.Run]
	b := next.Belief
	hope := fmt.Sprintf("%s has expected quality %s", plainText(next.Model), percent(b.Quality.Mean))
	if !b.Judged && b.Quality.StdDev > 0 {
		hope += fmt.Sprintf(" ± %s", percent(b.Quality.StdDev))
	}
	hope += fmt.Sprintf(" for %s", dollars(b.CostUSD))
	if q.threshold {
		if best == "" {
			return fmt.Sprintf("Ask %s, the first in order: %s.", plainText(next.Model), hope)
		}
		return fmt.Sprintf("Ask %s, the next in order: %s lies below the threshold of %s.", plainText(next.Model), best, quality(a.Knob))
	}
	if best == "" {
		return fmt.Sprintf("Ask %s first: %s, which counts %s at this price of quality.", plainText(next.Model), hope, quality(next.Price))
	}
	return fmt.Sprintf("Ask %s: %s. So far there is %s; another try adds %s and counts %s.", plainText(next.Model), hope, best, quality(next.Gain), quality(next.Price))
}

// explainStop explains why a query stops with the best answer, or without one.
func (q *question) explainStop(best string, knob float64) string {
	switch {
	case best == "":
		return "Stop without an answer: no model is worth its price."
	case q.threshold:
		return fmt.Sprintf("Stop with %s: that reaches the threshold of %s, or no model is left.", best, quality(knob))
	case len(q.state.Ran) == len(q.decision.Models):
		return fmt.Sprintf("Stop with %s: every model has run.", best)
	}
	return fmt.Sprintf("Stop with %s: no further model is worth its price.", best)
}
