package savings

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/stepfall/stepfall/adapters/internal/lookup"
	"github.com/stepfall/stepfall/sdk"
)

// answers compares the answers of two models on the same steps: output counts all tokens that are paid for, visible
// those that later prompts contain.
type answers struct{ output, visible ratio }

func (a *answers) add(group int, p *sdk.Price, own, other *sdk.Call, weight float64) {
	a.output.add(group, weight*outputTokens(p, &own.Usage), weight*float64(other.Usage.OutputTokens+other.Usage.ReasoningTokens))
	a.visible.add(group, weight*float64(own.PromptedTokens()), weight*float64(other.PromptedTokens()))
}

// addOne compares with the number of answers, so that the ratio is their mean length.
func (a *answers) addOne(group int, p *sdk.Price, own *sdk.Call) {
	a.output.add(group, outputTokens(p, &own.Usage), 1)
	a.visible.add(group, float64(own.PromptedTokens()), 1)
}

func (a *answers) merge(o *answers) {
	a.output.merge(&o.output)
	a.visible.merge(&o.visible)
}

// kind tells tool calls from text, which differ in length.
type kind int

const (
	text kind = iota
	toolCalls
	kinds
)

// source names the answers of one kind of a model.
type source struct {
	model string
	kind  kind
}

func sourceOf(c *sdk.Call) source {
	if len(c.Tools) > 0 {
		return source{c.Model, toolCalls}
	}
	return source{c.Model, text}
}

func compareSources(a, b source) int {
	return cmp.Or(cmp.Compare(a.model, b.model), cmp.Compare(a.kind, b.kind))
}

// reference compares a model with answers of one kind of another model, from which its missing ones are estimated.
type reference struct {
	// input compares the two models' token counts of a prompt.
	input ratio
	// chosen covers steps in which the strategy asked both, and same those of them with equal answers. In drawn ones
	// the model was asked at random, and each is weighted by the inverse of the probability.
	chosen, same, drawn answers
	// missing counts the steps without an answer of the model, and estimate adds up its cost there with the other
	// model's tokens.
	missing  int
	estimate estimate
	// expected compares the expected answer lengths of the two models on those steps.
	expected ratio
}

func (r *reference) merge(o *reference) {
	r.input.merge(&o.input)
	r.chosen.merge(&o.chosen)
	r.same.merge(&o.same)
	r.drawn.merge(&o.drawn)
	r.missing += o.missing
	r.estimate.add(&o.estimate)
	r.expected.merge(&o.expected)
}

// compare adds a step in which both answered. weight is the inverse of the probability with which one of the two was
// asked at random; 0 if the strategy asked both.
func (r *reference) compare(group int, p *sdk.Price, own, other *sdk.Call, weight float64) {
	r.input.add(group, float64(inputTokens(&own.Usage)), float64(inputTokens(&other.Usage)))
	if weight > 0 {
		r.drawn.add(group, p, own, other, weight)
		return
	}
	r.chosen.add(group, p, own, other, 1)
	if own.Key != "" && own.Key == other.Key {
		r.same.add(group, p, own, other, 1)
	}
}

// estimate adds up what a model's calls would cost with the tokens of another's, in US dollars: fees that do not
// depend on tokens, prompts that cannot be cached (unmarked), the others without the other's cache hits (cold) and with
// them (warm), and the answer. input and answer are the numbers of tokens. The history is the part of prompts that
// consists of the other model's earlier answers, also in steps in which the model itself was asked.
type estimate struct {
	fees, output, unmarked   float64
	cold, warm               float64
	input, answer            float64
	coldHistory, warmHistory float64
	// hits is the number of prompt tokens that the other model found cached.
	hits float64
}

func (e *estimate) add(o *estimate) {
	e.hits += o.hits
	e.fees, e.output, e.unmarked = e.fees+o.fees, e.output+o.output, e.unmarked+o.unmarked
	e.cold, e.warm = e.cold+o.cold, e.warm+o.warm
	e.input, e.answer = e.input+o.input, e.answer+o.answer
	e.coldHistory, e.warmHistory = e.coldHistory+o.coldHistory, e.warmHistory+o.warmHistory
}

