package forecast

import (
	"cmp"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Model is a model as a world knows it.
type Model struct {
	// Name is the policy's name of it; Provider and Served say what it is.
	Name, Provider, Served string
	// Quality is what the policy believes of it, and Verified whether a verifier
	// of the policy judges its answer to the query at hand.
	Quality  sdk.Estimate
	Verified bool
	// Compared says that the policy compares its answer with others, by the estimator that
	// is built in: Quality is then how often it is right.
	Compared bool
	// Peers are the policy's models, where answers are compared.
	Peers []Model
}

// Outcome is what a model does with a query.
type Outcome struct {
	// Quality is how good the answer is, in [0, 1]. Judged says that a verdict or a table
	// records it; otherwise it is an estimate, or drawn from a belief.
	Quality float64
	Judged  bool
	// CostUSD is the recorded cost; 0 means the price of the tokens, unless it is Free.
	CostUSD float64
	Free    bool
	// InputTokens and OutputTokens are the recorded lengths; 0 means that they are not
	// known. A call of which no cost is known either has the expected ones.
	InputTokens, OutputTokens int
	// CostRatio is what other models' answers to the query cost, over what was expected
	// of them: a call of which nothing is recorded costs that much of its expected cost.
	// 0 is unknown.
	CostRatio float64
	// Text and Signals are for the estimators of a profile.
	Text    string
	Signals map[string]float64
	// Verdicts are what verifiers said of the answer, 1 a pass and 0 a fail, where that is
	// recorded beside its quality; nil where the quality is what they say.
	Verdicts map[string]float64
	// Failures is how many calls failed before that.
	Failures int
	// Known is false when the world has nothing of this model, and the policy's
	// beliefs were used.
	Known bool
}

// World has queries and what models do with them. Asked twice, it says the same.
type World interface {
	// Len is the number of queries.
	Len() int
	// Query returns query n, from 0.
	Query(n int) *sdk.Query
	// Outcome says what model m does with query n.
	Outcome(n int, m Model) Outcome
	// Estimates says whether estimators that are plugins have something to say in this
	// world: of an answer, its quality.
	Estimates() bool
	// Believed returns what was recorded as believed of a model before query n.
	Believed(n int, model string) (sdk.Estimate, bool)
}

// History is a World whose queries follow one another: caps of runs and tenants and
// what is known of sessions hold from one to the next. Of other worlds each query
// stands alone.
type History interface {
	// When returns the round that query n belongs to, and when it was asked. With
	// each round everything begins anew.
	When(n int) (round int, at time.Time)
}

// Judged is a World in which it was recorded what verifiers ask for their verdicts.
type Judged interface {
	// VerdictUSD is what a verifier's look at a model's answer to query n cost: as recorded
	// or, where it did not look there, as its looks cost on average. It is false when none
	// is recorded.
	VerdictUSD(n int, verifier, model string) (usd float64, known bool)
}

// draw returns a quality drawn from a belief, the same for the same seed and model
// whatever else is drawn.
func draw(seed uint64, n int, m Model, believed sdk.Estimate) float64 {
	h := fnv.New64a()
	name := m.Served
	if name == "" {
		name = m.Name
	}
	_, _ = h.Write([]byte(m.Provider + "/" + name)) // hash.Hash never returns an error
	r := rand.New(rand.NewPCG(seed, h.Sum64()^uint64(n)*0x9e3779b97f4a7c15))
	if m.Verified {
		if r.Float64() < believed.Mean {
			return 1
		}
		return 0
	}
	return min(1, max(0, believed.Mean+believed.StdDev*r.NormFloat64()))
}

// Beliefs is a world in which the policy's beliefs are true: each query is drawn
// several times.
type Beliefs struct {
	Queries []*sdk.Query
	// Draws is how often each query is drawn; 0 means once.
	Draws int
	Seed  uint64
	// Suppose, when not nil, sets the quality of answers by the policy's name of
	// the model, and everything else to what is expected of it.
	Suppose map[string]float64
}

// Len implements [World].
func (b *Beliefs) Len() int { return len(b.Queries) * max(1, b.Draws) }

// Query implements [World].
func (b *Beliefs) Query(n int) *sdk.Query { return b.Queries[n%len(b.Queries)] }

// When implements [History]: each time all queries were drawn is a round.
func (b *Beliefs) When(n int) (int, time.Time) { return n / len(b.Queries), time.Unix(0, 0) }

// Estimates implements [World]: answers are as good as estimators say.
func (b *Beliefs) Estimates() bool { return true }

// Believed implements [World].
func (b *Beliefs) Believed(int, string) (sdk.Estimate, bool) { return sdk.Estimate{}, false }

// Outcome implements [World].
func (b *Beliefs) Outcome(n int, m Model) Outcome {
	if b.Suppose == nil && m.Compared {
		return b.compared(n, m)
	}
	if b.Suppose == nil {
		return Outcome{Quality: draw(b.Seed, n, m, m.Quality), Known: true}
	}
	v, ok := b.Suppose[m.Name]
	if !ok {
		v = m.Quality.Mean
	}
	return Outcome{Quality: v, Known: true}
}

// sameError is how often two models that err say the same, and sharedEase how much of what
// decides whether a model is right is the query's: as with recorded function calls (BFCL).
const (
	sameError  = 1.0 / 3
	sharedEase = 0.5
)

// compared is what a model does with a query where answers are compared: right ones are the
// same, wrong ones sometimes.
func (b *Beliefs) compared(n int, m Model) Outcome {
	common := rand.New(rand.NewPCG(b.Seed, uint64(n)))
	h := fnv.New64a()
	_, _ = h.Write([]byte(m.Provider + "/" + cmp.Or(m.Served, m.Name))) // hash.Hash never returns an error
	own := rand.New(rand.NewPCG(b.Seed, h.Sum64()^uint64(n)*0x9e3779b97f4a7c15))
	ease := math.Sqrt(sharedEase)*common.NormFloat64() + math.Sqrt(1-sharedEase)*own.NormFloat64()
	switch {
	case ease < math.Sqrt2*math.Erfinv(2*m.Quality.Mean-1):
		return Outcome{Quality: 1, Known: true, Text: "right"}
	case common.Float64() < sameError:
		return Outcome{Known: true, Text: "wrong"}
	}
	return Outcome{Known: true, Text: "wrong as " + m.Name + " is"}
}

// Table is a world of recorded outcomes. A model is found by the policy's name of
// it, or by its served name.
type Table struct {
	Outcomes *outcome.Table
	Seed     uint64
}

// Len implements [World].
func (t *Table) Len() int { return len(t.Outcomes.Queries) }

// Query implements [World].
func (t *Table) Query(n int) *sdk.Query {
	o := t.Outcomes
	q := &sdk.Query{ID: o.Queries[n], Group: o.Group(n), Features: map[string]float64{}}
	if text := o.Prompt(n); text != "" {
		q.Messages = []sdk.Message{{Role: sdk.RoleUser, Parts: []sdk.Part{sdk.TextPart(text)}}}
	}
	q.InputTokens = o.PromptTokens(n)
	for i, name := range o.Models {
		if v := outcome.At(o.Ante, n, i); !math.IsNaN(v) {
			q.Features[estimate.FeatureAnte+name] = v
		}
	}
	if o.Judged() {
		q.Checks.FailToPass = []string{"recorded"}
	}
	return q
}

// Estimates implements [World]: no table records what a plugin would say.
func (t *Table) Estimates() bool { return false }

// Believed implements [World].
func (t *Table) Believed(int, string) (sdk.Estimate, bool) { return sdk.Estimate{}, false }

// Outcome implements [World].
func (t *Table) Outcome(n int, m Model) Outcome {
	o := t.Outcomes
	i := o.Index(m.Name)
	if i < 0 {
		served := m.Served
		if base, number, further := strings.Cut(m.Name, "#"); further && base != "" {
			served += "#" + number // the second answer is not the first
		}
		i = slices.IndexFunc(o.Models, func(name string) bool { return name == served || strings.HasSuffix(name, "/"+served) })
	}
	if i < 0 || math.IsNaN(outcome.At(o.Quality, n, i)) {
		return Outcome{Quality: draw(t.Seed, n, m, m.Quality)}
	}
	out := Outcome{Quality: o.Quality[n][i], Judged: true, Known: true, Text: o.Answer(n, i), Signals: map[string]float64{}}
	switch c := outcome.At(o.CostUSD, n, i); {
	case c > 0:
		out.CostUSD = c
	case c == 0:
		out.Free = true
	}
	if v := outcome.At(o.InputTokens, n, i); v > 0 {
		out.InputTokens = int(math.Round(v))
	}
	if v := outcome.At(o.OutputTokens, n, i); v > 0 {
		out.OutputTokens = int(math.Round(v))
	}
	if v := outcome.At(o.Post, n, i); !math.IsNaN(v) {
		out.Signals[estimate.SignalPost] = v
	}
	if o.Verdicts != nil {
		out.Verdicts = map[string]float64{}
	}
	for judge, matrix := range o.Verdicts {
		if v := matrix[n][i]; !math.IsNaN(v) {
			out.Verdicts[judge] = v
		}
	}
	for name, matrix := range o.Signals {
		if v := outcome.At(matrix, n, i); !math.IsNaN(v) {
			out.Signals[name] = v
		}
	}
	return out
}

// Traces is a world of recorded steps. Steps of one query id are one query, as they are for
// a fit: what one does not have another may. What none has, because the model was not run,
// is drawn from what was believed of it then or, where answers are compared, from what is
// usual of models that answer as those that ran did.
type Traces struct {
	Steps []*sdk.Trace
	Seed  uint64

	once  sync.Once
	looks map[string]looks

	index   sync.Once
	ofQuery map[string][]*sdk.Trace
}

// looks are how often a verifier looked, and what that cost in all.
type looks struct {
	n   int
	usd float64
}

// VerdictUSD implements [Judged].
func (t *Traces) VerdictUSD(n int, verifier, model string) (float64, bool) {
	t.once.Do(func() {
		t.looks = map[string]looks{}
		for _, s := range t.Steps {
			for i := range s.Calls {
				if v := s.Calls[i].Verdict; v != nil {
					l := t.looks[v.Verifier]
					t.looks[v.Verifier] = looks{l.n + 1, l.usd + v.CostUSD}
				}
			}
		}
	})
	for i := range t.Steps[n].Calls {
		if c := &t.Steps[n].Calls[i]; c.Model == model && c.Verdict != nil && c.Verdict.Verifier == verifier {
			return c.Verdict.CostUSD, true
		}
	}
	l := t.looks[verifier]
	return l.usd / float64(max(1, l.n)), l.n > 0
}

// Len implements [World].
func (t *Traces) Len() int { return len(t.Steps) }

// Query implements [World].
func (t *Traces) Query(n int) *sdk.Query {
	s := t.Steps[n]
	q := &sdk.Query{ID: s.ID, Group: s.Group, Run: s.Run, Session: s.Session, Tenant: s.Tenant, InputTokens: s.InputTokens, Features: s.Features, Labels: s.Labels}
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

// judgedByProgram reports whether the program whose steps these are judged answers
// itself, beside its policy.
func (t *Traces) judgedByProgram() bool {
	return slices.ContainsFunc(t.Steps, func(s *sdk.Trace) bool {
		return slices.ContainsFunc(s.Calls, func(c sdk.Call) bool { return c.Verdict != nil && c.Verdict.Verifier == router.VerifyName })
	})
}

// When implements [History]: the steps are those of one round.
func (t *Traces) When(n int) (int, time.Time) {
	if at := t.Steps[n].Start; !at.IsZero() {
		return 0, at
	}
	return 0, time.Unix(0, 0)
}

// Estimates implements [World].
func (t *Traces) Estimates() bool { return true }

// Believed implements [World].
func (t *Traces) Believed(n int, model string) (sdk.Estimate, bool) {
	return believed(t.Steps[n], model)
}

// believed returns what was believed of a model before anything ran.
func believed(s *sdk.Trace, model string) (sdk.Estimate, bool) {
	if len(s.Decisions) == 0 {
		return sdk.Estimate{}, false
	}
	for _, b := range s.Decisions[0].Models {
		if b.Model == model && !b.Ran {
			return b.Quality, true
		}
	}
	return sdk.Estimate{}, false
}

// Outcome implements [World].
func (t *Traces) Outcome(n int, m Model) Outcome {
	s := t.Steps[n]
	o := recorded(s, m)
	if !o.Known {
		for _, other := range t.sameQuery(s.QueryID) {
			if found := recorded(other, m); found.Known {
				found.Failures = o.Failures // those of the other step were its own
				return found
			}
		}
	}
	if o.Known {
		return o
	}
	belief, known := believed(s, m.Name)
	if !known {
		belief = m.Quality
	}
	drawn := Outcome{Quality: draw(t.Seed, n, m, belief), Known: known, Failures: o.Failures, CostRatio: costRatio(s)}
	if m.Compared {
		drawn.Quality, drawn.Text = t.compared(n, m)
		drawn.Known = false
	}
	return drawn
}

// sameQuery returns the steps of a query.
func (t *Traces) sameQuery(id string) []*sdk.Trace {
	t.index.Do(func() {
		t.ofQuery = map[string][]*sdk.Trace{}
		for _, s := range t.Steps {
			if s.QueryID != "" {
				t.ofQuery[s.QueryID] = append(t.ofQuery[s.QueryID], s)
			}
		}
	})
	return t.ofQuery[id]
}

// recorded is what a model did in a step; it is not Known where the model gave no answer.
func recorded(s *sdk.Trace, m Model) Outcome {
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
			Quality: c.Quality.Mean, CostUSD: c.CostUSD, Known: true, Signals: c.Signals, Text: cmp.Or(c.Key, c.Answer), Failures: failures,
			InputTokens: c.Usage.InputTokens, OutputTokens: c.Usage.OutputTokens,
		}
		if q, ok := c.Verdict.Quality(); ok {
			o.Quality, o.Judged = q, !savings.IsCheck(c.Verdict.Verifier)
		}
		return o
	}
	return Outcome{Failures: failures}
}

