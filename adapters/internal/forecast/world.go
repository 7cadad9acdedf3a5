package forecast

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// Model describes a model to a world.
type Model struct {
	// Name is its name in the policy; Provider and Served identify it.
	Name, Provider, Served string
	// Price is its price in the policy, to which recorded costs are converted.
	Price sdk.Price
	// Quality is the policy's belief, and Verified whether a verifier of the policy judges its answer to the current
	// query.
	Quality  sdk.Estimate
	Verified bool
	// Expected holds the expected lengths of answers in tokens, by name in the policy.
	Expected map[string]int
	// Compared, where the policy compares answers with the built-in estimator, models how they agree, and Trial is
	// the current trial. Quality is then how often the model is right.
	Compared *agreement
	Trial    int
}

// Outcome is the result of a model on a query.
type Outcome struct {
	// Quality is the quality of the answer, in [0, 1]. Judged reports that a verdict or a table records it; otherwise
	// it is an estimate, or drawn from a belief.
	Quality float64
	Judged  bool
	// Rejected reports that a free check found a fault in the answer.
	Rejected bool
	// RunQuality is the quality by the verdict on the run, if Ended reports that there is one. Estimators do not see
	// it.
	RunQuality float64
	Ended      bool
	// IsChance reports that Quality is the probability that the answer is right.
	IsChance bool
	// CostUSD is the recorded cost; 0 means the price of the tokens, unless Free.
	CostUSD float64
	Free    bool
	// Usage has the recorded lengths; 0 means unknown. A call without a recorded cost then has the expected lengths.
	Usage sdk.Usage
	// Text and Signals are for the estimators of a profile.
	Text    string
	Signals map[string]float64
	// Tools are the tools that the answer calls.
	Tools []string
	// Verdicts holds the verdicts by verifier, 1 for a pass and 0 for a fail, where they are recorded beside the
	// quality; those of an unrecorded verifier are under anyVerifier. Nil where the quality itself serves as the
	// verdict.
	Verdicts map[string]float64
	// Failures is how many calls failed before the answer.
	Failures int
	// Known is false when the world has no outcome of this model and used the policy's beliefs.
	Known bool
}

// truth returns the quality by the verdict on the run, if known, else Quality.
func (o *Outcome) truth() float64 {
	if o.Ended {
		return o.RunQuality
	}
	return o.Quality
}

// anyVerifier stands for all verifiers in [Outcome.Verdicts].
const anyVerifier = ""

// World provides queries and the outcomes of models on them. It is deterministic.
type World interface {
	// Len returns the number of queries.
	Len() int
	// Query returns query n, from 0.
	Query(n int) *sdk.Query
	// Outcome returns the outcome of model m on query n.
	Outcome(n int, m Model) Outcome
}

// believer is a World with recorded estimates, for estimators that are plugins. A table has none.
type believer interface {
	// Belief returns the recorded belief about a model before query n.
	Belief(n int, model string) (sdk.Estimate, bool)
}

// history is a World whose queries follow each other: the caps of runs and tenants and the state of sessions carry
// over from one to the next. In other worlds queries are independent.
type history interface {
	// When returns the round and the time of query n. Each round starts without history.
	When(n int) (round int, at time.Time)
}

// cachedPrompts is a World with recorded savings of prompt caches.
type cachedPrompts interface {
	// DearerUSD returns how much more than its outcome a model's call costs on query n if the longest prompt of the run
	// that it read before has that many tokens; 0 means none of the run.
	DearerUSD(n int, m Model, read float64) float64
}

// verdictCosts is a World with recorded prices of verdicts.
type verdictCosts interface {
	// VerdictUSD returns what a verifier's verdict on a model's answer to query n cost: as recorded or, without a
	// record, the mean cost of its verdicts. known is false when none is recorded.
	VerdictUSD(n int, verifier, model string) (usd float64, known bool)
}

// chance returns the random source for a model's n-th answer. It depends on the provider and the served name, not on
// the policy's name of the model.
func (m *Model) chance(seed uint64, n int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, hashOf(m.Provider+"/"+cmp.Or(m.Served, m.Name))^uint64(n)*0x9e3779b97f4a7c15))
}

func hashOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // hash.Hash never returns an error
	return h.Sum64()
}

// draw draws a quality from a belief. It depends only on its arguments.
func draw(seed uint64, n int, m Model, believed sdk.Estimate) float64 {
	r := m.chance(seed, n)
	if m.Verified {
		if r.Float64() < believed.Mean {
			return 1
		}
		return 0
	}
	return min(1, max(0, believed.Mean+believed.StdDev*r.NormFloat64()))
}

// Beliefs is a world in which the policy's beliefs are true. Each query is drawn several times.
type Beliefs struct {
	Queries []*sdk.Query
	// Draws is how often each query is drawn; 0 means once.
	Draws int
	Seed  uint64
	// Suppose, when not nil, sets the quality of answers by the model's name in the policy; all else is as expected.
	Suppose map[string]float64
}

// Len implements [World].
func (b *Beliefs) Len() int { return len(b.Queries) * max(1, b.Draws) }

// Query implements [World].
func (b *Beliefs) Query(n int) *sdk.Query { return b.Queries[n%len(b.Queries)] }

// When implements [history]: a round is one draw of all queries.
func (b *Beliefs) When(n int) (int, time.Time) { return n / len(b.Queries), time.Unix(0, 0) }

// Belief implements [believer] without any recorded belief, so that answers are as good as their quality.
func (b *Beliefs) Belief(int, string) (sdk.Estimate, bool) { return sdk.Estimate{}, false }

// Outcome implements [World].
func (b *Beliefs) Outcome(n int, m Model) Outcome {
	if b.Suppose == nil && m.Compared != nil {
		o := m.Compared.draw(b.Seed, n, m.Trial, m.Compared.index(m.Name), anyKind, nil)
		o.Known = true
		return o
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

// Sample returns queries that show a policy's behaviour when there are no recorded ones: prompts from short to long,
// plain and with tools, and some for each match block of the policies. If a policy counts setbacks, the queries of
// each kind are a run.
func Sample(ps ...*policies.Policy) []*sdk.Query {
	whens, countSetbacks := []policies.When{{}}, false
	for _, p := range ps {
		countSetbacks = countSetbacks || p.CountsSetbacks()
		for i := range p.Matches {
			whens = append(whens, p.Matches[i].When)
		}
		for i := range p.Verifiers {
			whens = append(whens, p.Verifiers[i].When)
		}
	}
	var list []*sdk.Query
	for k, w := range whens {
		for _, length := range []int{200, 1000, 4000, 16000} {
			q := sampleQuery(w, length)
			if countSetbacks {
				q.Run = fmt.Sprint("sample ", k) // setbacks are counted per run
			}
			list = append(list, q)
		}
	}
	return list
}

func sampleQuery(w policies.When, length int) *sdk.Query {
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
	return q
}

func example(pattern string) string { return strings.NewReplacer("*", "x", "?", "x").Replace(pattern) }
