package savings

import (
	"maps"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
)

// answers compares what two models say on the same steps: output with all that is paid for
// as such, visible with what goes on in later prompts.
type answers struct{ output, visible ratio }

func (a *answers) add(group int, p *sdk.Price, own, other *sdk.Call, weight float64) {
	a.output.add(group, weight*outputTokens(p, &own.Usage), weight*float64(other.Usage.OutputTokens+other.Usage.ReasoningTokens))
	a.visible.add(group, weight*float64(own.PromptedTokens()), weight*float64(other.PromptedTokens()))
}

func (a *answers) merge(o *answers) {
	a.output.merge(&o.output)
	a.visible.merge(&o.visible)
}

// reference is what is known of a model beside another one, whose answers are there where
// its own are missing.
type reference struct {
	// input compares the tokens that the two make of one prompt.
	input ratio
	// The answers of steps in which the strategy asked both: same are those that say the
	// same. In drawn ones it was chance that asked; each stands for as many steps as it
	// takes until chance asks.
	chosen, same, drawn answers
	// missing counts the steps where the model's own answer is, and estimate adds up what it
	// would have cost there with the other one's tokens.
	missing  int
	estimate estimate
	// expected compares how many tokens the two were expected to answer there.
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

func (r *reference) compare(group int, p *sdk.Price, own, other *sdk.Call) {
	if own.Propensity > 0 && own.Propensity < 1 {
		r.compareDrawn(group, p, own, other, 1/own.Propensity)
		return
	}
	r.input.add(group, float64(inputTokens(&own.Usage)), float64(inputTokens(&other.Usage)))
	r.chosen.add(group, p, own, other, 1)
	if own.Key != "" && own.Key == other.Key {
		r.same.add(group, p, own, other, 1)
	}
}

// compareDrawn adds a step that chance had both answer, which stands for so many.
func (r *reference) compareDrawn(group int, p *sdk.Price, own, other *sdk.Call, weight float64) {
	r.input.add(group, float64(inputTokens(&own.Usage)), float64(inputTokens(&other.Usage)))
	r.drawn.add(group, p, own, other, weight)
}

// estimate adds up what a model's calls would cost with the tokens of another's, in US
// dollars: fees that do not depend on tokens, the prompt without and with what the other
// had cached of it, and the answer; and how many tokens these are. The history is what of
// the prompts of steps, also those that the model was asked in, were answers of the other.
type estimate struct {
	fees, cold, warm, output float64
	input, answer            float64
	coldHistory, warmHistory float64
}

func (e *estimate) add(o *estimate) {
	e.fees, e.cold, e.warm, e.output = e.fees+o.fees, e.cold+o.cold, e.warm+o.warm, e.output+o.output
	e.input, e.answer = e.input+o.input, e.answer+o.answer
	e.coldHistory, e.warmHistory = e.coldHistory+o.coldHistory, e.warmHistory+o.warmHistory
}

func estimateOf(p *sdk.Price, u *sdk.Usage) estimate {
	warm, cold := promptOf(u), sdk.Usage{InputTokens: inputTokens(u)}
	answer := cold
	answer.OutputTokens = u.OutputTokens + u.ReasoningTokens
	whole := answer
	whole.HostedCalls = u.HostedCalls
	return estimate{
		fees: p.RequestUSD + p.CostUSD(whole) - p.CostUSD(answer),
		cold: p.CostUSD(cold) - p.RequestUSD, warm: p.CostUSD(warm) - p.RequestUSD,
		output: p.CostUSD(answer) - p.CostUSD(cold),
		input:  float64(cold.InputTokens), answer: float64(answer.OutputTokens),
	}
}

// expect adds how many tokens the two models were expected to answer in a step.
func (r *reference) expect(t *sdk.Trace, own *sdk.Belief, other string) {
	models := t.Decisions[0].Models
	i := slices.IndexFunc(models, func(b sdk.Belief) bool { return b.Model == other })
	if i < 0 {
		return
	}
	if a, b := own.OutputTokens, models[i].OutputTokens; a > 0 && b > 0 {
		r.expected.add(groupOf(t), a, b)
	}
}

func promptOf(u *sdk.Usage) sdk.Usage {
	return sdk.Usage{InputTokens: u.InputTokens, CachedInputTokens: u.CachedInputTokens, CacheWriteTokens: u.CacheWriteTokens}
}

func inputTokens(u *sdk.Usage) int { return u.InputTokens + u.CachedInputTokens + u.CacheWriteTokens }

// outputTokens counts reasoning as the output tokens that cost the same.
func outputTokens(p *sdk.Price, u *sdk.Usage) float64 {
	weight := 1.0
	if p.Output > 0 {
		weight = p.Reasoning / p.Output
	}
	return float64(u.OutputTokens) + weight*float64(u.ReasoningTokens)
}

// coldUSD is what a call paid more for its prompt than it would have if as much of it had
// been cached as of another's: who is always asked finds what the steps before left.
func coldUSD(p *sdk.Price, own, other *sdk.Usage) float64 {
	total := inputTokens(own)
	if total == 0 || inputTokens(other) == 0 {
		return 0
	}
	cached := int(float64(other.CachedInputTokens) / float64(inputTokens(other)) * float64(total))
	if cached <= own.CachedInputTokens {
		return 0
	}
	warm := promptOf(own)
	rest := float64(total-cached) / float64(total-own.CachedInputTokens)
	warm.CachedInputTokens, warm.CacheWriteTokens = cached, int(rest*float64(own.CacheWriteTokens))
	warm.InputTokens = total - cached - warm.CacheWriteTokens
	return max(0, p.CostUSD(promptOf(own))-p.CostUSD(warm))
}

// answerOf returns the last call of a model that gave an answer, nil where none did.
func answerOf(t *sdk.Trace, model string) *sdk.Call {
	for i := range slices.Backward(t.Calls) {
		if c := &t.Calls[i]; c.Model == model && c.Error == "" {
			return c
		}
	}
	return nil
}

// isMeasure reports whether a call tells how long its model's answers are: one that was cut off,
// whose usage is estimated, or that a check rejected, does not.
func isMeasure(c *sdk.Call) bool {
	isRejected := c.Verdict != nil && c.Verdict.Outcome == sdk.Failed && sdk.IsCheck(c.Verdict.Verifier)
	return c.Error == "" && !c.Usage.Estimated && c.StopReason != sdk.StopReasonCancelled && !isRejected
}

// compare adds what a step tells of the tokens of a model that answered in it: beside the
// count of the prompt that the step began with, and beside the other models.
func (m *modelSums) compare(t *sdk.Trace, p *sdk.Price, own *sdk.Call) {
	if !isMeasure(own) {
		return
	}
	group := groupOf(t)
	m.input.add(group, float64(inputTokens(&own.Usage)), float64(t.InputTokens))
	m.answers.output.add(group, outputTokens(p, &own.Usage), 1)
	m.answers.visible.add(group, float64(own.PromptedTokens()), 1)
	m.cached += own.Usage.CachedInputTokens
	e := estimateOf(p, &own.Usage)
	m.prompts += e.warm
	m.coldPrompts += e.cold
	cold := 0.0
	for i := range t.Calls {
		c := &t.Calls[i]
		if c.Model == own.Model || !isMeasure(c) {
			continue
		}
		m.reference(c.Model).compare(group, p, own, c)
		cold = max(cold, coldUSD(p, &own.Usage, &c.Usage))
	}
	m.cold += cold
}

func (m *modelSums) reference(other string) *reference {
	if m.references == nil {
		m.references = map[string]*reference{}
	}
	if m.references[other] == nil {
		m.references[other] = &reference{}
	}
	return m.references[other]
}

// enoughRuns is on how many steps the tokens of two models must be known before one's are
// estimated by the other's.
const enoughRuns = 5

// selection is by how much the mean of steps that were chosen may be off that of others, in
// standard deviations of single steps: no data say it where none was drawn.
const selection = 0.15

// factor is by what tokens of one model are multiplied for those of another.
type factor struct {
	// ratio is that of steps that both answered. Where other is not nil it is that of all of
	// one's steps, and other that of the other's.
	ratio, other *ratio
	// drawn is the ratio of steps that were drawn, and weight, in [0, 1], what it counts for.
	drawn  *ratio
	weight float64
	// bias is, relative to the factor, by how much steps that were chosen may be off.
	bias float64
}

// factorOf weighs steps that were drawn against those that were chosen by their variances. Of all on which
// both answered, the chosen ones may be those that said the same: by how much they may be off shows in all.
func factorOf(chosen, all, other, drawn *ratio) factor {
	f := factor{ratio: chosen, other: other, bias: selection * max(chosen.deviation(), all.deviation())}
	variance := chosen.variance() + f.bias*f.bias
	if other != nil {
		f.bias = math.Hypot(f.bias, selection*other.deviation())
		variance = chosen.variance() + other.variance() + f.bias*f.bias
	}
	switch {
	case drawn == nil || drawn.n < enoughRuns:
		return f
	case chosen.n < enoughRuns:
		f.weight = 1
	case variance > 0:
		f.weight = variance / (variance + drawn.variance())
	}
	f.drawn = drawn
	f.bias *= 1 - f.weight
	return f
}

// leaveOut returns the factor where a group of runs is left out.
func (f *factor) leaveOut(group int) float64 {
	value := f.ratio.leaveOut(group)
	if f.other != nil {
		value /= f.other.leaveOut(group)
	}
	if f.drawn != nil {
		value += f.weight * (f.drawn.leaveOut(group) - value)
	}
	return value
}

func (f *factor) main() *ratio {
	if f.weight > 0.5 {
		return f.drawn
	}
	return f.ratio
}

// stepVariance returns the variance of usd dollars that single steps make of x tokens.
func (f *factor) stepVariance(usd, x float64) float64 {
	r := f.main()
	if f.other != nil {
		x /= f.other.leaveOut(everyone)
	}
	return usd * usd * r.residual() * r.all.x / x
}

// factors are those of a prompt, of an answer, and of what of an answer is visible.
type factors struct{ input, output, visible factor }

// factors returns by what the prompts and answers of another model are multiplied for those
// of m, and whether that was measured: on the steps where both answered, those that said
// the same where there are enough, or else by what each of them used on its own. Where m was
// hardly ever asked, its answers are as much longer as was expected.
func (s *sums) factors(m *modelSums, other string) (f factors, measured bool) {
	if r := m.references[other]; r != nil {
		chosen := &r.chosen
		if r.same.output.n >= enoughRuns {
			chosen = &r.same
		}
		if max(chosen.output.n, r.drawn.output.n) >= enoughRuns {
			return factors{factor{ratio: &r.input}, factorOf(&chosen.output, &r.chosen.output, nil, &r.drawn.output), factorOf(&chosen.visible, &r.chosen.visible, nil, &r.drawn.visible)}, true
		}
	}
	o := s.models[other]
	if o == nil || o.answers.output.n == 0 || m.answers.output.n < enoughRuns {
		same, expected := factor{ratio: &ratio{}}, factor{ratio: &ratio{}}
		if r := m.references[other]; r != nil {
			expected.ratio = &r.expected
		}
		return factors{same, expected, same}, false
	}
	return factors{factor{ratio: &m.input, other: &o.input}, factorOf(&m.answers.output, &m.answers.output, &o.answers.output, nil), factorOf(&m.answers.visible, &m.answers.visible, &o.answers.visible, nil)}, true
}

// prompt returns the part of an estimate that is the prompt, and what of it is history. A model
// that was seen to cache finds as much cached as the one that was asked or, where that one
// does not cache, as it found itself elsewhere.
func (m *modelSums) prompt(e *estimate) (usd, history float64) {
	switch {
	case m.cached == 0 || !(m.coldPrompts > 0):
		return e.cold, e.coldHistory
	case e.warm < e.cold:
		return e.warm, e.warmHistory
	}
	return m.prompts / m.coldPrompts * e.cold, e.warmHistory
}

// missingAnswers are those of a model, estimated by the answers of another.
type missingAnswers struct {
	factors
	e               *estimate
	prompt, history float64
}

// cost returns what the model would have cost in place of the other, with a group of runs
// left out of the factors. Its own answers take the place of the other's in later prompts.
func (p *missingAnswers) cost(group int) float64 {
	input := p.input.leaveOut(group)
	return p.e.fees + input*(p.prompt-p.history) + p.output.leaveOut(group)*p.e.output + p.visible.leaveOut(group)*p.history
}

// biasAndVariance returns the bias that steps that were chosen may have, and the variance that single
// steps have round what the factors expect.
func (p *missingAnswers) biasAndVariance() (bias, variance float64) {
	output := p.output.leaveOut(everyone) * p.e.output
	bias = p.output.bias*output + p.visible.bias*p.visible.leaveOut(everyone)*math.Abs(p.history)
	if p.e.answer > 0 {
		variance = p.output.stepVariance(output, p.e.answer)
	}
	if p.e.input > 0 {
		variance += p.input.stepVariance(p.input.leaveOut(everyone)*p.prompt, p.e.input)
	}
	return bias, variance
}

// baselineCost is what always asking a model would have cost on some steps.
type baselineCost struct {
	fixed   float64
	missing []missingAnswers
	// hasInterval says that there is one, and drawn that all that is missing is estimated by
	// steps that were drawn.
	hasInterval, drawn bool
}

func (s *sums) baselineCost(m, steps *modelSums) *baselineCost {
	c := &baselineCost{fixed: steps.real + steps.believedMissing, hasInterval: steps.unpriced == 0, drawn: true}
	if m.cached > 0 {
		c.fixed -= steps.cold
	}
	for _, other := range slices.Sorted(maps.Keys(steps.references)) {
		r := steps.references[other]
		if r.missing == 0 && r.estimate.coldHistory == 0 {
			continue
		}
		f, measured := s.factors(m, other)
		p := missingAnswers{factors: f, e: &r.estimate}
		p.prompt, p.history = m.prompt(p.e)
		c.missing = append(c.missing, p)
		c.hasInterval = c.hasInterval && (measured || r.missing == 0)
		c.drawn = c.drawn && f.output.weight > 0
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

// twoStdErrors is half the width of the interval of two standard errors: of the factors by
// the jackknife over groups of runs, of single steps, and of what the steps that were
// chosen leave open, all in one direction.
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
		output := p.output.leaveOut(everyone) * p.e.output
		byStep += output * output * p.output.main().variance()
		freedom = min(freedom, float64(len(p.output.main().byGroup)-1))
	}
	// The variance of Student's distribution: that of few runs is not well known.
	student := max(freedom, 3) / max(freedom-2, 1)
	return 2 * math.Sqrt(student*(max(byGroup, byStep)+single)+bias*bias)
}
