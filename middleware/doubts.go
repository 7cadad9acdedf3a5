package middleware

import (
	"math"
	"sync"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/step"
)

// doubts counts, for each tool, how often two answers that call it differ: if they often do, two that
// agree may err together. It also tracks spending, to bound the cost of acting on doubts.
type doubts struct {
	mu              sync.Mutex
	tools           map[string]*comparisons
	steps, spentUSD float64
	// The dearest model was asked in some of the steps, for ownUSD. othersUSD is what the other steps' answers
	// cost at its prices.
	asked, ownUSD, othersUSD float64
	// Where it was asked after another, it cost afterUSD, and the other's tokens beforeUSD at its prices.
	afterUSD, beforeUSD float64
}

// comparisons counts the steps in which two answers were compared, and those in which they differed.
type comparisons struct{ compared, differed float64 }

const (
	// priorCompared and priorDiffered are the prior counts of a tool: answers differ on one in ten calls.
	priorCompared, priorDiffered = 10, 1
	// slackSteps is the slack of the spending limit, in steps of the dearest model. Twice the slack above
	// the limit holds two thirds of the disputes and doubts back; the slack above the dearest model's
	// whole cost asks it alone.
	slackSteps = 10
	// maxDoubtTools bounds the memory.
	maxDoubtTools = 10000
)

func (d *doubts) record(result *step.Result, dearest *sdk.Model) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ownUSD, othersUSD := 0.0, dearest.Price.CostUSD(result.Answer.Usage)
	for i := range result.Attempts {
		if a := &result.Attempts[i].Answer; a.Model == dearest.Name {
			ownUSD, othersUSD = a.CostUSD, 0
			if i > 0 {
				d.afterUSD += ownUSD
				d.beforeUSD += dearest.Price.CostUSD(result.Attempts[0].Answer.Usage)
			}
		}
	}
	if ownUSD+othersUSD > 0 {
		d.steps++
		d.spentUSD += result.Trace.CostUSD
		d.ownUSD += ownUSD
		d.othersUSD += othersUSD
	}
	if ownUSD > 0 {
		d.asked++
	}
	if len(result.Attempts) > 1 {
		d.compareTools(result)
	}
}

// compareTools counts by tool of the answer how often the first two answers differed. The lock is held.
func (d *doubts) compareTools(result *step.Result) {
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

// dearestUSD estimates what the steps would have cost with the dearest model alone. Steps without it cost
// what their answers' tokens cost at its prices, or its mean cost where it was asked if that is less: the
// first is too high if another model reasons more, the second if mostly long steps are disputed.
func (d *doubts) dearestUSD() float64 {
	others := d.othersUSD * (d.afterUSD + 1e-9) / (d.beforeUSD + 1e-9)
	if d.asked > 0 {
		others = min(others, (d.steps-d.asked)*d.ownUSD/d.asked)
	}
	return d.ownUSD + others
}

// addFeatures adds the doubts about each tool on offer, and about texts, to a query's features, and
// by how much they are held back since steps have cost more than a share of the dearest model's.
func (d *doubts) addFeatures(q *sdk.Query, upTo float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	excess := func(share float64) float64 { return (d.spentUSD/d.dearestUSD() - share) * d.steps / slackSteps }
	if over := excess(upTo); over > 1 {
		q.Features[feature.HeldBack] = 1 - math.Exp(1-over)
	}
	if excess(1) > 1 {
		q.Features[feature.Overspent] = 1
	}
	add := func(name string) {
		if c := d.tools[name]; c != nil {
			q.Features[feature.Doubt+name] = (c.differed + priorDiffered) / (c.compared + priorCompared)
		}
	}
	add("")
	for i := range q.Tools {
		add(q.Tools[i].Name)
	}
}
