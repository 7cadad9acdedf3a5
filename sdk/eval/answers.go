package eval

import (
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/replay"
)

// answers reads the answers to one query of the train half one by one, each first without its verdict if
// that has a price.
type answers struct {
	cursor  replay.Cursor
	paid    replay.VerdictSeller // nil if no verdict has a price
	seen    []int
	beliefs []cascade.Belief
	costs   []float64
}

func newAnswers(c replay.Cursor, models int) *answers {
	a := &answers{cursor: c, beliefs: make([]cascade.Belief, models), costs: make([]float64, models)}
	if s, ok := c.(replay.VerdictSeller); ok && s.SellVerdicts() {
		a.paid = s
	}
	return a
}

// run adds the answer of a model, with its verdict if that is free.
func (a *answers) run(model int) {
	a.seen = append(a.seen, model)
	a.cursor.Believe(a.seen, a.beliefs, a.costs)
}

// judge adds the verdict on the answer of a model that has run, and returns its cost.
func (a *answers) judge(model int) float64 {
	if a.paid == nil {
		return 0
	}
	usd, isApart := a.paid.VerdictUSD(model)
	if !isApart {
		return usd
	}
	if !a.beliefs[model].Bernoulli {
		return 0 // nothing judges it
	}
	a.run(len(a.beliefs) + model)
	return usd
}

// best returns the model with the highest estimate, the first among equals.
func (a *answers) best(models []int) int {
	best := models[0]
	for _, m := range models {
		if a.beliefs[m].Mean > a.beliefs[best].Mean {
			best = m
		}
	}
	return best
}