// mostWorlds bounds how many worlds are drawn until one agrees with what was recorded.
const mostWorlds = 100

// compared draws what a model that was not run would have answered, and how good that is:
// in the first world of [Beliefs] in which the models that ran agree with each other, and
// are right and wrong, as they were. Where their answers cannot be compared, the draw
// cannot be either, and has no text.
func (t *Traces) compared(n int, m Model) (quality float64, text string) {
	var peers []Model
	var ran []Outcome
	silent := false
	for _, p := range m.Peers {
		o := recorded(t.Steps[n], p)
		for _, other := range t.sameQuery(t.Steps[n].QueryID) {
			if !o.Known {
				o = recorded(other, p)
			}
		}
		silent = silent || o.Known && o.Text == ""
		if o.Known && o.Text != "" {
			peers, ran = append(peers, p), append(ran, o)
		}
	}
	var own Outcome
	for try := range uint64(mostWorlds) {
		world := Beliefs{Seed: t.Seed + try*0x9e3779b97f4a7c15}
		own = world.compared(n, m)
		text = own.Text
		drawn := make([]Outcome, len(ran))
		for i, p := range peers {
			drawn[i] = world.compared(n, p)
			if drawn[i].Text == own.Text {
				text = ran[i].Text
			}
		}
		if agrees(drawn, ran) {
			break
		}
	}
	if silent && len(ran) == 0 {
		text = ""
	}
	return own.Quality, text
}

