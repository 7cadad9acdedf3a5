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
}

// comparisons counts the steps in which two answers were compared, and those in which they differed.
type comparisons struct{ compared, differed float64 }

const (
	// usualCompared and usualDiffered are as if a tool had been called before: two answers
	// differ on one in ten of the calls.
	usualCompared, usualDiffered = 10, 1
	// leastDoubt is what is worth saying.
	leastDoubt = 0.02
	// doubtSteps is by how many of the dearest model's own steps the share of its cost has to be
	// passed for a doubt to be a third of what it was.
	doubtSteps = 20
	// maxDoubtTools bounds the memory.
	maxDoubtTools = 10000
)

// record counts a step.
func (d *doubts) record(result *step.Result, dearest *sdk.Model) {
	d.mu.Lock()
	defer d.mu.Unlock()
	usd := dearest.Price.CostUSD(result.Answer.Usage)
	for i := range result.Attempts {
		if a := &result.Attempts[i].Answer; a.Model == dearest.Name {
			usd = a.CostUSD
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

// addFeatures adds the doubts about each tool on offer, and about texts, to a query's features.
func (d *doubts) addFeatures(q *sdk.Query, upTo float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.tools) == 0 {
		return
	}
	heldBack := 1.0
	if excess := d.spentUSD - upTo*d.dearestUSD; excess > 0 {
		heldBack = math.Exp(-excess / d.dearestUSD * d.steps / doubtSteps)
	}
	add := func(name string) {
		if c := d.tools[name]; c != nil {
			if doubt := heldBack * (c.differed + usualDiffered) / (c.compared + usualCompared); doubt >= leastDoubt {
				q.Features[feature.Doubt+name] = doubt
			}
		}
	}
	add("")
	for i := range q.Tools {
		add(q.Tools[i].Name)
	}
}