// estimateOf estimates with the tokens of another model's call, but with at least a share of its prompt cached, or with
// nothing cached if it is not marked.
func estimateOf(p *sdk.Price, u *sdk.Usage, share float64, isCacheable bool) estimate {
	warm, cold := promptOf(u), sdk.Usage{InputTokens: inputTokens(u)}
	answer := cold
	answer.OutputTokens = u.OutputTokens + u.ReasoningTokens
	whole := answer
	whole.HostedCalls, whole.Searches = u.HostedCalls, u.Searches
	e := estimate{
		fees: p.RequestUSD + p.CostUSD(whole) - p.CostUSD(answer),
		cold: p.CostUSD(cold) - p.RequestUSD, warm: p.CostUSD(warm) - p.RequestUSD - p.ColdUSD(*u, share),
		output: p.CostUSD(answer) - p.CostUSD(cold),
		input:  float64(cold.InputTokens), answer: float64(answer.OutputTokens), hits: float64(u.CachedInputTokens),
	}
	if !isCacheable {
		e.unmarked, e.cold, e.warm, e.hits = e.cold, 0, 0, 0
	}
	return e
}

// expect adds the expected output tokens of the two models in a step.
func (r *reference) expect(t *sdk.Trace, own *sdk.Belief, other string) {
	if b := t.Belief(other); b != nil && own.OutputTokens > 0 && b.OutputTokens > 0 {
		r.expected.add(groupOf(t), own.OutputTokens, b.OutputTokens)
	}
}

func promptOf(u *sdk.Usage) sdk.Usage {
	return sdk.Usage{InputTokens: u.InputTokens, CachedInputTokens: u.CachedInputTokens, CacheWriteTokens: u.CacheWriteTokens}
}

func inputTokens(u *sdk.Usage) int { return u.InputTokens + u.CachedInputTokens + u.CacheWriteTokens }

// outputTokens counts output tokens, with reasoning tokens converted by price.
func outputTokens(p *sdk.Price, u *sdk.Usage) float64 {
	weight := 1.0
	if p.Output > 0 {
		weight = p.Reasoning / p.Output
	}
	return float64(u.OutputTokens) + weight*float64(u.ReasoningTokens)
}

// AnswerOf returns the last call of a model that gave an answer, or nil.
func AnswerOf(t *sdk.Trace, model string) *sdk.Call {
	for i := range slices.Backward(t.Calls) {
		if c := &t.Calls[i]; c.Model == model && c.Error == "" {
			return c
		}
	}
	return nil
}

// isMeasure reports whether a call is representative of the length of its model's answers: not if it was cut off, its
// usage is estimated, or a check rejected it.
func isMeasure(c *sdk.Call) bool {
	isRejected := c.Verdict != nil && c.Verdict.Outcome == sdk.Failed && sdk.IsCheck(c.Verdict.Verifier)
	return c.Error == "" && !c.Usage.Estimated && c.StopReason != sdk.StopReasonCancelled && !isRejected
}

// compare adds the tokens of a model that answered in a step, compared with the step's own count of the prompt and
// with the other models.
func (m *modelSums) compare(t *sdk.Trace, p *sdk.Price, own *sdk.Call) {
	if !isMeasure(own) {
		return
	}
	group, kind := groupOf(t), sourceOf(own).kind
	m.input.add(group, float64(inputTokens(&own.Usage)), float64(t.InputTokens))
	m.answers[kind].addOne(group, p, own)
	m.asked++
	e := estimateOf(p, &own.Usage, 0, t.IsCacheable(p))
	m.cached += own.Usage.CachedInputTokens
	m.prompts += e.warm
	m.coldPrompts += e.cold
	if t.Holdout.UsesBaseline() && !t.Holdout.Fallback {
		m.held[kind].addOne(group, p, own)
	}
	weight := 0.0
	if own.Propensity > 0 && own.Propensity < 1 {
		weight = 1 / own.Propensity
	}
	for i := range t.Calls {
		if c := &t.Calls[i]; c.Model != own.Model && isMeasure(c) {
			m.reference(sourceOf(c)).compare(group, p, own, c, weight)
		}
	}
}

func (m *modelSums) reference(other source) *reference { return lookup.Entry(&m.references, other) }

