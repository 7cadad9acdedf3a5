// Package replay replays strategies on recorded outcomes. A strategy sees the outcome of
// a model only once it has run that model.
//
//	w := replay.NewWalker(source.Start(q), table.Quality[q], table.CostUSD[q])
//	step := w.Walk(strategy, coin, nil)
//
// Fits, evaluations and drift measurements all observe the same walk.
package replay

import "github.com/stepfall/stepfall/sdk/cascade"

// MaxModels bounds the models of a table, so that sets of models and of looks at their
// answers have different keys.
const MaxModels = 128

// A Source starts the estimation of queries. It must be safe for concurrent use.
type Source interface {
	// Start returns a cursor before any model has run on a query, given by its
	// index in the outcomes.
	Start(query int) Cursor
}

// A Cursor computes the beliefs about one query. It is used by one goroutine.
type Cursor interface {
	// Believe fills in the beliefs and the predicted costs of all models, given the
	// models run and the looks bought, in order; see [cascade.Decision.Mark]. It may
	// read the outcomes of those and of no others. Beliefs must not depend on the
	// order within the set.
	Believe(seen []int, beliefs []cascade.Belief, costs []float64)
}

// A Pricer is a cursor that offers looks at answers and has their prices.
type Pricer interface{ LookUSD(look int) float64 }

// A Seller is a cursor that can offer verdicts as looks, which are paid for one by one. Until Sell is
// called, every answer comes with its verdict.
type Seller interface{ Sell() }

// A VerdictSeller is a cursor that can reveal an answer before its verdict and sell the verdict
// separately, whether or not its strategies are offered the verdict as a look.
type VerdictSeller interface {
	// SellVerdicts separates verdicts with a price from their answers: each becomes the first look at
	// its answer. It reports whether there are any.
	SellVerdicts() bool
	// VerdictUSD returns the cost of the verdict on the answer of a model that has run, and whether
	// the verdict is separate from the answer.
	VerdictUSD(model int) (usd float64, isApart bool)
}

// A Turn is one decision of a walk. Its slices are reused after the observer returns.
type Turn struct {
	State    cascade.State
	Decision cascade.Decision
}

// A Step is the result of a strategy on one query. Seen is reused by the next walk.
type Step struct {
	// Seen lists the models run and the looks bought, in order, encoded by
	// [cascade.Decision.Mark]; Models is the number of the former.
	Seen   []int
	Models int
	// Answer is the model whose answer is returned, or [cascade.None].
	Answer int
	// Quality is the recorded quality of the answer, and Estimate its estimate.
	Quality, Estimate float64
	CostUSD           float64
}

// A Walker replays steps on one query. It caches the beliefs after each set of models,
// since the strategies of a sweep reach the same sets many times. It is used by one
// goroutine.
type Walker struct {
	cursor        Cursor
	quality, cost []float64
	known         map[set]belief
	seen, ran     []int
	verdicts      VerdictSeller    // nil if all verdicts are bought
	rejected      []cascade.Belief // buffer for the beliefs if an answer is rejected
}

type belief struct {
	beliefs []cascade.Belief
	costs   []float64
}

// set is a set of models and of looks at their answers.
type set [4]uint64

// NewWalker returns a walker over one query, given the quality and cost of each model's
// answer.
func NewWalker(c Cursor, quality, costUSD []float64) *Walker {
	if s, ok := c.(Seller); ok {
		s.Sell()
	}
	return &Walker{cursor: c, quality: quality, cost: costUSD, known: map[set]belief{}}
}

// BuyUsedVerdicts makes strategies that are not offered verdicts as looks pay only for the verdicts that
// can decide whether they continue, and see no others: a verdict is bought if another model would run
// after a rejection. Without it they pay for the verdict on every answer, as the step engine does.
func (w *Walker) BuyUsedVerdicts() {
	if v, ok := w.cursor.(VerdictSeller); ok && v.SellVerdicts() {
		w.verdicts = v
	}
}

// Walk replays one step. The observer, when not nil, is called with each decision.
func (w *Walker) Walk(s cascade.Strategy, coin float64, observe func(*Turn)) Step {
	w.seen, w.ran = w.seen[:0], w.ran[:0]
	var key set
	var step Step
	var t Turn
	for {
		b := w.beliefAt(key)
		t.State = cascade.State{Beliefs: b.beliefs, Costs: b.costs, Ran: w.ran, Coin: coin}
		t.Decision = s.Decide(&t.State)
		if observe != nil {
			observe(&t)
		}
		d := t.Decision
		if d.Run == cascade.Stop {
			step.Seen, step.Models, step.Answer = w.seen, len(w.ran), d.Answer
			if d.Answer != cascade.None {
				step.Quality, step.Estimate = w.quality[d.Answer], b.beliefs[d.Answer].Mean
			}
			return step
		}
		if !d.Look {
			w.add(d, &key)
			w.ran = append(w.ran, d.Run)
			step.CostUSD += w.cost[d.Run]
			verdict := &b.beliefs[d.Run]
			isOffered := verdict.Bernoulli && verdict.Look.Bernoulli
			switch {
			case isOffered && cascade.Buys(s):
			case w.verdicts != nil:
				step.CostUSD += w.buyUsed(s, d, coin, &key)
			default:
				d.Look = isOffered
			}
		}
		if d.Look {
			step.CostUSD += w.cursor.(Pricer).LookUSD(w.add(d, &key))
		}
	}
}

// buyUsed buys the verdict on the answer of the model that ran last if it can decide whether the
// strategy continues, and returns its cost.
func (w *Walker) buyUsed(s cascade.Strategy, d cascade.Decision, coin float64, key *set) float64 {
	usd, isApart := w.verdicts.VerdictUSD(d.Run)
	known := w.beliefAt(*key)
	w.rejected = append(w.rejected[:0], known.beliefs...)
	answer := &w.rejected[d.Run]
	switch {
	case !isApart:
		answer.Mean = 0
	case !answer.Bernoulli:
		return 0 // nothing judges it
	default:
		_, _, answer.Mean = answer.Judge.Look(answer.Mean)
	}
	if s.Decide(&cascade.State{Beliefs: w.rejected, Costs: known.costs, Ran: w.ran, Coin: coin}).Run == cascade.Stop {
		return 0
	}
	if isApart {
		d.Look = true
		w.add(d, key)
	}
	return usd
}

// add adds a decision to the models and looks seen.
func (w *Walker) add(d cascade.Decision, key *set) (mark int) {
	mark = d.Mark(w.seen, len(w.quality))
	w.seen = append(w.seen, mark)
	key[mark/64%len(key)] |= 1 << (mark % 64)
	return mark
}

func (w *Walker) beliefAt(key set) belief {
	b, ok := w.known[key]
	if !ok {
		b = belief{make([]cascade.Belief, len(w.quality)), make([]float64, len(w.quality))}
		w.cursor.Believe(w.seen, b.beliefs, b.costs)
		w.known[key] = b
	}
	return b
}
