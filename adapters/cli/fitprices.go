package cli

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// unpricedJudges names the policy's paid verifiers whose verdicts have no price in the outcomes.
func unpricedJudges(p *policies.Policy, t *outcome.Table) (names []string) {
	if unattributedPrices(p, t) != nil {
		return nil
	}
	for i := range p.Verifiers {
		v := &p.Verifiers[i]
		if v.MaxUSD > 0 && v.Judges() && t.Signals[v.Name+sdk.SignalCostUSD] == nil {
			names = append(names, v.Name)
		}
	}
	return names
}

// pricesOf returns the prices of a policy's models by name; the policy can be nil.
func pricesOf(p *policies.Policy) map[string]sdk.Price {
	if p == nil {
		return nil
	}
	prices := map[string]sdk.Price{}
	for _, m := range p.SDKModels() {
		prices[m.Name] = m.Price
	}
	return prices
}

// warnConverted says that costs recorded at other prices are converted to the policy's.
func warnConverted(warn io.Writer, model string, was, now sdk.Price) {
	fmt.Fprintf(warn, "stepfall: costs of %q were recorded at other prices (%v in, %v out USD per million tokens): they are converted to the policy's (%v in, %v out)\n",
		say.Plain(model), was.Input, was.Output, now.Input, now.Output)
}

// warnStepPrices warns of the recorded steps whose prices are not those of the policy: they are converted, or
// cannot be as the steps do not state them.
func warnStepPrices(warn io.Writer, steps []*sdk.Trace, prices map[string]sdk.Price) {
	converted, unpriced := map[string]bool{}, costRatios{}
	for _, s := range steps {
		for i := range s.Calls {
			c := &s.Calls[i]
			now, known := prices[c.Model]
			switch b := s.Belief(c.Model); {
			case !known || converted[c.Model]:
			case b == nil || b.Price == nil:
				if u := &c.Usage; !u.Estimated {
					unpriced.add(c.Model, now, c.CostUSD, u.InputTokens+u.CachedInputTokens+u.CacheWriteTokens, u.OutputTokens+u.ReasoningTokens)
				}
			case s.CallUSD(c, now) != c.CostUSD:
				converted[c.Model] = true
				warnConverted(warn, c.Model, *b.Price, now)
			}
		}
	}
	unpriced.warn(warn)
}

// convertToNewestPrices converts the costs of calls to the price that each model had last, so that a fit to steps from
// before and after a change of prices does not mix the two.
func convertToNewestPrices(traces []*sdk.Trace) {
	newest := map[string]*sdk.Price{}
	for _, t := range traces {
		for i := range t.Calls {
			if b := t.Belief(t.Calls[i].Model); b != nil && b.Price != nil {
				newest[b.Model] = b.Price
			}
		}
	}
	for _, t := range traces {
		for i := range t.Calls {
			if c := &t.Calls[i]; newest[c.Model] != nil {
				c.CostUSD = t.CallUSD(c, *newest[c.Model])
			}
		}
	}
}

// warnOtherPrices warns of models whose recorded costs do not follow from their tokens at the given prices.
func warnOtherPrices(warn io.Writer, t *outcome.Table, prices map[string]sdk.Price) {
	ratios := costRatios{}
	for m, name := range t.Models {
		for q := range t.Queries {
			usd, in, out := outcome.At(t.CostUSD, q, m), outcome.At(t.InputTokens, q, m), outcome.At(t.OutputTokens, q, m)
			if price, known := prices[name]; known && !math.IsNaN(usd+in+out) {
				ratios.add(name, price, usd, int(in), int(out))
			}
		}
	}
	ratios.warn(warn)
}

// costRatios holds, by model, recorded costs divided by the nearest possible price of their tokens.
type costRatios map[string][]float64

// add adds a cost. Recorded tokens can be cached, newly cached or reasoning, so their price is a range.
func (r costRatios) add(model string, p sdk.Price, usd float64, in, out int) {
	low, high := math.Inf(1), 0.0
	for _, u := range [...]sdk.Usage{
		{InputTokens: in, OutputTokens: out}, {CachedInputTokens: in, OutputTokens: out}, {CacheWriteTokens: in, OutputTokens: out},
		{InputTokens: in, ReasoningTokens: out}, {CachedInputTokens: in, ReasoningTokens: out}, {CacheWriteTokens: in, ReasoningTokens: out},
	} {
		low, high = min(low, p.CostUSD(u)), max(high, p.CostUSD(u))
	}
	if low > 0 && usd > 0 {
		r[model] = append(r[model], usd/min(max(usd, low), high))
	}
}

// warn names the models whose costs are mostly not what their tokens cost.
func (r costRatios) warn(warn io.Writer) {
	const fewest, tolerance = 5, 1.05
	for _, model := range slices.Sorted(maps.Keys(r)) {
		ratios := slices.Sorted(slices.Values(r[model]))
		if ratio := ratios[len(ratios)/2]; len(ratios) >= fewest && max(ratio, 1/ratio) > tolerance {
			fmt.Fprintf(warn, "stepfall: the recorded costs of %q are %.2g times what its tokens cost at the policy's prices, and stay as they are: "+
				"unless fees or a service tier explain that, they are from another price, and so is what follows\n", say.Plain(model), ratio)
		}
	}
}
