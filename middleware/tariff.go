package middleware

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
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
	for _, raw := range c.rawTools() {
		var tool struct {
			MaxUses     json.RawMessage `json:"max_uses"`
			Execution   string          `json:"execution"`
			Environment struct{ Type string }
		}
		_ = json.Unmarshal(raw, &tool) // it has no limit then
		if isOne(clientTools, rawToolType(raw)) || tool.Execution == "client" || tool.Environment.Type == "local" {
			continue
		}
		most := usesOf(tool.MaxUses)
		hosted, uses, unlimited = true, uses+most, unlimited || most == 0
	}
	for _, name := range [...]string{"web_search_options", "search_parameters", "plugins", "mcp_servers"} {
		if _, ok := c.params.Extra[name]; ok {
			hosted, unlimited = true, true
		}
	}
	if most := usesOf(c.params.Extra["max_tool_calls"]); most > 0 {
		uses, unlimited = most, false
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

// rawTools returns all tools of the request in an API's own form, those within others and
// within pieces of messages too.
func (c *call) rawTools() []json.RawMessage {
	tools := slices.Clone(c.params.RawTools)
	for i := range c.messages {
		for _, part := range c.messages[i].Parts {
			if raw, ok := unwrap(part).(RawPart); ok && raw.Model == "" {
				within, _ := toolsWithin(raw.Raw)
				tools = append(tools, within...)
			}
		}
	}
	for _, tool := range tools {
		within, _ := toolsWithin(tool)
		tools = append(tools, within...)
	}
	return tools
}

// usesOf returns a limit of uses as a lenient server may read it: 1e2 and "100" are 100. 0 is
// none.
func usesOf(raw json.RawMessage) int {
	n, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err != nil && !math.IsInf(n, 1) || !(n > 0) {
		return 0
	}
	return int(math.Ceil(min(n, mostUses)))
}

// compactTokens bounds what a model writes, within a call, to compact a context that it reads
// for that once more.
const compactTokens = 20_000

// canonical returns JSON whose letters are written as they are and that has no spaces.
func canonical(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return raw
	}
	var v any
	if json.Unmarshal(raw, &v) == nil {
		raw, _ = json.Marshal(v) // it was JSON
	}
	return raw
}

// isKeptLong reports whether JSON says of something that the provider's cache keeps it longer
// than its five minutes.
func isKeptLong(raw json.RawMessage) bool {
	if !bytes.Contains(bytes.ToLower(raw), []byte("ttl")) && bytes.IndexByte(raw, '\\') < 0 {
		return false
	}
	raw = bytes.ToLower(canonical(raw)) // some servers ignore the case of names
	return bytes.Count(raw, []byte(`"ttl":`)) > bytes.Count(raw, []byte(`"ttl":"5m"`))
}

// What requests pay more than a model's prices: OpenAI's fast (once priority) and Google's priority tier
// twice, Anthropic's fast mode six times, its inference in one country a tenth more, and
// what is kept for an hour twice the price of input. What is "auto" is the operator's setting.
var (
	serviceTiers = map[string]float64{"": 1, "auto": 1, "default": 1, "fast": 2, "flex": 1, "on_demand": 1, "standard": 1, "standard_only": 1, "priority": 2}
	speeds       = map[string]float64{"": 1, "standard": 1, "fast": 6}
	// countedValues are the members whose values are known, with their factors.
	countedValues = map[string]map[string]float64{"service_tier": serviceTiers, "serviceTier": serviceTiers, "speed": speeds}
)

const (
	countryFactor = 1.1
	hourFactor    = 2
)

// servedFactor returns how many times dearer than what was asked for the tier is that a model
// says it took, or 0 where that is not known.
func (c *call) servedFactor(d *deployment, tier string) float64 {
	native, ok := d.llm.(NativeModel)
	served := serviceTiers[strings.ToLower(tier)]
	if !ok || tier == "" || served == 0 || native.Dialect() == DialectAnthropic { // whose priority is a contract's
		return 0
	}
	asked := c.params.ServiceTier
	if native.Dialect() == c.params.Dialect {
		asked = cmp.Or(asked, jsonText(c.params.Extra["service_tier"]), jsonText(c.params.Extra["serviceTier"]))
	}
	return served / max(1, serviceTiers[strings.ToLower(asked)])
}

// tariff returns what the request makes of a candidate's prices, or nil where nothing. What is
// in one API's own form changes only the prices of models that are asked by it. Ollama has no
// tiers, and Anthropic none that a request may choose to pay more for.
func (c *call) tariff() func(i int, p sdk.Price) sdk.Price {
	hourly := c.size.hourly
	value := func(name string) string { return strings.ToLower(jsonText(c.params.Extra[name])) }
	tier := max(1, serviceTiers[strings.ToLower(c.params.ServiceTier)])
	factor := max(1, serviceTiers[value("service_tier")], serviceTiers[value("serviceTier")]) * max(1, speeds[value("speed")])
	if place := value("inference_geo"); place != "" && place != "global" {
		factor *= countryFactor
	}
	for _, raw := range c.params.Extra {
		hourly = hourly || isKeptLong(raw)
	}
	for _, raw := range c.params.RawTools {
		hourly = hourly || isKeptLong(raw)
	}
	if tier == 1 && factor == 1 && !hourly {
		return nil
	}
	return func(i int, p sdk.Price) sdk.Price {
		t, times := &c.m.targets[i], 1.0
		if t.speaksDialect(c.params.Dialect) {
			times = factor
		}
		if !t.speaksDialect(DialectOllama) && !t.speaksDialect(DialectAnthropic) {
			times *= tier
		}
		if hourly {
			p.CacheWrite = max(p.CacheWrite, hourFactor*p.Input)
		}
		for _, usd := range [...]*float64{&p.Input, &p.CachedInput, &p.CacheWrite, &p.Output, &p.Reasoning} {
			*usd *= times
		}
		return p
	}
}
