package forecast

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Traces is a world of recorded steps. Steps with the same query id are one query, as in a fit, so an answer missing
// in one step can come from another. An answer that no step has, because the model was not run, is drawn from the
// recorded belief or, where answers are compared, from an agreement learned from the recorded answers.
type Traces struct {
	Steps []*sdk.Trace
	// Shadows are steps of the mode shadow_alternative, on the same queries as some of Steps.
	Shadows []*sdk.Trace
	// Reports are verdicts on runs; see [sdk.Trace.RunVerdict].
	Reports []*sdk.Trace
	Seed    uint64

	indexed sync.Once
	looks   map[string]looks
	ofQuery map[string][]*sdk.Trace
	truths  map[outcome.StepAnswer]float64
	caches  *outcome.Caches // nil if they saved nothing
	// hasMarks says that a client marks prompts for caching.
	hasMarks bool

	mu       sync.Mutex
	compared map[lengthsKey]lengths
}

// lengthsKey names two models whose answers of a kind are compared by their lengths.
type lengthsKey struct {
	model, other string
	callsTools   bool
}

// looks counts the verdicts of a verifier and adds up their costs.
type looks struct {
	n   int
	usd float64
}

// Add adds a recorded trace, unless it is neither a step with a choice, nor a shadow, nor a verdict on a run.
func (t *Traces) Add(s *sdk.Trace) {
	switch _, isReport := s.RunVerdict(); {
	case s.Mode == middleware.ShadowAlternative:
		t.Shadows = append(t.Shadows, s)
	case isReport:
		t.Reports = append(t.Reports, s)
	case sdk.HasChoice(s.Mode):
		t.Steps = append(t.Steps, s)
	}
}

// index indexes the verifiers' prices, the steps by query, and the verdicts on runs.
func (t *Traces) index() {
	t.looks = map[string]looks{}
	steps := slices.Concat(t.Steps, t.Shadows)
	for _, s := range steps {
		for i := range s.Calls {
			if v := s.Calls[i].Verdict; v != nil {
				l := t.looks[v.Verifier]
				t.looks[v.Verifier] = looks{l.n + 1, l.usd + v.CostUSD}
			}
		}
	}
	t.ofQuery = map[string][]*sdk.Trace{}
	for _, s := range steps {
		if s.QueryID != "" {
			t.ofQuery[s.QueryID] = append(t.ofQuery[s.QueryID], s)
		}
	}
	t.caches, t.hasMarks = outcome.CachesOf(steps), slices.ContainsFunc(steps, (*sdk.Trace).HasMarks)
	if len(t.Reports) > 0 {
		t.truths = outcome.RunQualities(slices.Concat(steps, t.Reports))
	}
}

// VerdictUSD implements [verdictCosts].
func (t *Traces) VerdictUSD(n int, verifier, model string) (float64, bool) {
	t.indexed.Do(t.index)
	for _, s := range append([]*sdk.Trace{t.Steps[n]}, t.ofQuery[t.Steps[n].QueryID]...) {
		for i := range s.Calls {
			if c := &s.Calls[i]; c.Model == model && c.Verdict != nil && c.Verdict.Verifier == verifier {
				return c.Verdict.CostUSD, true
			}
		}
	}
	l := t.looks[verifier]
	return l.usd / float64(max(1, l.n)), l.n > 0
}

// DearerUSD implements [cachedPrompts].
func (t *Traces) DearerUSD(n int, m Model, read float64) float64 {
	s := t.Steps[n]
	query, model, areKnown := t.findCaches(s, m)
	if !areKnown {
		return 0
	}
	usd := t.caches.DearerUSD(query, model, read)
	if usd < 0 && !t.isCacheable(s, m) {
		return 0
	}
	if b := s.Belief(m.Name); b != nil && b.Price != nil {
		const many = 1e6
		if was := b.Price.CachedUSD(sdk.Usage{CachedInputTokens: many}); was > 0 {
			usd *= m.Price.CachedUSD(sdk.Usage{CachedInputTokens: many}) / was
		}
	}
	return usd
}

// findCaches finds a query and a model whose cache is known. Where the model was not asked, its usage must be known too.
func (t *Traces) findCaches(s *sdk.Trace, m Model) (query, model int, areKnown bool) {
	t.indexed.Do(t.index)
	if t.caches == nil || s.Run == "" || t.scaledUsage(s, m) == (sdk.Usage{}) {
		return 0, 0, false
	}
	return t.caches.Find(cmp.Or(s.QueryID, s.ID), m.Name)
}

