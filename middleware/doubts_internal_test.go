package middleware

import (
	"fmt"
	"math"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// What always asking the dearest model would cost is known within a few percent, whatever is cached by whom: the cheap
// model finds nearly everything in a cache of its own, and the dearest one must read what others answered.
func TestDearestUSDKnowsCaches(t *testing.T) {
	small := sdk.Price{Input: 1, CachedInput: 0.1, CacheWrite: 1, Output: 4}
	large := sdk.Model{Name: "large", Price: sdk.Price{Input: 5, CachedInput: 0.5, CacheWrite: 6.25, Output: 25}}
	for name, hasCache := range map[string]bool{"with caches": true, "without": false} {
		var d doubts
		truth := 0.0
		for run := range 40 {
			asked := 0 // what the large model has read
			for n := range 6 {
				prompt, cached, tools := 5000+400*n, 4900+400*(n-1), []string{"read"}
				if n == 0 {
					cached = 0
				}
				always, own := sdk.Usage{CachedInputTokens: cached, CacheWriteTokens: prompt - cached, OutputTokens: 90}, sdk.Usage{CachedInputTokens: asked, CacheWriteTokens: prompt - asked, OutputTokens: 90}
				if n == 5 { // the last step has no tools
					tools, always = nil, sdk.Usage{InputTokens: prompt, OutputTokens: 90}
					own = always
				}
				first := sdk.Usage{InputTokens: prompt - cached, CachedInputTokens: cached, OutputTokens: 90}
				if !hasCache {
					always = sdk.Usage{InputTokens: prompt, OutputTokens: 90}
					own, first = always, always
				}
				truth += large.Price.CostUSD(always)
				attempts := []sdk.Attempt{{Answer: sdk.Answer{Model: "small", Usage: first, CostUSD: small.CostUSD(first)}}}
				if run%3 == n%3 {
					attempts = append(attempts, sdk.Attempt{Answer: sdk.Answer{Model: "large", Usage: own, CostUSD: large.Price.CostUSD(own)}})
					asked = prompt
				}
				trace := &sdk.Trace{Run: fmt.Sprint(run), Tools: tools, InputTokens: prompt, Decisions: []sdk.Decision{{Models: []sdk.Belief{{Model: "small", Price: &small}, {Model: "large", Price: &large.Price}}}}}
				for i := range attempts {
					trace.Calls = append(trace.Calls, sdk.Call{Model: attempts[i].Answer.Model, Usage: attempts[i].Answer.Usage})
				}
				d.record(&step.Result{Attempts: attempts, Answer: &attempts[len(attempts)-1].Answer, Trace: trace}, &large)
			}
		}
		if got := d.dearestUSD(); math.Abs(got-truth) > 0.05*truth {
			t.Errorf("%s: %.4f USD, want %.4f", name, got, truth)
		}
	}
}
