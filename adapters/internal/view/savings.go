package view

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// saving is what steps cost beside what one model would have cost, asked always.
//
// Where the baseline ran, its cost is known. Where it did not, it is what the first
// decision expected of it, times the ratio of real to expected cost where it did run, or,
// when too few steps asked it, of all models together, from the first on: how long answers are shows in
// those of any model. The interval covers two standard errors of the former: of the
// ratio, and of the single costs around it.
type saving struct {
	Baseline string
	// Steps could have been asked of the baseline, and Ran were. Nothing counts as saved on
	// those that nobody answered, Failed.
	Steps, Ran, Failed int
	SpentUSD           float64
	WouldUSD           float64
	// ErrorUSD is two standard errors of WouldUSD; NaN where too few steps tell.
	ErrorUSD float64
	// Expected is the mean quality that the first decisions believed of the baseline.
	Expected float64
	Ratio    float64
	// PerStep are the costs step by step: spent, and the baseline's.
	PerStep [][2]float64
}

// Savings adds up what steps cost and what one model would have cost, asked always. It
// keeps sums only. The zero value is ready, and compares with the dearest model that the
// steps know; it is safe for concurrent use.
type Savings struct {
	// Baseline, when not empty, is the model to compare with; set it before the first step.
	Baseline string

	mu     sync.Mutex
	models map[string]*tally
}

// Record adds a step. It is a sink of traces, and leaves out what the mode shadow runs
// beside its baseline.
func (s *Savings) Record(_ context.Context, t *sdk.Trace) {
	if t.Mode == middleware.ShadowAlternative || t.Mode == sdk.ModeEmbeddings || len(t.Decisions) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range t.Decisions[0].Models {
		s.of(b.Model).add(t, &b)
	}
}

// Measured adds a step, with or without an answer, of which it is known what the baseline
// cost; Baseline is set.
func (s *Savings) Measured(spentUSD, baselineUSD float64, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.of(s.Baseline)
	m.steps++
	m.spent += spentUSD
	if !answered {
		m.unanswered++
		m.failed++
		return
	}
	m.ran++
	m.real += baselineUSD
}

// of returns the tally of a model.
func (s *Savings) of(model string) *tally {
	if s.models == nil {
		s.models = map[string]*tally{}
	}
	m := s.models[model]
	if m == nil {
		m = &tally{}
		s.models[model] = m
	}
	return m
}

// Known reports whether what the baseline would have cost was measured on every step, or
// on enough of them for an interval.
func (s *Savings) Known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.models[s.baseline()]
	return m != nil && (m.ran+m.failed == m.steps || m.ran >= enoughRan)
}

// baseline is the model to compare with, "" where there is none.
func (s *Savings) baseline() string {
	if s.Baseline != "" {
		return s.Baseline
	}
	names := slices.SortedFunc(maps.Keys(s.models), func(a, b string) int { return byCost(s.models[a].expected(), s.models[b].expected(), a, b) })
	if len(names) < 2 {
		return ""
	}
	return names[len(names)-1]
}

// longestName bounds the name of a model in a sentence, in letters.
const longestName = 160

// String says in one sentence what the steps cost, what always asking the baseline
// would have cost on the same steps, the difference with its interval, and how much of
// that is measured. It is empty where there is nothing to compare.
func (s *Savings) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	baseline := s.baseline()
	if baseline == "" {
		return ""
	}
	name := baseline
	if letters := []rune(name); len(letters) > longestName {
		name = string(letters[:longestName]) + "…"
	}
	if s.models[baseline] == nil {
		if len(s.models) == 0 {
			return ""
		}
		return fmt.Sprintf("no step could have been asked of %s", name)
	}
	r := s.models[baseline].result(baseline)
	word, by, share := "saved", r.SavedUSD(), 100*r.Share()
	if by < 0 {
		word, by, share = "spent more", -by, -share
	}
	of, how := fmt.Sprintf("%d steps", r.Steps), "measured on all of them"
	if r.Steps == 1 {
		of, how = "step", "measured"
	}
	interval := ""
	if r.Ran < r.Steps {
		how = fmt.Sprintf("measured on %d of them", r.Ran)
		if counted := r.Steps - r.Ran - r.Failed; counted > 0 {
			interval = ", no interval: too few steps asked it"
			if !math.IsNaN(r.ErrorUSD) {
				interval = fmt.Sprintf(", ± %.6f", r.ErrorUSD)
			}
			how += fmt.Sprintf(" and counted from tokens on %d", counted)
			if r.Steps == 1 {
				how = "counted from tokens"
			}
		}
	}
	switch n := s.models[baseline].unanswered; {
	case r.Failed == r.Steps:
		return fmt.Sprintf("spent %.6f USD; no step got an answer, so that there is nothing to compare with always asking %s.", r.SpentUSD, name)
	case n == 1 && r.Steps == 1:
		how += "; it got no answer"
	case r.Failed > 0:
		how += fmt.Sprintf("; %d of %s got no answer, on which nothing counts as saved", n, of)
	case n > 0:
		how += fmt.Sprintf("; %d of %s got no answer", n, of)
	}
	return fmt.Sprintf("spent %.6f USD; always asking %s would have cost %.6f on the same %s: %s %.6f (%.0f %%%s). Its cost is %s.",
		r.SpentUSD, name, r.WouldUSD, of, word, by, share, interval, how)
}

func (s *saving) SavedUSD() float64 { return s.WouldUSD - s.SpentUSD }

