package outcome

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
)

// OfTraces returns the table of recorded steps, with models in the order of their first
// appearance. Its qualities are the verdicts on the steps, and their share of the verdicts
// on their runs. Steps with the same query id, such as a step and its shadow, are one query;
// the first outcome of a model counts.
func OfTraces(traces []*sdk.Trace) (*Table, error) {
	b := newBuilder()
	b.verified = true
	for i, t := range traces {
		if f := b.addSteps(t); f != nil {
			return nil, &Error{File: "traces", Row: i + 1, Column: f.column, Err: f.err}
		}
	}
	t, err := b.table("traces")
	if err != nil {
		return nil, err
	}
	t.Verified = true
	return t, nil
}

func readTrace(line []byte) (*sdk.Trace, *fault) {
	t := new(sdk.Trace)
	err := json.Unmarshal(line, t)
	if f, isOther := errors.AsType[*json.UnmarshalTypeError](err); isOther {
		return nil, &fault{f.Field, fmt.Errorf("a trace has no %s there", f.Value)}
	}
	switch {
	case err != nil:
		return nil, &fault{"", err}
	case cmp.Or(t.QueryID, t.ID) == "":
		return nil, &fault{"id", errEmpty}
	case !t.HasCosts():
		return nil, &fault{colCost, errors.New("no step costs that")}
	}
	return t, nil
}

// convertCosts sets the costs of a trace's calls to those at the builder's prices.
func (b *builder) convertCosts(t *sdk.Trace) {
	for i := range t.Calls {
		c := &t.Calls[i]
		price, known := b.prices[c.Model]
		usd := t.CallUSD(c, price)
		if !known || usd == c.CostUSD {
			continue
		}
		c.CostUSD = usd
		if !slices.Contains(b.converted, c.Model) && b.reportConverted != nil {
			b.converted = append(b.converted, c.Model)
			b.reportConverted(c.Model, *t.Belief(c.Model).Price)
		}
	}
}

// addSteps adds a trace. Only models that ran and were judged have a quality. Traces with the same query id
// are one query; without an id each trace is a query of its own.
func (b *builder) addSteps(t *sdk.Trace) *fault {
	if v, isReport := t.RunVerdict(); isReport {
		quality, judged := v.Quality()
		if !judged {
			quality = math.NaN()
		}
		b.runOf(t).quality = quality
	}
	if !sdk.HasChoice(t.Mode) {
		return nil
	}
	id := strings.TrimSpace(cmp.Or(t.QueryID, t.ID))
	if id == "" {
		return &fault{"id", errEmpty}
	}
	q := b.query(id, t.Group, t.Prompt)
	if b.tools = grow(b.tools, q, ""); len(t.Tools) > 0 {
		b.tools[q] = strings.Join(t.Tools, ",")
	}
	isPinned, isDecided := choiceOf(t)
	for _, c := range cellsOf(t, id, isDecided) {
		p := place{q, b.model(c.model)}
		if isPinned {
			b.pinned[p] = true
		}
		if f := b.addCell(t, c, p); f != nil {
			return f
		}
	}
	return nil
}

func (b *builder) addCell(t *sdk.Trace, c *cell, p place) *fault {
	switch t.Mode {
	case "observe", "shadow":
		b.baselines = append(b.baselines, p)
	case "shadow_alternative":
		b.shadows = append(b.shadows, p)
	}
	if cellAt(b.seen, p, false) {
		return nil // the query's first outcome of the model counts
	}
	if t.Run != "" && c.model == t.Chosen && t.Mode != "shadow_alternative" {
		r := b.runOf(t)
		r.returned = append(r.returned, p)
	}
	if f := b.add(c); f != nil {
		return f
	}
	if price, isKnown := b.priceOf(t, c.model); isKnown && c.usage != nil {
		saved := price.CachedUSD(*c.usage)
		if usd := price.CostUSD(*c.usage); usd > 0 {
			saved *= c.usd / usd // on the tier on which it was billed
		}
		b.cachedUSD = setCell(b.cachedUSD, p, saved, math.NaN())
		b.anyCached = b.anyCached || c.usage.CachedInputTokens > 0
	}
	if c.isRejected {
		b.rejected[p] = true
	}
	return nil
}

// choiceOf reports whether the returned answer came from the only model that could be called, and whether
// it came from a strategy's choice.
func choiceOf(t *sdk.Trace) (isPinned, isDecided bool) {
	if !slices.Contains([]string{"", "enforce", sdk.ModeAttempt}, t.Mode) {
		return false, false
	}
	isPinned = t.Holdout.UsesBaseline() || len(t.Decisions) > 0 && len(t.Decisions[0].Models) == 1
	return isPinned, !isPinned
}

// cellsOf returns the outcome of each model that a step called.
func cellsOf(t *sdk.Trace, query string, isDecided bool) (cells []*cell) {
	troubles := feature.ToolTroubles(t.Features)
	for i := range t.Calls {
		call := &t.Calls[i]
		model := strings.TrimSpace(call.Model)
		at := slices.IndexFunc(cells, func(c *cell) bool { return c.model == model })
		if at < 0 {
			at = len(cells)
			c := &cell{query: query, model: model, numbers: map[string]float64{colQuality: math.NaN(), colCost: 0, colLatency: 0, colEstimated: max(0, float64(t.InputTokens))}}
			c.setPositive(colTroubles, troubles)
			cells = append(cells, c)
		}
		cells[at].addCall(call)
		if call.Error == "" && call.Propensity == 0 && isDecided {
			cells[at].numbers[colPropensity] = 1 // chosen by the strategy, not at random
		}
	}
	return cells
}

// priceOf returns the price of a model at which its cost counts.
func (b *builder) priceOf(t *sdk.Trace, model string) (sdk.Price, bool) {
	if price, isKnown := b.prices[model]; isKnown {
		return price, true
	}
	if belief := t.Belief(model); belief != nil && belief.Price != nil {
		return *belief.Price, true
	}
	return sdk.Price{}, false
}

// addCall adds an attempt at the model. Costs add up, and the last answer counts.
func (c *cell) addCall(call *sdk.Call) {
	c.numbers[colCost] += call.CostUSD
	c.numbers[colLatency] += call.Latency.Seconds()
	if call.Error != "" {
		return
	}
	c.answer = cmp.Or(call.Key, call.Answer)
	if u := &call.Usage; !u.Estimated {
		c.usage, c.usd = u, call.CostUSD
		c.setPositive(colInput, float64(u.InputTokens+u.CachedInputTokens+u.CacheWriteTokens))
		c.setPositive(colOutput, float64(u.OutputTokens+u.ReasoningTokens))
	}
	for name, v := range call.Signals {
		if !isColumn(name) || name == colPost {
			c.numbers[name] = v
		}
	}
	c.setPositive(colPropensity, call.Propensity)
	if v := call.Verdict; v != nil {
		c.setPositive(colVerdictsUSD, v.CostUSD)
	}
	quality, judged := call.Verdict.Quality()
	c.isRejected = judged && sdk.IsCheck(call.Verdict.Verifier)
	if judged && !c.isRejected {
		c.numbers[colQuality] = quality
	}
}

// setPositive sets a number if it is above 0; otherwise it is unknown.
func (c *cell) setPositive(column string, v float64) {
	if v > 0 {
		c.numbers[column] = v
	}
}

// isTrace reports whether an object is a trace rather than a row of outcomes, by its fields.
func isTrace(fields map[string]any) bool {
	_, calls := fields["calls"]
	_, decisions := fields["decisions"]
	return calls && decisions
}