// prompt returns the cost of the prompt in an estimate, and the part of it that is history. A model is assumed to have
// as many cache hits as the model that was asked or, if that one has none, as it had itself in other steps; but none
// if it was asked often enough and had none.
func (m *modelSums) prompt(e *estimate) (usd, history float64) {
	switch hasHits := m.cached > 0; {
	case hasHits && e.hits == 0 && m.coldPrompts > 0:
		return e.unmarked + min(e.warm, m.prompts/m.coldPrompts*e.cold), e.warmHistory
	case e.warm < e.cold && (hasHits || m.asked < enoughRuns):
		return e.unmarked + e.warm, e.warmHistory
	case hasHits && m.coldPrompts > 0:
		return e.unmarked + m.prompts/m.coldPrompts*e.cold, e.warmHistory
	}
	return e.unmarked + e.cold, e.coldHistory
}

// missingAnswers estimates the missing answers of a model from those of another.
type missingAnswers struct {
	factors
	e               *estimate
	prompt, history float64
}

// cost returns what the model would have cost in place of the other, with factors without a group of runs. Its own
// answers replace the other's in later prompts.
func (p *missingAnswers) cost(group int) float64 {
	input := p.input.withoutGroup(group)
	return p.e.fees + input*(p.prompt-p.history) + p.output.withoutGroup(group)*p.e.output + p.visible.withoutGroup(group)*p.history
}

// biasAndVariance returns the possible bias of chosen steps, and the variance of single steps around the factors'
// prediction.
func (p *missingAnswers) biasAndVariance() (bias, variance float64) {
	output := p.output.withoutGroup(everyone) * p.e.output
	bias = p.output.bias()*output + p.visible.bias()*p.visible.withoutGroup(everyone)*math.Abs(p.history)
	if p.e.answer > 0 {
		variance = p.output.stepVariance(output, p.e.answer)
	}
	if p.e.input > 0 {
		variance += p.input.stepVariance(p.input.withoutGroup(everyone)*p.prompt, p.e.input)
	}
	return bias, variance
}

// baselineCost is the cost of always asking one model on some steps.
type baselineCost struct {
	fixed   float64
	missing []missingAnswers
	// drawn reports that all missing answers are estimated from steps that were drawn.
	hasInterval, drawn bool
}

func (s *sums) baselineCost(m, steps *modelSums) *baselineCost {
	c := &baselineCost{fixed: steps.real + steps.believedMissing, hasInterval: steps.unpriced == 0, drawn: true}
	if m.cached > 0 {
		c.fixed -= steps.cold
	}
	for _, from := range slices.SortedFunc(maps.Keys(steps.references), compareSources) {
		r := steps.references[from]
		if r.missing == 0 && r.estimate.coldHistory == 0 {
			continue
		}
		f, measured := s.factors(m, from)
		p := missingAnswers{factors: f, e: &r.estimate}
		p.prompt, p.history = m.prompt(p.e)
		c.missing = append(c.missing, p)
		c.hasInterval = c.hasInterval && (measured || r.missing == 0)
		c.drawn = c.drawn && f.drawn
	}
	return c
}

func (c *baselineCost) usd(group int) float64 {
	usd := c.fixed
	for i := range c.missing {
		usd += c.missing[i].cost(group)
	}
	return usd
}

// twoStdErrors returns half the width of an interval of two standard errors: those of the factors, by a jackknife
// over groups of runs, those of single steps, and the possible bias of chosen steps, taken to have the same sign
// everywhere.
func (c *baselineCost) twoStdErrors() float64 {
	if !c.hasInterval {
		return 0
	}
	all, bias, byGroup, byStep, single := c.usd(everyone), 0.0, 0.0, 0.0, 0.0
	for group := range groups {
		d := c.usd(group) - all
		byGroup += d * d * (groups - 1) / groups
	}
	freedom := groups - 1.0
	for i := range c.missing {
		p := &c.missing[i]
		b, v := p.biasAndVariance()
		bias += b
		single += v
		output := p.output.withoutGroup(everyone) * p.e.output
		byStep += output * output * p.output.main().ratio.variance()
		freedom = min(freedom, float64(len(p.output.main().ratio.byGroup)-1))
	}
	// The variance of Student's t distribution, since few runs do not determine the variance well.
	student := max(freedom, 3) / max(freedom-2, 1)
	return 2 * math.Sqrt(student*(max(byGroup, byStep)+single)+bias*bias)
}