// Len implements [World].
func (t *Traces) Len() int { return len(t.Steps) }

// Query implements [World].
func (t *Traces) Query(n int) *sdk.Query {
	s := t.Steps[n]
	q := &sdk.Query{ID: s.ID, Group: s.Group, Run: s.Run, Session: s.Session, Tenant: s.Tenant, Conversation: s.Conversation, InputTokens: s.InputTokens, Features: maps.Clone(s.Features), Labels: s.Labels}
	maps.DeleteFunc(q.Features, func(name string, _ float64) bool { // depends on the policy's own steps
		return name == feature.DisputedSteps || name == feature.HeldBack || name == feature.Overspent || strings.HasPrefix(name, feature.Doubt)
	})
	for _, name := range s.Tools {
		q.Tools = append(q.Tools, sdk.Tool{Name: name})
	}
	if s.Prompt != "" {
		q.Messages = []sdk.Message{{Role: sdk.RoleUser, Parts: []sdk.Part{sdk.TextPart(s.Prompt)}}}
	}
	for _, c := range s.Calls {
		if c.Verdict != nil {
			q.Checks.FailToPass = []string{"recorded"}
		}
	}
	return q
}

// judgedByProgram reports whether the recorded program judged answers itself.
func (t *Traces) judgedByProgram() bool {
	return slices.ContainsFunc(t.Steps, func(s *sdk.Trace) bool {
		return slices.ContainsFunc(s.Calls, func(c sdk.Call) bool { return c.Verdict != nil && c.Verdict.Verifier == router.VerifyName })
	})
}

// When implements [history]: all steps are one round.
func (t *Traces) When(n int) (int, time.Time) {
	if at := t.Steps[n].Start; !at.IsZero() {
		return 0, at
	}
	return 0, time.Unix(0, 0)
}

// Belief implements [believer].
func (t *Traces) Belief(n int, model string) (sdk.Estimate, bool) {
	if b := firstBelief(t.Steps[n], model); b != nil {
		return b.Quality, true
	}
	return sdk.Estimate{}, false
}

// firstBelief returns the belief about a model before the first call, or nil.
func firstBelief(s *sdk.Trace, model string) *sdk.Belief {
	if b := s.Belief(model); b != nil && !b.Ran {
		return b
	}
	return nil
}

// Outcome implements [World].
func (t *Traces) Outcome(n int, m Model) Outcome {
	s := t.Steps[n]
	o := t.answer(n, m)
	if o.Known {
		return o
	}
	belief := firstBelief(s, m.Name)
	drawn := Outcome{Quality: draw(t.Seed, n, m, m.Quality)}
	if belief != nil {
		drawn.Quality = draw(t.Seed, n, m, belief.Quality)
	}
	if a := m.Compared; a != nil {
		answers, isSilent := t.answers(n, a.models)
		drawn = a.draw(t.Seed, n, m.Trial, a.index(m.Name), a.hardnessOf(t.Seed, m.Trial, kindOf(s)), answers)
		if isSilent {
			drawn.Text = "" // no other answer has a text to compare with
		}
	} else {
		drawn.Known = belief != nil
	}
	drawn.Failures = o.Failures
	if drawn.Text != "" {
		drawn.Tools = toolsOf(s)
	}
	// The expected cost by a profile is corrected by the ratio of the models that ran. Without a profile, and where it is
	// known what caches save, the lengths follow theirs.
	expectedUSD, usage := expectedCost(s, belief, m), t.scaledUsage(s, m)
	switch _, _, isCached := t.findCaches(s, m); {
	case isCached: // DearerUSD subtracts what its cache saves
		if drawn.Usage = coldUsage(usage); t.isCacheable(s, m) {
			drawn.Usage.InputTokens, drawn.Usage.CacheWriteTokens = 0, drawn.Usage.InputTokens
		}
		drawn.CostUSD = m.Price.CostUSD(drawn.Usage)
	case s.Profile != "" && expectedUSD > 0 || usage == (sdk.Usage{}):
		drawn.CostUSD = expectedUSD
	case t.isCacheable(s, m):
		drawn.Usage = usage
	default:
		drawn.Usage = coldUsage(usage)
	}
	return drawn
}

