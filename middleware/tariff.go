package middleware

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
)

// defaultReads is how often a call may read the context anew whose hosted tools have no limit.
const defaultReads = 20

// mostUses bounds how often a caller says that tools may run: nobody can pay for more.
const mostUses = 1_000_000

// hostedCalls returns how often a call may read the context anew because the provider runs
// tools within it, and how often it may run them: its searches, fetches, code and MCP
// servers. A limit of the caller's on their uses (Anthropic's max_uses, OpenAI's
// max_tool_calls) bounds it.
func (c *call) hostedCalls() (reads, calls int) {
	hosted, uses, unlimited := false, 0, false
	for _, raw := range c.params.RawTools {
		name := rawToolType(raw)
		if !slices.ContainsFunc([]string{"search", "Search", "fetch", "code_", "codeExecution", "mcp", "image_generation", "urlContext"}, func(sign string) bool { return strings.Contains(name, sign) }) {
			continue
		}
		var tool struct {
			MaxUses int `json:"max_uses"`
		}
		_ = json.Unmarshal(raw, &tool) // it has no limit then
		hosted, uses, unlimited = true, uses+min(max(tool.MaxUses, 0), mostUses), unlimited || tool.MaxUses <= 0
	}
	for _, name := range [...]string{"web_search_options", "search_parameters", "plugins", "mcp_servers"} {
		if _, ok := c.params.Extra[name]; ok {
			hosted, unlimited = true, true
		}
	}
	if raw := c.params.Extra["max_tool_calls"]; raw != nil && json.Unmarshal(raw, &calls) == nil && calls > 0 {
		uses, unlimited = min(calls, mostUses), false
	}
	if unlimited {
		uses = max(uses, defaultReads)
	}
	switch _, stored := c.params.Extra["cachedContent"]; {
	case hosted:
		return min(uses+1, defaultReads), uses
	case stored:
		return 1, 0
	}
	return 0, 0
}

// compactTokens bounds what a model writes, within a call, to compact a context that it reads
// for that once more.
const compactTokens = 20_000

// holds reports whether JSON has a text in it, however its letters are written.
func holds(raw json.RawMessage, text string) bool {
	var v any
	if bytes.IndexByte(raw, '\\') >= 0 && json.Unmarshal(raw, &v) == nil {
		raw, _ = json.Marshal(v) // it was JSON
	}
	return bytes.Contains(raw, []byte(text))
}

// What requests pay more than a model's prices: OpenAI's and Google's priority tier up to
// twice, Anthropic's fast mode six times, its inference in one country a tenth more, and
// what is kept for an hour twice the price of input.
const (
	priorityFactor, fastFactor, countryFactor = 2, 6, 1.1
	hourFactor                                = 2
)

// tariff returns what the request makes of a model's prices, or nil where nothing.
func (c *call) tariff() func(sdk.Price) sdk.Price {
	factor, hourly := 1.0, c.size.hourly
	if strings.Contains(strings.ToLower(c.params.ServiceTier), "priority") {
		factor = priorityFactor
	}
	for name, raw := range c.params.Extra {
		value := strings.ToLower(jsonText(raw))
		switch {
		case name == "speed" && value == "fast":
			factor *= fastFactor
		case name == "inference_geo" && value != "" && value != "global":
			factor *= countryFactor
		case (name == "service_tier" || name == "serviceTier") && strings.Contains(value, "priority"):
			factor = max(factor, priorityFactor)
		}
		hourly = hourly || holds(raw, `"1h"`)
	}
	for _, raw := range c.params.RawTools {
		hourly = hourly || holds(raw, `"1h"`)
	}
	if factor == 1 && !hourly {
		return nil
	}
	return func(p sdk.Price) sdk.Price {
		if hourly {
			p.CacheWrite = max(p.CacheWrite, hourFactor*p.Input)
		}
		for _, usd := range [...]*float64{&p.Input, &p.CachedInput, &p.CacheWrite, &p.Output, &p.Reasoning} {
			*usd *= factor
		}
		return p
	}
}
