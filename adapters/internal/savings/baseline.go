package savings

import (
	"maps"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
)

// ratio compares numbers y with numbers x, as a ratio of their sums. Ratios add up.
type ratio struct {
	n          int
	y, x       float64
	yy, xy, xx float64
}

func (r *ratio) add(y, x float64) {
	r.n, r.y, r.x = r.n+1, r.y+y, r.x+x
	r.yy, r.xy, r.xx = r.yy+y*y, r.xy+x*y, r.xx+x*x
}

func (r *ratio) merge(o *ratio) {
	r.n, r.y, r.x = r.n+o.n, r.y+o.y, r.x+o.x
	r.yy, r.xy, r.xx = r.yy+o.yy, r.xy+o.xy, r.xx+o.xx
}

// factor is a ratio that is estimated: relative to it, the variance of its mean and that of
// a single number round it.
type factor struct{ value, mean, single float64 }

// factor returns the ratio; 1 where nothing was added.
func (r *ratio) factor() factor {
	if !(r.x > 0) || !(r.y > 0) {
		return factor{value: 1}
	}
	f := factor{value: r.y / r.x}
	if r.n > 1 {
		residual := max(0, r.yy-2*f.value*r.xy+f.value*f.value*r.xx) * float64(r.n) / float64(r.n-1)
		f.mean, f.single = residual/(r.y*r.y), residual/(f.value*f.value*r.xx)
	}
	return f
}

// over divides by a factor that other steps gave.
func (f factor) over(g factor) factor {
	return factor{value: f.value / g.value, mean: f.mean + g.mean, single: f.single}
}

// reference is what is known of a model beside another one, whose answers are there where
// its own are missing.
type reference struct {
	// input and output compare the tokens of the two where both answered.
	input, output ratio
	// missing counts the steps where the model's own answer is, and estimate adds up what it
	// would have cost there with the other one's tokens.
	missing  int
	estimate estimate
}

func (r *reference) merge(o *reference) {
	r.input.merge(&o.input)
	r.output.merge(&o.output)
	r.missing += o.missing
	r.estimate.merge(&o.estimate)
}

// estimate adds up what a model's calls would cost with the tokens of another's, in US
// dollars: fees that do not depend on tokens, the prompt without and with what the other
// had cached of it, and the answer. The squares are those of single steps.
type estimate struct {
	fees, cold, warm, output float64
	cold2, warm2, output2    float64
}

func (e *estimate) merge(o *estimate) {
	e.fees, e.cold, e.warm, e.output = e.fees+o.fees, e.cold+o.cold, e.warm+o.warm, e.output+o.output
	e.cold2, e.warm2, e.output2 = e.cold2+o.cold2, e.warm2+o.warm2, e.output2+o.output2
}

// estimateOf returns what usage u would cost at the price.
func estimateOf(p *sdk.Price, u *sdk.Usage) estimate {
	warm, cold := promptOf(u), sdk.Usage{InputTokens: inputTokens(u)}
	answer := cold
	answer.OutputTokens = u.OutputTokens + u.ReasoningTokens
	whole := answer
	whole.HostedCalls = u.HostedCalls
	e := estimate{
		fees: p.RequestUSD + p.CostUSD(whole) - p.CostUSD(answer),
		cold: p.CostUSD(cold) - p.RequestUSD, warm: p.CostUSD(warm) - p.RequestUSD,
		output: p.CostUSD(answer) - p.CostUSD(cold),
	}
	e.cold2, e.warm2, e.output2 = e.cold*e.cold, e.warm*e.warm, e.output*e.output
	return e
}

// promptOf returns the part of a usage that is the prompt.
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

// compare adds what a step tells of the tokens of a model that answered in it: beside the
// count of the prompt that the step began with, and beside the other models.
func (m *modelSums) compare(t *sdk.Trace, p *sdk.Price, own *sdk.Call) {
	in, out := float64(inputTokens(&own.Usage)), outputTokens(p, &own.Usage)
	m.input.add(in, float64(t.InputTokens))
	m.output.add(out, 1)
	m.cached += own.Usage.CachedInputTokens
	e := estimateOf(p, &own.Usage)
	m.prompts += e.warm
	m.coldPrompts += e.cold
	cold := 0.0
	for i := range t.Calls {
		c := &t.Calls[i]
		if c.Model == own.Model || c.Error != "" {
			continue
		}
		r := m.reference(c.Model)
		r.input.add(in, float64(inputTokens(&c.Usage)))
		r.output.add(out, float64(c.Usage.OutputTokens+c.Usage.ReasoningTokens))
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

// factors returns by what the prompts and answers of another model are multiplied for those
// of m, and whether that was measured: on the steps where both answered, or else by
// what each of them used on its own. 1 is as good as any where m was hardly ever asked.
func (s *sums) factors(m *modelSums, other string) (input, output factor, measured bool) {
	if r := m.references[other]; r != nil && r.output.n >= enoughRuns {
		return r.input.factor(), r.output.factor(), true
	}
	o := s.models[other]
	if o == nil || o.output.n == 0 || m.output.n < enoughRuns {
		return factor{value: 1}, factor{value: 1}, false
	}
	return m.input.factor().over(o.input.factor()), m.output.factor().over(o.output.factor()), true
}

// prompt returns the part of an estimate that is the prompt, and its square. A model that was
// seen to cache finds as much cached as the one that was asked or, where that is more, as
// it found itself elsewhere.
func (m *modelSums) prompt(e *estimate) (usd, squares float64) {
	if m.cached == 0 || !(m.coldPrompts > 0) {
		return e.cold, e.cold2
	}
	if own := m.prompts / m.coldPrompts; own*e.cold < e.warm {
		return own * e.cold, own * own * e.cold2
	}
	return e.warm, e.warm2
}

// estimate returns what m would have cost on the steps of e, and the variance of that.
func (m *modelSums) estimate(e *estimate, input, output factor) (usd, shared, single float64) {
	prompt, squares := m.prompt(e)
	in, out := input.value*prompt, output.value*e.output
	shared = in*in*input.mean + out*out*output.mean
	single = input.value*input.value*squares*input.single + output.value*output.value*e.output2*output.single
	return e.fees + in + out, shared, single
}

// baselineCost returns what always asking m would have cost on steps, half the width of the
// interval of two standard errors, and whether there is one.
func (s *sums) baselineCost(m, steps *modelSums) (usd, twoStdErrors float64, hasInterval bool) {
	usd, hasInterval = steps.real+steps.believedMissing, steps.unpriced == 0
	if m.cached > 0 {
		usd -= steps.cold
	}
	deviation, singles := 0.0, 0.0
	for _, other := range slices.Sorted(maps.Keys(steps.references)) {
		r := steps.references[other]
		if r.missing == 0 {
			continue
		}
		input, output, measured := s.factors(m, other)
		cost, shared, single := m.estimate(&r.estimate, input, output)
		usd += cost
		// The same answers of m are in all of its factors: their errors go one way.
		deviation += math.Sqrt(shared)
		singles += single
		hasInterval = hasInterval && measured
	}
	if !hasInterval {
		return usd, 0, false
	}
	return usd, 2 * math.Sqrt(deviation*deviation+singles), true
}