// agrees reports whether drawn answers are the same as each other, and right, where recorded
// ones are.
func agrees(drawn, recorded []Outcome) bool {
	for i := range drawn {
		if recorded[i].Judged && (recorded[i].Quality >= 0.5) != (drawn[i].Quality >= 0.5) {
			return false
		}
		for k := range i {
			if (drawn[i].Text == drawn[k].Text) != (recorded[i].Text == recorded[k].Text) {
				return false
			}
		}
	}
	return true
}

// costRatio is what the answers of a step cost, over what was expected of them before.
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

// Sample returns queries that show what a policy does when nothing better is at
// hand: prompts from short to long, plain and with tools, and some of each kind
// that a match block of one of the policies is about.
func Sample(ps ...*policies.Policy) []*sdk.Query {
	whens := []policies.When{{}}
	for _, p := range ps {
		for i := range p.Matches {
			whens = append(whens, p.Matches[i].When)
		}
		for i := range p.Verifiers {
			whens = append(whens, p.Verifiers[i].When)
		}
	}
	var list []*sdk.Query
	for _, w := range whens {
		for _, length := range []int{200, 1000, 4000, 16000} {
			q := &sdk.Query{InputTokens: length, Labels: map[string]string{}}
			if len(w.Groups) > 0 {
				q.Group = example(w.Groups[0])
			}
			if len(w.Tenants) > 0 {
				q.Tenant = example(w.Tenants[0])
			}
			if len(w.Tools) > 0 {
				q.Tools = []sdk.Tool{{Name: example(w.Tools[0])}}
			}
			for k, v := range w.Labels {
				q.Labels[k] = example(v)
			}
			if w.Checks != nil && *w.Checks {
				q.Checks.FailToPass = []string{"sample"}
			}
			list = append(list, q)
		}
	}
	return list
}

// example returns a text that a pattern matches.
func example(pattern string) string { return strings.NewReplacer("*", "x", "?", "x").Replace(pattern) }
