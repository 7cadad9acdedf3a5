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

// defaultReads is how often a call is assumed to reread the context if its hosted tools have no limit.
const defaultReads = 20

const maxUses = 1_000_000

// hostedCalls returns how often a call can reread the context because the provider runs tools within it
// (search, fetch, code, MCP), and how often it can run those tools. The caller's limits on tool uses
// (Anthropic's max_uses, OpenAI's max_tool_calls) limit both.
func (c *call) hostedCalls() (reads, calls int) {
	hosted, uses, unlimited := false, 0, false
	for _, raw := range c.rawTools() {
		most, isHosted := hostedUses(raw)
		if !isHosted {
			continue
		}
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

// hostedUses returns how often a tool hosted by the provider can be used; 0 means unlimited.
func hostedUses(raw json.RawMessage) (most int, isHosted bool) {
	var tool struct {
		MaxUses     json.RawMessage `json:"max_uses"`
		Execution   string          `json:"execution"`
		Environment struct{ Type string }
	}
	_ = json.Unmarshal(raw, &tool) // on an error it has no limit
	if matchesType(clientTools, rawToolType(raw)) || tool.Execution == "client" || tool.Environment.Type == "local" {
		return 0, false
	}
	return usesOf(tool.MaxUses), true
}

// rawTools returns all tools of the request in an API's own form, including those nested in other tools
// and in message parts.
func (c *call) rawTools() []json.RawMessage {
	tools := slices.Clone(c.params.RawTools)
	for i := range c.messages {
		for _, part := range c.messages[i].Parts {
			if raw, ok := unwrap(part).(RawPart); ok && raw.Model == "" {
				within, _ := nestedTools(raw.Raw)
				tools = append(tools, within...)
			}
		}
	}
	for _, tool := range tools {
		within, _ := nestedTools(tool)
		tools = append(tools, within...)
	}
	return tools
}

// usesOf parses a limit on tool uses as leniently as a server might: 1e2 and "100" are 100. 0 means none.
func usesOf(raw json.RawMessage) int {
	if len(raw) == 0 { // most requests; avoids allocating an error
		return 0
	}
	n, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err != nil && !math.IsInf(n, 1) || !(n > 0) {
		return 0
	}
	return int(math.Ceil(min(n, maxUses)))
}

// compactTokens is an upper bound on the tokens that a model writes to compact its context within a call.
const compactTokens = 20_000

// canonicalJSON returns JSON without whitespace and without escapes of plain letters.
func canonicalJSON(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return raw
	}
	var v any
	if json.Unmarshal(raw, &v) == nil {
		raw, _ = json.Marshal(v) // it was JSON
	}
	return raw
}

// hasLongTTL reports whether JSON asks the provider to cache something for longer than five minutes.
func hasLongTTL(raw json.RawMessage) bool {
	if !bytes.Contains(bytes.ToLower(raw), []byte("ttl")) && bytes.IndexByte(raw, '\\') < 0 {
		return false
	}
	raw = bytes.ToLower(canonicalJSON(raw)) // some servers match names case-insensitively
	return bytes.Count(raw, []byte(`"ttl":`)) > bytes.Count(raw, []byte(`"ttl":"5m"`))
}

// Factors on a model's prices, by the value of a request member. A faster tier costs the model's
// FastFactor; if the catalogue has none, the highest factor of its kind applies: GPT-5.5's
// priority tier (https://openai.com/api-fast-mode/), GPT-6 Astra's ultrafast one
// (https://developers.openai.com/api/docs/guides/ultrafast-mode), Claude Opus 4.6's fast mode
// (https://platform.claude.com/docs/en/build-with-claude/fast-mode). The meaning of "auto" is the
// operator's setting, that of "scale" and "standard_only" is set by a contract.
var (
	serviceTiers = map[string]float64{"": 1, "auto": 1, "default": 1, "fast": 2.5, "flex": 1, "on_demand": 1, "priority": 2.5, "scale": 1, "standard": 1, "standard_only": 1, "ultrafast": dearestFactor}
	speeds       = map[string]float64{"": 1, "standard": 1, "fast": dearestFactor}
	// countedValues are the members whose values have known factors.
	countedValues = map[string]map[string]float64{"service_tier": serviceTiers, "serviceTier": serviceTiers, "speed": speeds}
)

const (
	// dearestFactor is the factor of the most expensive tier of any model, and of an unknown tier.
	dearestFactor = 6
	// countryFactor is Anthropic's factor for inference in one country, by request or by a workspace's default:
	// https://platform.claude.com/docs/en/manage-claude/data-residency
	// hourFactor is the price of cache writes kept for an hour, relative to input.
	countryFactor = 1.1
	hourFactor    = 2
)

func tierFactor(tiers map[string]float64, p *sdk.Price, value string) float64 {
	value = strings.ToLower(value)
	factor, isKnown := tiers[value]
	switch {
	case !isKnown:
		return dearestFactor
	case value == "fast" || value == "priority":
		return cmp.Or(p.FastFactor, factor)
	}
	return factor
}

// requestedTier returns the price factor of the requested service tier, the highest if there are several. Ollama
// has no tiers, and Anthropic none that costs more.
func (c *call) requestedTier(own Dialect, p *sdk.Price) float64 {
	if own == DialectOllama || own == DialectAnthropic {
		return 1
	}
	factor := tierFactor(serviceTiers, p, c.params.ServiceTier)
	if own == c.params.Dialect {
		for _, name := range [...]string{"service_tier", "serviceTier"} {
			factor = max(factor, tierFactor(serviceTiers, p, jsonText(c.params.Extra[name])))
		}
	}
	return factor
}

func (c *call) requestedSpeed(own Dialect, p *sdk.Price) float64 {
	if own != c.params.Dialect {
		return 1
	}
	return tierFactor(speeds, p, jsonText(c.params.Extra["speed"]))
}

// mayDefaultGeo reports whether the workspace's default decides where d runs the request.
func (c *call) mayDefaultGeo(d *deployment) bool {
	return d.usesDialect(DialectAnthropic) && (c.params.Dialect != DialectAnthropic || jsonText(c.params.Extra["inference_geo"]) == "")
}

// surcharge returns the factor by which a candidate can cost more than the request states, or nil if none can.
func (c *call) surcharge() func(i int) float64 {
	if !slices.ContainsFunc(c.m.targets, func(t target) bool { return c.mayDefaultGeos(t.deployments) }) {
		return nil
	}
	return func(i int) float64 {
		if c.mayDefaultGeos(c.m.targets[i].deployments) {
			return countryFactor
		}
		return 1
	}
}

func (c *call) mayDefaultGeos(list []*deployment) bool {
	return slices.ContainsFunc(list, func(d *deployment) bool { return c.mayDefaultGeo(d) })
}

// geoFactor returns the price of an answer relative to the requested price, by the place of inference.
func geoFactor(geo string) float64 {
	switch strings.ToLower(geo) {
	case "", "global", "not_available":
		return 1
	}
	return countryFactor
}

// servedFactor returns the price of the served tier relative to that of the requested one, or 0 if unknown.
func (c *call) servedFactor(d *deployment, p *sdk.Price, x *Extra) float64 {
	served, asked, tiers := x.ServiceTier, c.requestedTier, serviceTiers
	if d.usesDialect(DialectAnthropic) { // its service tiers are set by a contract
		served, asked, tiers = x.Speed, c.requestedSpeed, speeds
	}
	if served == "" || !isPriced(tiers, served) {
		return 0
	}
	factor := tierFactor(tiers, p, served)
	if strings.EqualFold(served, "flex") { // not reserved, since a request for it can be answered on another tier
		factor = cmp.Or(p.FlexFactor, 1)
	}
	return factor / asked(d.dialect(), p)
}

// writeFactor returns the answer's price relative to the requested price, by the share of cache writes
// that the server reports as kept for an hour; 1 if it does not report that.
func (c *call) writeFactor(p *sdk.Price, x *Extra, u sdk.Usage) float64 {
	if x.HourWriteTokens == nil || u.CacheWriteTokens == 0 {
		return 1
	}
	asked, served := *p, *p
	hourly := max(p.CacheWrite, hourFactor*p.Input)
	if c.isHourly() {
		asked.CacheWrite = hourly
	}
	share := float64(min(*x.HourWriteTokens, u.CacheWriteTokens)) / float64(u.CacheWriteTokens)
	served.CacheWrite = share*hourly + (1-share)*p.CacheWrite
	if usd := asked.CostUSD(u); usd > 0 {
		return served.CostUSD(u) / usd
	}
	return 1
}

// audioFactor returns the answer's price relative to that of a prompt without audio. The reservation for audio
// counts one token per byte, which exceeds the higher price of audio tokens.
func audioFactor(p *sdk.Price, x *Extra, u sdk.Usage) float64 {
	usd := p.CostUSD(u)
	if audio := min(x.AudioTokens, u.InputTokens); audio > 0 && p.AudioInput > 0 && usd > 0 {
		return (usd + float64(audio)*(p.AudioInput-p.Input)/1e6) / usd
	}
	return 1
}

func (c *call) isHourly() bool {
	if c.size.hourly || slices.ContainsFunc(c.params.RawTools, hasLongTTL) {
		return true
	}
	for _, raw := range c.params.Extra {
		if hasLongTTL(raw) {
			return true
		}
	}
	return false
}

func isSearchPreview(tool json.RawMessage) bool {
	return strings.HasPrefix(rawToolType(tool), "web_search_preview")
}

// tariff returns a function that applies the request's factors to a candidate's prices, or nil if there are
// none. Members in one API's own form affect only models of that API.
func (c *call) tariff() func(i int, p sdk.Price) sdk.Price {
	hourly, country, previews := c.isHourly(), geoFactor(jsonText(c.params.Extra["inference_geo"])), slices.ContainsFunc(c.rawTools(), isSearchPreview)
	isSet := func(name string) bool { return c.params.Extra[name] != nil }
	if c.params.ServiceTier == "" && !slices.ContainsFunc([]string{"service_tier", "serviceTier", "speed"}, isSet) && country == 1 && !hourly && !previews {
		return nil
	}
	return func(i int, p sdk.Price) sdk.Price {
		own := c.m.targets[i].deployments[0].dialect()
		times := c.requestedTier(own, &p) * c.requestedSpeed(own, &p)
		if own == c.params.Dialect {
			times *= country
		}
		if hourly {
			p.CacheWrite = max(p.CacheWrite, hourFactor*p.Input)
		}
		if previews {
			p.SearchUSD = cmp.Or(p.PreviewSearchUSD, p.SearchUSD)
		}
		for _, usd := range [...]*float64{&p.Input, &p.CachedInput, &p.CacheWrite, &p.Output, &p.Reasoning} {
			*usd *= times
		}
		return p
	}
}