// isCacheable reports whether the model's provider caches the step's prompt, or would if the model were asked.
func (t *Traces) isCacheable(s *sdk.Trace, m Model) bool {
	return s.IsCacheable(&m.Price) || t.hasMarks
}

// coldUsage returns the usage of the same call with an empty cache that it does not write to.
func coldUsage(u sdk.Usage) sdk.Usage {
	return sdk.Usage{InputTokens: u.InputTokens + u.CachedInputTokens + u.CacheWriteTokens, OutputTokens: u.OutputTokens}
}

// scaledUsage returns the expected usage of a model that was not asked, from that of one that was; it is empty if there is none.
func (t *Traces) scaledUsage(s *sdk.Trace, m Model) sdk.Usage {
	for i := range s.Calls {
		if c := &s.Calls[i]; c.Error == "" && c.Usage.OutputTokens > 0 {
			return t.lengths(m, c.Model, len(c.Tools) > 0).scale(&c.Usage)
		}
	}
	return sdk.Usage{}
}

// expectedCost returns the believed cost of a model at its price in the policy, corrected by the ratio of the models
// that ran, or 0 if unknown.
func expectedCost(s *sdk.Trace, b *sdk.Belief, m Model) float64 {
	ratio := costRatio(s)
	if b == nil || ratio == 0 {
		return 0
	}
	return m.Price.ConvertUSD(b.CostUSD*ratio, sdk.Usage{InputTokens: s.InputTokens, OutputTokens: int(b.OutputTokens)}, b.Price)
}

// lengths holds factors from one model's tokens to another's: from steps where both answered or, with few of these,
// from the policy's expectations.
type lengths struct{ input, output float64 }

// scale returns the expected usage of one model for that of another in the same step. As large a share of the prompt is
// read from a cache and written to it.
func (l lengths) scale(u *sdk.Usage) sdk.Usage {
	times := func(n int, factor float64) int { return int(math.Round(factor * float64(n))) }
	return sdk.Usage{
		InputTokens: times(u.InputTokens, l.input), CachedInputTokens: times(u.CachedInputTokens, l.input), CacheWriteTokens: times(u.CacheWriteTokens, l.input),
		OutputTokens: times(u.OutputTokens, l.output),
	}
}

// enoughSteps is the number of common steps needed to compare the lengths of two models.
const enoughSteps = 20

// lengths compares answers of a kind: those that call tools, or texts.
func (t *Traces) lengths(m Model, other string, callsTools bool) lengths {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := lengthsKey{m.Name, other, callsTools}
	if f, ok := t.compared[key]; ok {
		return f
	}
	var own, theirs lengths
	n := 0
	for _, s := range t.Steps {
		a, b := savings.AnswerOf(s, m.Name), savings.AnswerOf(s, other)
		if a == nil || b == nil || len(b.Tools) > 0 != callsTools {
			continue
		}
		n++
		own.input, own.output = own.input+promptTokens(a), own.output+float64(a.Usage.OutputTokens)
		theirs.input, theirs.output = theirs.input+promptTokens(b), theirs.output+float64(b.Usage.OutputTokens)
	}
	f := lengths{own.input / theirs.input, own.output / theirs.output}
	if n < enoughSteps || !(theirs.input > 0 && theirs.output > 0) {
		f = lengths{1, 1}
		if a, b := m.Expected[m.Name], m.Expected[other]; a > 0 && b > 0 {
			f.output = float64(a) / float64(b)
		}
	}
	if t.compared == nil {
		t.compared = map[lengthsKey]lengths{}
	}
	t.compared[key] = f
	return f
}

func promptTokens(c *sdk.Call) float64 {
	return float64(c.Usage.InputTokens + c.Usage.CachedInputTokens + c.Usage.CacheWriteTokens)
}

// answer returns the outcome of a model in step n or in another step of its query; it is not Known if the model gave
// no answer.
func (t *Traces) answer(n int, m Model) Outcome {
	o := t.callOutcome(t.Steps[n], m)
	if o.Known {
		return o
	}
	t.indexed.Do(t.index)
	for _, other := range t.ofQuery[t.Steps[n].QueryID] {
		if found := t.callOutcome(other, m); found.Known {
			found.Failures = o.Failures // failures belong to their own step
			return found
		}
	}
	return o
}

