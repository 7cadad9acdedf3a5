package savings

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/stepfall/stepfall/adapters/internal/holdout"
	"github.com/stepfall/stepfall/adapters/internal/lookup"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// Account adds up steps. It keeps sums only, so its size hardly depends on the number of steps. The zero value is
// ready to use; it is safe for concurrent use.
type Account struct {
	// Baseline, when not empty, is the model to compare with; set it before the first step. Otherwise it is the model
	// with the highest expected cost.
	Baseline string

	mu sync.Mutex
	sums
	// holdout compares the policy with the runs that used the baseline.
	holdout holdout.Account
	// runs holds the runs with a step or a verdict, with the last verdict on each.
	runs map[string]runVerdict
	// shadowSteps holds answers of shadowed steps, and of their shadows, that wait for their counterpart.
	shadowSteps map[shadowKey]shadowAnswer
	histories   histories
	hasMarks    bool // a client marks prompts for caching
}

type runVerdict struct{ hasStep, hasVerdict, judged, passed bool }

// maxRuns bounds the runs that an account remembers.
const maxRuns = 100_000

// sums is the state of an [Account]. Those of two accounts add up field by field.
type sums struct {
	steps, unanswered int
	// read counts all traces, including shadows and embeddings.
	read int
	// spent is the total, of which shadowed went to shadow runs.
	spent, shadowed     float64
	shadows, embeddings int
	// discarded was spent on answers that were not returned, and verdicts on judges.
	discarded, verdicts float64
	models              map[string]*modelSums
	// judged holds verdicts on returned answers by verifier; guessed is the mean estimate of returned answers without
	// one.
	judged  map[string]*verdicts
	guessed mean
}

// verdicts counts the verdicts of one verifier. erring counts those with known error rates, which add the probability
// that the answer is right to right.
type verdicts struct {
	passed, failed, inconclusive, erring int
	right                                float64
}

func (v *verdicts) add(c *sdk.Call) {
	switch c.Verdict.Outcome {
	case sdk.Passed:
		v.passed++
	case sdk.Failed:
		v.failed++
	default:
		v.inconclusive++
		return
	}
	switch {
	case c.Verdict.Errs():
		v.erring++
		v.right += c.Quality.Mean
	case c.Verdict.Outcome == sdk.Passed:
		v.right++
	}
}

// mean is a sum of n values.
type mean struct {
	n   int
	sum float64
}

func (m *mean) add(x float64) { m.n, m.sum = m.n+1, m.sum+x }

func (m *mean) value() float64 { return m.sum / float64(max(m.n, 1)) }

// modelSums adds up the steps in which one model could have been asked.
type modelSums struct {
	// believed adds up the expected costs of the model, quality the expected qualities.
	believed, quality mean
	// ran counts the steps in which it ran, at the total cost real; failed counts those without an answer from any
	// model, estimated the rest. spent is the cost of all these steps.
	ran, failed, estimated int
	spent, real            float64
	// cold is the part of real for prompts that would have been cached. unpriced counts the estimated steps without
	// the model's prices, believedMissing adds up their expected costs.
	cold, believedMissing float64
	unpriced              int
	// input and answers compare its own tokens: those of a prompt with the step's count, and those of the asked
	// answers; held has those of the holdout's runs, which are drawn. cached is the number of cached tokens, prompts the
	// cost of the prompts, and coldPrompts what they would have cost without a cache.
	input                ratio
	answers, held        [kinds]answers
	asked, cached        int
	prompts, coldPrompts float64
	references           map[source]*reference
}

// Record adds a step. It implements [step.Sink].
func (a *Account) Record(ctx context.Context, t *sdk.Trace) {
	a.holdout.Record(ctx, t)
	a.mu.Lock()
	defer a.mu.Unlock()
	if v, isReport := t.RunVerdict(); isReport { // replaces an earlier verdict on the run; an inconclusive one removes it
		quality, judged := v.Quality()
		a.note(t, runVerdict{hasVerdict: true, judged: judged, passed: judged && quality >= 0.5})
	}
	if !sdk.IsStep(t.Mode) {
		return
	}
	if t.Run != "" {
		a.note(t, runVerdict{hasStep: true})
	}
	a.read++
	a.spent += t.ForSums().CostUSD
	if len(t.Decisions) > 0 {
		a.joinShadow(t)
	}
	switch t.Mode {
	case middleware.ShadowAlternative:
		a.addShadow(t)
		return
	case sdk.ModeEmbeddings:
		a.embeddings++
		return
	case sdk.ModeRoutedAttempt:
		a.verdicts += t.VerdictsUSD()
		return
	case sdk.ModeAttemptCall:
		return
	}
	a.steps++
	if t.Chosen == "" {
		a.unanswered++
	}
	a.judge(t)
	a.addWaste(t)
	if len(t.Decisions) == 0 {
		return
	}
	said := a.histories.begin(t)
	a.hasMarks = a.hasMarks || t.HasMarks()
	for i := range t.Decisions[0].Models {
		b := &t.Decisions[0].Models[i]
		share, isCacheable := said.cachedShare(t, b, a.hasMarks)
		a.of(b.Model).add(t, b, share, isCacheable)
		said.add(a.of(b.Model), t, b, isCacheable)
	}
	said.answer(t)
}

// addShadow adds a shadow run, and the token counts of its models.
func (s *sums) addShadow(t *sdk.Trace) {
	s.shadowed += t.CostUSD
	if len(t.Calls) > 0 { // else it was skipped, or needed no call
		s.shadows++
	}
	if len(t.Decisions) == 0 {
		return
	}
	for i := range t.Decisions[0].Models {
		b := &t.Decisions[0].Models[i]
		if own := AnswerOf(t, b.Model); own != nil && b.Price != nil {
			s.of(b.Model).compare(t, b.Price, own)
		}
	}
}

