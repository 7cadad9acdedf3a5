package middleware

import (
	"math"
	"slices"
	"sync"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/step"
)

// doubts counts, for each tool, how often two answers that call it differ: where they often do, even two
// answers that agree can both be wrong. It also tracks spending, to limit the cost of acting on doubts.
type doubts struct {
	mu              sync.Mutex
	tools           map[string]*comparisons
	steps, spentUSD float64
	// asked counts the steps that called the dearest model, and ownUSD is what those calls would cost if it were always
	// asked. othersUSD is what the answers of the other steps would have cost at its prices.
	asked, ownUSD, othersUSD float64
	// afterUSD is the part of ownUSD for calls after another model's first answer, beforeUSD what those answers' tokens cost
	// at its prices.
	afterUSD, beforeUSD float64
	// cacheable counts the calls of the dearest model whose prompts its provider could cache, cached their tokens that were
	// read from its cache, written those that were written to it, and fresh all others and these. There need not be a cache.
	cacheable, cached, written, fresh int
	// hasMarks says that a client marks prompts without tools for caching.
	hasMarks bool
	// prompts are the last prompts of runs, by tenant and run.
	prompts map[[2]string]lastPrompt
}

// lastPrompt is the prompt of a run's last step: its length, whether it had tools, and the models that read it.
type lastPrompt struct {
	tokens   int
	hasTools bool
	models   []string
}

// comparisons counts the steps in which two answers were compared, and those in which they differed.
type comparisons struct{ compared, differed float64 }

const (
	// priorCompared and priorDiffered are the prior counts of a tool: one in ten comparisons differs.
	priorCompared, priorDiffered = 10, 1
	// slackSteps is the slack of the spending limit, in steps of the dearest model. Spending twice the slack
	// above the limit reduces the weight of disputes and doubts by two thirds (exponentially). Spending the
	// slack more than the dearest model alone would have cost sets [feature.Overspent].
	slackSteps = 10
	// maxDoubtTools and maxDoubtRuns limit the memory.
	maxDoubtTools = 10000
	maxDoubtRuns  = 10000
	// enoughCalls of a model that read and wrote nothing in a cache show that there is none.
	enoughCalls = 5
)

func (d *doubts) record(result *step.Result, dearest *sdk.Model) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := &dearest.Price
	share, isCacheable := d.cachedShare(result.Trace, dearest)
	ownUSD, othersUSD := 0.0, d.alwaysUSD(p, result.Answer.Usage, share, isCacheable)
	for i := range result.Attempts {
		if a := &result.Attempts[i].Answer; a.Model == dearest.Name {
			ownUSD, othersUSD = a.CostUSD-p.ColdUSD(a.Usage, share), 0
			if i > 0 {
				d.afterUSD += ownUSD
				d.beforeUSD += d.alwaysUSD(p, result.Attempts[0].Answer.Usage, share, isCacheable)
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

// alwaysUSD returns what a call with these tokens costs a model that is always asked, and so finds a share of the prompt
// in its cache. Of the rest it writes as much to the cache as its own calls did. The lock is held.
func (d *doubts) alwaysUSD(p *sdk.Price, u sdk.Usage, share float64, isCacheable bool) float64 {
	prompt := u.InputTokens + u.CachedInputTokens + u.CacheWriteTokens
	u.CachedInputTokens, u.CacheWriteTokens = int(share*float64(prompt)), 0
	if isCacheable {
		u.CacheWriteTokens = int(float64(d.written) / float64(max(1, d.fresh)) * float64(prompt-u.CachedInputTokens))
	}
	u.InputTokens = prompt - u.CachedInputTokens - u.CacheWriteTokens
	return p.CostUSD(u)
}

// cachedShare returns the share of a step's prompt that the dearest model finds cached if it is always asked: as much as any
// model that was asked or, if none of them was asked in the step before, what that step's prompt was. isCacheable is false
// if its provider caches nothing of it. The lock is held.
func (d *doubts) cachedShare(t *sdk.Trace, dearest *sdk.Model) (share float64, isCacheable bool) {
	d.hasMarks = d.hasMarks || t.HasMarks()
	isCacheable = d.hasMarks || t.IsCacheable(&dearest.Price)
	key := [2]string{t.Tenant, t.Run}
	last, isCold := d.prompts[key]
	now := lastPrompt{tokens: t.InputTokens, hasTools: len(t.Tools) > 0}
	isCold = isCold && last.hasTools == now.hasTools && last.tokens <= now.tokens
	for i := range t.Calls {
		c := &t.Calls[i]
		u := &c.Usage
		prompt := u.InputTokens + u.CachedInputTokens + u.CacheWriteTokens
		if c.Model == dearest.Name && isCacheable {
			d.cacheable++
			d.cached, d.written, d.fresh = d.cached+u.CachedInputTokens, d.written+u.CacheWriteTokens, d.fresh+prompt-u.CachedInputTokens
		}
		now.models = append(now.models, c.Model)
		isCold = isCold && !slices.Contains(last.models, c.Model)
		share = max(share, float64(u.CachedInputTokens)/float64(max(1, prompt)))
	}
	if isCold {
		share = max(share, float64(last.tokens)/float64(max(1, now.tokens)))
	}
	if t.Run != "" {
		if d.prompts == nil || len(d.prompts) >= maxDoubtRuns {
			d.prompts = map[[2]string]lastPrompt{}
		}
		d.prompts[key] = now
	}
	if !isCacheable || d.cacheable >= enoughCalls && d.cached+d.written == 0 {
		return 0, false
	}
	return share, true
}

// compareTools records, for each tool of the answer, whether the first two answers differed. The lock is held.
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

// dearestUSD estimates what the steps would have cost with the dearest model alone. A step without it counts
// as its answer's tokens at the dearest model's prices, or as that model's mean cost per call if that is less:
// the former is too high if another model reasons more, the latter if mostly long steps are disputed.
func (d *doubts) dearestUSD() float64 {
	others := d.othersUSD * (d.afterUSD + 1e-9) / (d.beforeUSD + 1e-9)
	if d.asked > 0 {
		others = min(others, (d.steps-d.asked)*d.ownUSD/d.asked)
	}
	return d.ownUSD + others
}

// addFeatures adds to a query's features the doubt about each tool on offer and about plain text, and, once
// the steps have cost more than upTo times the dearest model's cost, how far doubts are held back.
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