func (s *saving) Share() float64 {
	if s.WouldUSD == 0 {
		return 0
	}
	return s.SavedUSD() / s.WouldUSD
}

func (s *saving) ShareError() float64 {
	if s.WouldUSD == 0 {
		return 0
	}
	return s.ErrorUSD * s.SpentUSD / (s.WouldUSD * s.WouldUSD)
}

// enoughRan is how many steps must have asked the baseline before its expected costs
// are set right by its real ones.
const enoughRan = 5

// tally is what steps say of one model.
type tally struct {
	// steps could have been asked of it, ran were, at a real cost; spent is what the
	// steps cost.
	steps, ran int
	// unanswered got no answer, and of failed the model gave none either.
	unanswered, failed int
	spent, real        float64
	// Sums of the quality and the cost that were expected of it.
	quality, cost float64
	// Sums over the steps that it ran in, of expected and real cost, and over those
	// that it did not, of the expected cost.
	e, a, ee, ea, aa float64
	unseen, unseen2  float64
	// any is how many runs the steps saw of any model, and allE and allA are what was
	// expected of these and what they cost.
	any        int
	allE, allA float64
}

// add counts a step in which b was believed of the model. It returns what the model
// cost in it, NaN when another answered alone.
func (m *tally) add(t *sdk.Trace, b *sdk.Belief) float64 {
	cost, answered := costOf(t, b.Model)
	m.addAny(t)
	m.steps++
	m.spent += t.CostUSD
	m.quality += b.Quality.Mean
	m.cost += b.CostUSD
	if t.Chosen == "" {
		m.unanswered++
		if !answered {
			m.failed++
			m.real += cost
			return cost
		}
	}
	x := b.CostUSD
	if !answered {
		m.unseen, m.unseen2 = m.unseen+x, m.unseen2+x*x
		return math.NaN()
	}
	m.ran++
	m.real += cost
	m.e, m.a = m.e+x, m.a+cost
	m.ee, m.ea, m.aa = m.ee+x*x, m.ea+x*cost, m.aa+cost*cost
	return cost
}

// addAny counts the models that ran in a step.
func (m *tally) addAny(t *sdk.Trace) {
	for k := range t.Decisions[0].Models {
		o := &t.Decisions[0].Models[k]
		if real, ran := costOf(t, o.Model); ran {
			m.any++
			m.allE, m.allA = m.allE+o.CostUSD, m.allA+real
		}
	}
}

// costOf returns what a model's calls cost in a step, and whether it answered.
func costOf(t *sdk.Trace, model string) (usd float64, answered bool) {
	for k := range t.Calls {
		if c := &t.Calls[k]; c.Model == model {
			usd += c.CostUSD
			answered = answered || c.Error == ""
		}
	}
	return usd, answered
}

// expected is the mean cost that was expected.
func (m *tally) expected() float64 { return m.cost / float64(max(m.steps, 1)) }

// result says what always asking the model would have cost.
func (m *tally) result(baseline string) *saving {
	s := &saving{Baseline: baseline, Steps: m.steps, Ran: m.ran, Failed: m.failed, SpentUSD: m.spent, Ratio: 1, ErrorUSD: math.NaN()}
	if m.steps > 0 {
		s.Expected = m.quality / float64(m.steps)
	}
	switch {
	case m.ran >= enoughRan && m.e > 0:
		s.Ratio = m.a / m.e
		r := s.Ratio
		// The deviation of a real cost around ratio times expected, per expected dollar.
		residual := max(0, m.aa-2*r*m.ea+r*r*m.ee) * float64(m.ran) / float64(m.ran-1)
		singles := 0.0
		if m.ee > 0 {
			singles = residual / m.ee * m.unseen2
		}
		s.ErrorUSD = 2 * math.Sqrt(residual/(m.e*m.e)*m.unseen*m.unseen+singles)
	case m.any > 0 && m.allE > 0:
		s.Ratio = m.allA / m.allE
	}
	s.WouldUSD = m.real + s.Ratio*m.unseen
	return s
}

// against compares the traces with a baseline, step by step too.
func against(traces []*sdk.Trace, baseline string) *saving {
	var m tally
	var expected, real, spent []float64
	for _, t := range traces {
		if len(t.Decisions) == 0 {
			continue
		}
		models := t.Decisions[0].Models
		if i := slices.IndexFunc(models, func(b sdk.Belief) bool { return b.Model == baseline }); i >= 0 {
			real = append(real, m.add(t, &models[i]))
			expected, spent = append(expected, models[i].CostUSD), append(spent, t.CostUSD)
		}
	}
	s := m.result(baseline)
	for i, would := range real {
		if math.IsNaN(would) {
			would = s.Ratio * expected[i]
		}
		s.PerStep = append(s.PerStep, [2]float64{spent[i], would})
	}
	return s
}

// candidates returns the models that the traces believe something of, the cheapest
// first by expected cost.
func candidates(traces []*sdk.Trace) []string {
	cost, n := map[string]float64{}, map[string]float64{}
	for _, t := range traces {
		if len(t.Decisions) == 0 {
			continue
		}
		for _, b := range t.Decisions[0].Models {
			cost[b.Model] += b.CostUSD
			n[b.Model]++
		}
	}
	var names []string
	for name := range cost {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return byCost(cost[a]/n[a], cost[b]/n[b], a, b) })
	return names
}

// byCost orders models by cost, and those of one cost by name.
func byCost(x, y float64, a, b string) int { return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b)) }