func (a *Account) note(t *sdk.Trace, v runVerdict) {
	unit := holdout.Unit(t.Tenant, t.Run, "", "")
	if _, known := a.runs[unit]; !known {
		lookup.MakeRoom(&a.runs, maxRuns)
	}
	a.runs[unit] = a.runs[unit].with(v)
}

func (v runVerdict) with(w runVerdict) runVerdict {
	hasStep := v.hasStep || w.hasStep
	if w.hasVerdict {
		v = w
	}
	v.hasStep = hasStep
	return v
}

// Add adds the sums of another account.
func (a *Account) Add(b *Account) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holdout.Add(&b.holdout)
	if a.runs == nil {
		a.runs = map[string]runVerdict{}
	}
	for name, v := range b.runs {
		a.runs[name] = a.runs[name].with(v)
	}
	a.discarded += b.discarded
	a.verdicts += b.verdicts
	a.steps += b.steps
	a.read += b.read
	a.unanswered += b.unanswered
	a.spent += b.spent
	a.shadowed += b.shadowed
	a.shadows += b.shadows
	a.embeddings += b.embeddings
	a.guessed.merge(&b.guessed)
	for name, v := range b.judged {
		own := lookup.Entry(&a.judged, name)
		own.passed, own.failed, own.inconclusive = own.passed+v.passed, own.failed+v.failed, own.inconclusive+v.inconclusive
		own.erring, own.right = own.erring+v.erring, own.right+v.right
	}
	for name, m := range b.models {
		a.of(name).merge(m)
	}
}

func (m *mean) merge(o *mean) { m.n, m.sum = m.n+o.n, m.sum+o.sum }

func (m *modelSums) merge(o *modelSums) {
	m.believed.merge(&o.believed)
	m.quality.merge(&o.quality)
	m.ran, m.failed, m.estimated = m.ran+o.ran, m.failed+o.failed, m.estimated+o.estimated
	m.spent, m.real = m.spent+o.spent, m.real+o.real
	m.cold, m.believedMissing, m.unpriced = m.cold+o.cold, m.believedMissing+o.believedMissing, m.unpriced+o.unpriced
	m.input.merge(&o.input)
	for kind := range kinds {
		m.answers[kind].merge(&o.answers[kind])
		m.held[kind].merge(&o.held[kind])
	}
	m.asked, m.cached = m.asked+o.asked, m.cached+o.cached
	m.prompts, m.coldPrompts = m.prompts+o.prompts, m.coldPrompts+o.coldPrompts
	for name, r := range o.references {
		m.reference(name).merge(r)
	}
}

func (s *sums) of(model string) *modelSums { return lookup.Entry(&s.models, model) }

// judge counts the verdict on the returned answer, or its estimated quality.
func (s *sums) judge(t *sdk.Trace) {
	c := ChosenCall(t)
	if c == nil {
		return
	}
	v := c.Verdict
	if v == nil || sdk.IsCheck(v.Verifier) {
		s.guessed.add(c.Quality.Mean)
		return
	}
	if v.Outcome == sdk.Inconclusive {
		s.guessed.add(c.Quality.Mean)
	}
	lookup.Entry(&s.judged, v.Verifier).add(c)
}

// addWaste adds the costs of verdicts and of answers that were not returned.
func (s *sums) addWaste(t *sdk.Trace) {
	chosen := ChosenCall(t)
	for i := range t.Calls {
		if c := &t.Calls[i]; c != chosen {
			s.discarded += c.CostUSD
		}
	}
	s.verdicts += t.VerdictsUSD()
}

// ChosenCall returns the call whose answer was returned, or nil.
func ChosenCall(t *sdk.Trace) *sdk.Call {
	if t.Chosen == "" {
		return nil
	}
	return AnswerOf(t, t.Chosen)
}

// CostOf returns the cost of a model's calls in a step, and whether it answered.
func CostOf(t *sdk.Trace, model string) (usd float64, answered bool) {
	for i := range t.Calls {
		if c := &t.Calls[i]; c.Model == model {
			usd += c.CostUSD
			answered = answered || c.Error == ""
		}
	}
	return usd, answered
}

// add counts a step in which b is the belief about the model, with the results of [history.cachedShare].
func (m *modelSums) add(t *sdk.Trace, b *sdk.Belief, share float64, isCacheable bool) {
	m.believed.add(b.CostUSD)
	m.quality.add(b.Quality.Mean)
	m.spent += t.CostUSD
	own := AnswerOf(t, b.Model)
	if own != nil && b.Price != nil {
		m.compare(t, b.Price, own)
		if isMeasure(own) {
			m.cold += b.Price.ColdUSD(own.Usage, share)
		}
	}
	switch usd, _ := CostOf(t, b.Model); {
	case own != nil:
		m.ran++
		m.real += usd
	case t.Chosen == "":
		m.failed++
		m.real += usd
	default:
		m.estimated++
		if c := ChosenCall(t); c != nil && b.Price != nil {
			e, r := estimateOf(b.Price, &c.Usage, share, isCacheable), m.reference(sourceOf(c))
			r.missing++
			r.estimate.add(&e)
			r.expect(t, b, c.Model)
			return
		}
		m.unpriced++
		m.believedMissing += b.CostUSD
	}
}

// Candidates returns the models that steps could choose from, by expected cost.
func (a *Account) Candidates() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.candidates()
}

func (s *sums) candidates() []string {
	return slices.SortedFunc(maps.Keys(s.models), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.models[a].believed.value(), s.models[b].believed.value()), cmp.Compare(a, b))
	})
}