// answers returns the outcomes of models on query n. They are silent if some are known and none has a text to
// compare.
func (t *Traces) answers(n int, models []Model) (list []Outcome, areSilent bool) {
	known, texts := false, false
	for _, m := range models {
		o := t.answer(n, m)
		known, texts = known || o.Known, texts || o.Text != ""
		list = append(list, o)
	}
	return list, known && !texts
}

func (t *Traces) agreement(models []Model) *agreement {
	var queries [][]Outcome
	var of []int
	seen, clusters, kinds := map[string]bool{}, t.clusters(), map[string]bool{}
	for n, s := range t.Steps {
		if s.QueryID != "" && seen[s.QueryID] {
			continue
		}
		seen[s.QueryID] = true
		answers, _ := t.answers(n, models)
		queries, of = append(queries, answers), append(of, clusters[n])
		if len(slices.DeleteFunc(slices.Clone(answers), func(o Outcome) bool { return o.Text == "" })) > 1 {
			kinds[kindOf(s)] = true
		}
	}
	a := learn(models, queries, of)
	a.kinds = kinds
	return a
}

// clusters returns, for each step, its cluster. Steps of one run, conversation or query, and of runs with a common
// query, are in one cluster, since they are not independent.
func (t *Traces) clusters() []int {
	of, first := make([]int, len(t.Steps)), map[[2]string]int{}
	root := func(n int) int {
		for of[n] != n {
			of[n] = of[of[n]]
			n = of[n]
		}
		return n
	}
	for n, s := range t.Steps {
		of[n] = n
		for _, name := range [][2]string{{"run", s.Run}, {"session", s.Session}, {"conversation", s.Conversation}, {"query", s.QueryID}} {
			if name[1] == "" {
				continue
			}
			if before, ok := first[name]; ok {
				of[root(n)] = root(before)
			} else {
				first[name] = n
			}
		}
	}
	for n := range of {
		of[n] = root(n)
	}
	return of
}

// toolsOf returns the tools called by the first answer of a step that calls any.
func toolsOf(s *sdk.Trace) []string {
	for i := range s.Calls {
		if tools := s.Calls[i].Tools; tools != nil {
			return tools
		}
	}
	return nil
}

func kindOf(s *sdk.Trace) string { return strings.Join(toolsOf(s), " ") }

// callOutcome returns the outcome of a model in a step; it is not Known if the model gave no answer.
func (t *Traces) callOutcome(s *sdk.Trace, m Model) Outcome {
	failures := 0
	for _, c := range s.Calls {
		if c.Model != m.Name && (c.Served == "" || c.Served != m.Served) {
			continue
		}
		if c.Error != "" {
			if c.Failed() {
				failures++
			}
			continue
		}
		o := Outcome{
			Quality: c.Quality.Mean, IsChance: true, CostUSD: s.CallUSD(&c, m.Price), Known: true, Signals: c.Signals, Text: cmp.Or(c.Key, c.Answer), Tools: c.Tools, Failures: failures,
		}
		if u := &c.Usage; !u.Estimated { // as in a fit
			o.Usage = *u
			o.Usage.OutputTokens, o.Usage.ReasoningTokens = u.OutputTokens+u.ReasoningTokens, 0
		}
		switch q, ok := c.Verdict.Quality(); {
		case ok && c.Verdict.Errs():
			o.Judged, o.Verdicts = true, map[string]float64{anyVerifier: q} // the estimate accounts for the verdict
		case ok:
			o.Rejected = sdk.IsCheck(c.Verdict.Verifier)
			o.Quality, o.Judged = q, !o.Rejected
		}
		t.indexed.Do(t.index)
		o.RunQuality, o.Ended = t.truths[outcome.StepAnswer{Step: s, Model: c.Model}]
		return o
	}
	return Outcome{Failures: failures}
}

// costRatio returns the ratio of actual to expected costs of a step's answers, or 0 if unknown.
func costRatio(s *sdk.Trace) float64 {
	if len(s.Decisions) == 0 {
		return 0
	}
	real, expected := 0.0, 0.0
	for _, b := range s.Decisions[0].Models {
		for i := range s.Calls {
			if c := &s.Calls[i]; c.Model == b.Model && c.Error == "" {
				real, expected = real+c.CostUSD, expected+b.CostUSD
			}
		}
	}
	if !(expected > 0) {
		return 0
	}
	return real / expected
}
