// Package replay takes the steps that a strategy would have taken on recorded outcomes.
// The outcome of a model is seen once the model has run, and no sooner.
//
//	w := replay.NewWalker(source.Start(q), table.Quality[q], table.CostUSD[q])
//	step := w.Walk(strategy, coin, nil)
//
// A fit, an evaluation and a measurement of drift are observers of the same walk.
package replay

import "github.com/stepfall/stepfall/sdk/cascade"

// MaxModels bounds the models of a table, so that sets of them, and of looks at their
// answers, can be told apart.
const MaxModels = 128

// A Source starts the estimation of queries. It must be safe for concurrent use.
type Source interface {
	// Start returns a cursor before any model has run on a query, given by its
	// index in the outcomes.
	Start(query int) Cursor
}

// A Cursor says what is believed about one query. It is used by one goroutine.
type Cursor interface {
	// Believe fills in the beliefs and the predicted costs of all models, given
	// what has run and was looked at, in order; see [cascade.Decision.Mark]. It may
	// read the outcomes of those and of no others. Beliefs must not depend on the
	// order within the set.
	Believe(seen []int, beliefs []cascade.Belief, costs []float64)
}

// A Pricer is a cursor that offers looks at answers and knows what they cost.
type Pricer interface{ LookUSD(look int) float64 }

// A Seller is a cursor whose verdicts may be looks that are paid for one by one. Until Sell is called
// every answer that was seen is seen with its verdict.
type Seller interface{ Sell() }

// A Turn is one decision of a walk. Its slices are used again after the observer returns.
type Turn struct {
	State    cascade.State
	Decision cascade.Decision
}

// A Step is what a strategy did on one query. Seen is used again by the next walk.
type Step struct {
	// Seen are the models that were run and the looks that were bought, in order and
	// called as by [cascade.Decision.Mark]; Models is the number of the former.
	Seen   []int
	Models int
	// Answer is the model whose answer is returned, or [cascade.None].
	Answer int
	// Quality is the recorded quality of the answer, and Estimate what was believed of it.
	Quality, Estimate float64
	CostUSD           float64
}

// A Walker takes steps on one query and remembers what was believed after each set of
// models: the strategies of a sweep meet the same sets again and again. It is used by
// one goroutine.
type Walker struct {
	cursor        Cursor
	quality, cost []float64
	known         map[set]belief
	seen, ran     []int
}

type belief struct {
	beliefs []cascade.Belief
	costs   []float64
}

// set is a set of models and of looks at their answers.
type set [4]uint64

// NewWalker returns a walker over one query, given what each model's answer was worth
// and cost.
func NewWalker(c Cursor, quality, costUSD []float64) *Walker {
	if s, ok := c.(Seller); ok {
		s.Sell()
	}
	return &Walker{cursor: c, quality: quality, cost: costUSD, known: map[set]belief{}}
}

// Walk takes one step. The observer, when not nil, is called with each decision.
func (w *Walker) Walk(s cascade.Strategy, coin float64, observe func(*Turn)) Step {
	w.seen, w.ran = w.seen[:0], w.ran[:0]
	var key set
	var step Step
	var t Turn
	for {
		b := w.believe(key)
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
			w.see(d, &key)
			w.ran = append(w.ran, d.Run)
			step.CostUSD += w.cost[d.Run]
			verdict := &b.beliefs[d.Run]
			d.Look = verdict.Bernoulli && verdict.Look.Bernoulli && !cascade.Buys(s)
		}
		if d.Look {
			step.CostUSD += w.cursor.(Pricer).LookUSD(w.see(d, &key))
		}
	}
}

// see adds what a decision asks for to what was seen.
func (w *Walker) see(d cascade.Decision, key *set) (mark int) {
	mark = d.Mark(w.seen, len(w.quality))
	w.seen = append(w.seen, mark)
	key[mark/64%len(key)] |= 1 << (mark % 64)
	return mark
}

func (w *Walker) believe(key set) belief {
	b, ok := w.known[key]
	if !ok {
		b = belief{make([]cascade.Belief, len(w.quality)), make([]float64, len(w.quality))}
		w.cursor.Believe(w.seen, b.beliefs, b.costs)
		w.known[key] = b
	}
	return b
}
