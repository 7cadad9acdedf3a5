package middleware

import (
	"math"
	"sync"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/step"
)

// doubts counts, for each tool, how often two answers that call it differ: where they do, two
// that agree may err together. What is done about that is bounded by what it costs.
type doubts struct {
	mu    sync.Mutex
	tools map[string]*comparisons
	// steps have cost spentUSD, and would have cost dearestUSD with the dearest model alone.
	steps, spentUSD, dearestUSD float64
	// lengths are by models that it was asked after.
	lengths map[string]*lengths
}

// lengths are what the dearest model cost where it was asked after another, and the other's tokens at
// its prices: their ratio says how many more tokens it has.
type lengths struct{ ownUSD, othersUSD float64 }

// comparisons counts the steps in which two answers were compared, and those in which they differed.
type comparisons struct{ compared, differed float64 }

const (
	// usualCompared and usualDiffered are as if a tool had been called before: two answers
	// differ on one in ten of the calls.
	usualCompared, usualDiffered = 10, 1
	// heldBackSteps is by what so many of the dearest model's own steps cost the share of its cost may
	// be passed; as many more hold two thirds of the disputes and doubts back. From so many more than all
	// of it would have cost, it is asked alone.
	heldBackSteps = 10
	// maxDoubtTools bounds the memory.
	maxDoubtTools = 10000
)

// record counts a step.
func (d *doubts) record(result *step.Result, dearest *sdk.Model) {
	d.mu.Lock()
	defer d.mu.Unlock()
	usd := dearest.Price.CostUSD(result.Answer.Usage)
	if of := d.lengths[result.Answer.Model]; of != nil {
		usd *= of.ownUSD / of.othersUSD
	}
	for i := range result.Attempts {
		if a := &result.Attempts[i].Answer; a.Model == dearest.Name {
			usd = a.CostUSD
			d.compareLengths(result.Attempts[:i], usd, dearest)
		}
	}
	if usd > 0 {
		d.steps++
		d.spentUSD += result.Trace.CostUSD
		d.dearestUSD += usd
	}
	if len(result.Attempts) < 2 {
		return
	}
	differs := feature.AnswerKey(&result.Attempts[0].Answer) != feature.AnswerKey(&result.Attempts[1].Answer)
	for _, name := range feature.ToolsOf(result.Answer) {
		c := d.tools[name]
		if c == nil {
			if c = (&comparisons{}); len(d.tools) >= maxDoubtTools {
				return
			}
			if d.tools == nil {
				d.tools = map[string]*comparisons{}
			}
			d.tools[name] = c
		}
		c.compared++
		if differs {
			c.differed++
		}
	}
}

// compareLengths counts what the dearest model cost after others.
func (d *doubts) compareLengths(others []sdk.Attempt, ownUSD float64, dearest *sdk.Model) {
	for i := range others {
		a := &others[i].Answer
		othersUSD := dearest.Price.CostUSD(a.Usage)
		if othersUSD <= 0 {
			continue
		}
		of := d.lengths[a.Model]
		if of == nil {
			if d.lengths == nil {
				d.lengths = map[string]*lengths{}
			}
			of = &lengths{}
			d.lengths[a.Model] = of
		}
		of.ownUSD += ownUSD
		of.othersUSD += othersUSD
	}
}

// addFeatures adds the doubts about each tool on offer, and about texts, to a query's features, and
// by how much they are held back since steps have cost more than a share of the dearest model's.
func (d *doubts) addFeatures(q *sdk.Query, upTo float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	excess := func(share float64) float64 { return (d.spentUSD/d.dearestUSD - share) * d.steps / heldBackSteps }
	if over := excess(upTo); over > 1 {
		q.Features[feature.HeldBack] = 1 - math.Exp(1-over)
	}
	if excess(1) > 1 {
		q.Features[feature.Overspent] = 1
	}
	add := func(name string) {
		if c := d.tools[name]; c != nil {
			q.Features[feature.Doubt+name] = (c.differed + usualDiffered) / (c.compared + usualCompared)
		}
	}
	add("")
	for i := range q.Tools {
		add(q.Tools[i].Name)
	}
}
