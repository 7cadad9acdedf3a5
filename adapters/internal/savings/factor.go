package savings

import (
	"cmp"
	"math"
	"slices"
)

// enoughRuns is the number of steps with tokens of two models that is needed to estimate one's from the other's.
const enoughRuns = 5

// enoughHeld is the number of answers of a holdout whose mean is better evidence than chosen steps.
const enoughHeld = 50

// selection is how far the mean of chosen steps may be from that of others, in standard deviations of single steps:
// an assumption, as only drawn steps could show it.
const selection = 0.15

// part is one estimate of a factor: the ratio over steps that both answered or, if other is not nil, over all steps of
// the one model, where other is that of the other model. bias is how far it may be off, relative to the ratio.
type part struct {
	ratio, other *ratio
	bias, weight float64
}

func (p *part) variance() float64 {
	if p.other == nil {
		return p.ratio.variance()
	}
	return p.ratio.variance() + p.other.variance()
}

// withoutGroup returns the part's ratio without a group of runs.
func (p *part) withoutGroup(group int) float64 {
	if p.other == nil {
		return p.ratio.withoutGroup(group)
	}
	return p.ratio.withoutGroup(group) / p.other.withoutGroup(group)
}

// factor converts tokens of one model to those of another: the mean of its parts.
type factor []part

// factorOf weighs the parts by their variances and biases.
func factorOf(parts ...part) factor {
	sum := 0.0
	for i := range parts {
		p := &parts[i]
		p.weight = 1 / max(p.variance()+p.bias*p.bias, 1e-12)
		sum += p.weight
	}
	for i := range parts {
		parts[i].weight /= sum
	}
	return parts
}

// withoutGroup returns the factor without a group of runs.
func (f factor) withoutGroup(group int) (value float64) {
	for i := range f {
		value += f[i].weight * f[i].withoutGroup(group)
	}
	return value
}

func (f factor) bias() (bias float64) {
	for i := range f {
		bias += f[i].weight * f[i].bias
	}
	return bias
}

func (f factor) main() part {
	return slices.MaxFunc(f, func(a, b part) int { return cmp.Compare(a.weight, b.weight) })
}

// stepVariance returns the variance, due to single steps, of an amount that was estimated from x tokens.
func (f factor) stepVariance(usd, x float64) float64 {
	p := f.main()
	if p.other != nil {
		x /= p.other.withoutGroup(everyone)
	}
	return usd * usd * p.ratio.residual() * p.ratio.all.x / x
}

// factors holds the factors for prompts, answers, and the visible parts of answers.
type factors struct {
	input, output, visible factor
	// drawn reports that steps that were drawn at random take part.
	drawn bool
}

// evidence is what one factor is estimated from: the answers of both models on chosen steps, on those of them with
// equal answers, and on drawn ones, and those of each on its own, where those of a holdout are drawn.
type evidence struct{ chosen, same, drawn, own, held, other *ratio }

// factor returns the ratio of means where the own ones are those of a holdout, if the other model was asked on nearly
// all other steps: where the one is asked alone, the other's steps are chosen. Otherwise it weighs the comparisons of
// drawn steps with those of chosen ones or, if there are none, takes the means of what each was asked. Steps with equal
// answers deviate less than others that were chosen; their bias is that of all.
func (e *evidence) factor() (f factor, drawn bool) {
	alone := max(0, e.own.n-e.held.n-e.chosen.n-e.drawn.n)
	if e.held.n >= enoughHeld && len(e.held.byGroup) >= enoughRuns && e.other.n > 10*alone {
		return factorOf(part{ratio: e.held, other: e.other, bias: selection * e.other.deviation()}), true
	}
	var parts []part
	if e.drawn.n >= enoughRuns {
		parts, drawn = append(parts, part{ratio: e.drawn}), true
	}
	if chosen := e.chosen; chosen.n >= enoughRuns {
		if e.same.n >= enoughRuns {
			chosen = e.same
		}
		parts = append(parts, part{ratio: chosen, bias: selection * max(chosen.deviation(), e.chosen.deviation())})
	}
	if len(parts) == 0 && e.own.n >= enoughRuns && e.other.n > 0 {
		parts = append(parts, part{ratio: e.own, other: e.other, bias: selection * math.Hypot(e.own.deviation(), e.other.deviation())})
	}
	return factorOf(parts...), drawn
}

// factors returns the factors from another model's answers of one kind to m, or of all kinds if there are too few, and
// whether they were measured. If m was hardly ever asked, its answers are assumed to be longer by the expected ratio.
func (s *sums) factors(m *modelSums, from source) (f factors, measured bool) {
	o := s.of(from.model)
	for _, pooled := range [][]kind{{from.kind}, {text, toolCalls}} {
		var r reference
		var own, held, other answers
		for _, k := range pooled {
			r.merge(m.reference(source{from.model, k}))
			own.merge(&m.answers[k])
			held.merge(&m.held[k])
			other.merge(&o.answers[k])
		}
		output := evidence{&r.chosen.output, &r.same.output, &r.drawn.output, &own.output, &held.output, &other.output}
		visible := evidence{&r.chosen.visible, &r.same.visible, &r.drawn.visible, &own.visible, &held.visible, &other.visible}
		f.output, f.drawn = output.factor()
		f.visible, _ = visible.factor()
		f.input = factorOf(part{ratio: &r.input})
		if r.input.n < enoughRuns {
			f.input = factorOf(part{ratio: &m.input, other: &o.input})
		}
		if len(f.output) > 0 {
			return f, true
		}
	}
	same := factorOf(part{ratio: &ratio{}})
	return factors{input: same, output: factorOf(part{ratio: &m.references[from].expected}), visible: same}, false
}
