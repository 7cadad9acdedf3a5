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

// Model is a model as a world knows it.
type Model struct {
	// Name is the policy's name of it; Provider and Served say what it is.
	Name, Provider, Served string
	// Quality is what the policy believes of it, and Verified whether a verifier
	// of the policy judges its answer to the query at hand.
	Quality  sdk.Estimate
	Verified bool
	// Expected has the expected lengths of answers in tokens, by the policy's names.
	Expected map[string]int
	// Compared, where the policy compares answers by the estimator that is built in, is how
	// they agree, and Trial which of its trials is under way. Quality then is how often the
	// model is right.
	Compared *agreement
	Trial    int
}

// Outcome is what a model does with a query.
type Outcome struct {
	// Quality is how good the answer is, in [0, 1]. Judged says that a verdict or a table
	// records it; otherwise it is an estimate, or drawn from a belief.
	Quality float64
	Judged  bool
	// Rejected says that a free check found a fault in the answer.
	Rejected bool
	// RunQuality is how good the answer is by how its run ended, where Ended says that this was
	// reported. Estimators do not see it.
	RunQuality float64
	Ended      bool
	// IsChance says that the answer is right with the probability that its quality is.
	IsChance bool
	// CostUSD is the recorded cost; 0 means the price of the tokens, unless it is Free.
	CostUSD float64
	Free    bool
	// InputTokens and OutputTokens are the recorded lengths; 0 means that they are not
	// known. A call of which no cost is known either has the expected ones.
	InputTokens, OutputTokens int
	// Text and Signals are for the estimators of a profile.
	Text    string
	Signals map[string]float64
	// Tools are those that the answer calls.
	Tools []string
	// Verdicts are what verifiers said of the answer, 1 a pass and 0 a fail, where that is
	// recorded beside its quality, anyVerifier where it is not recorded by whom; nil where the
	// quality is what they say.
	Verdicts map[string]float64
	// Failures is how many calls failed before that.
	Failures int
	// Known is false when the world has nothing of this model, and the policy's
	// beliefs were used.
	Known bool
}

// truth is the quality by the run's end, if that is known.
func (o *Outcome) truth() float64 {
	if o.Ended {
		return o.RunQuality
	}
	return o.Quality
}

// anyVerifier stands for all verifiers in [Outcome.Verdicts].
const anyVerifier = ""

// World has queries and what models do with them. Asked twice, it says the same.
type World interface {
	// Len is the number of queries.
	Len() int
	// Query returns query n, from 0.
	Query(n int) *sdk.Query
	// Outcome says what model m does with query n.
	Outcome(n int, m Model) Outcome
}

// believer is a World in which estimators that are plugins have something to say: of an
// answer, its quality. No table records what they would.
type believer interface {
	// Belief returns what was recorded as believed of a model before query n.
	Belief(n int, model string) (sdk.Estimate, bool)
}

// history is a World whose queries follow one another: caps of runs and tenants and
// what is known of sessions hold from one to the next. Of other worlds each query
// stands alone.
type history interface {
	// When returns the round that query n belongs to, and when it was asked. With
	// each round everything begins anew.
	When(n int) (round int, at time.Time)
}

// verdictCosts is a World in which it was recorded what verifiers ask for their verdicts.
type verdictCosts interface {
	// VerdictUSD is what a verifier's look at a model's answer to query n cost: as recorded
	// or, where it did not look there, as its looks cost on average. It is false when none
	// is recorded.
	VerdictUSD(n int, verifier, model string) (usd float64, known bool)
}

// chance returns what decides of a model's n-th answer. Models are told apart by what they are, not
// by the policy's names of them.
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

// When implements [history]: each time all queries were drawn is a round.
func (b *Beliefs) When(n int) (int, time.Time) { return n / len(b.Queries), time.Unix(0, 0) }

// Belief implements [believer]: answers are as good as estimators say.
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

// Sample returns queries that show what a policy does when nothing better is at
// hand: prompts from short to long, plain and with tools, and some of each kind
// that a match block of one of the policies is about. Where one is about setbacks, those of
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
				q.Run = fmt.Sprint("sample ", k) // which come by themselves
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
