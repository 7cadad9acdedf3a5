package middleware_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// modelOf is a model with a given dialect.
type modelOf struct {
	nativeModel
	dialect middleware.Dialect
}

func (m *modelOf) Dialect() middleware.Dialect { return m.dialect }

// Under a cap a model only gets members whose cost is covered by the reservation, in whatever spelling; the answer
// names the others. Without a cap all members are sent.
func TestOnlyCountedMembersPassUnderACap(t *testing.T) {
	for _, c := range []struct {
		dialect      middleware.Dialect
		extra, tools string
		sent, unsent string
	}{
		{middleware.DialectChat, `{"N":9,"Max_Tokens":9,"max_to\u212aens":9,"n_predict":9,"fallbacks":[],"Service_Tier":"priority","models":["dear/one"],"extra_body":{"n":9},"novel":1}`, `[]`,
			`{}`, "Max_Tokens N Service_Tier extra_body fallbacks max_toKens models n_predict novel"},
		{middleware.DialectAnthropic, `{"service_tier":"ultra","speed":"ludicrous"}`, `[]`, `{}`, "service_tier speed"},
		{middleware.DialectChat, `{"min_p":0.1,"thinking":{"type":"enabled","budget_tokens":90000},"reasoning":{"effort":"low","max_tokens":90000}}`, `[]`,
			`{"min_p":0.1,"reasoning":{"effort":"low"},"thinking":{"type":"enabled"}}`, "reasoning.max_tokens thinking.budget_tokens"},
		{middleware.DialectAnthropic, `{"cache_control":{"type":"ephemeral","ttl":"1h"},"thinking":{"type":"enabled","budget_tokens":2000},"tools":{"find":{"cache_control":{"ttl":"1h"},"n":9}}}`,
			`[{"type":"web_search_20260209","max_uses":2,"MAX_USES":9},{"type":"advisor_20260301","model":"dear"},{"type":"bash_20250124","name":"bash"}]`,
			`{"cache_control":{"ttl":"1h","type":"ephemeral"},"thinking":{"budget_tokens":2000,"type":"enabled"},"tools":{"find":{"cache_control":{"ttl":"1h"}}}} ` +
				`{"max_uses":2,"type":"web_search_20260209"} {"name":"bash","type":"bash_20250124"}`,
			"tools.find.n tool web_search_20260209.MAX_USES tool advisor_20260301"},
		{middleware.DialectResponses, `{"context_management":[{"type":"compaction","compact_threshold":9}]}`,
			`[{"type":"namespace","name":"x","tools":[{"type":"web_search"},{"type":"image_generation"},{"type":"namespace","tools":[{"type":"web_search"}]}]}]`,
			`{"context_management":[{"type":"compaction","compact_threshold":9}]} {"name":"x","tools":[{"type":"web_search"},{"type":"namespace"}],"type":"namespace"}`,
			"tool image_generation tool namespace.tools"},
		{middleware.DialectAnthropic, `{"context_management":{"edits":[{"type":"clear_tool_uses_20250919"},{"type":"novel"}]}}`, `[]`, `{}`, "context_management"},
		{middleware.DialectOllama, `{"options":{"Num_Predict":99999,"num_ctx":8},"keep_alive":"5m"}`, `[]`, `{"keep_alive":"5m","options":{"num_ctx":8}}`, "options.Num_Predict"},
		{middleware.DialectGemini, `{"generationConfig":{"candidateCount":8,"responseModalities":["IMAGE"]},"generation_config":{}}`, `[]`, `{}`,
			"generationConfig.candidateCount generationConfig.responseModalities generation_config"},
		{middleware.DialectResponses, `{"tool_choice":{"type":"allowed_tools"},"background":true,"options":[{"n":2}]}`, `[{"type":"image_generation","quality":"high"}]`, `{"tool_choice":{"type":"allowed_tools"}}`,
			"background options tool image_generation"},
	} {
		var all middleware.Params
		all.Dialect = c.dialect
		if err := json.Unmarshal([]byte(c.extra), &all.Extra); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.tools), &all.RawTools); err != nil {
			t.Fatal(err)
		}
		for _, isCapped := range []bool{true, false} {
			s := &modelOf{nativeModel{resp: text("fine")}, c.dialect}
			config := middleware.Config{Models: []middleware.Candidate{small(s)}}
			if isCapped {
				config.Step.StepCapUSD = 1e6
			}
			var unsent []string
			config.Step.Checks = []step.Check{{Name: "eye", Fault: func(_ *sdk.Query, a *sdk.Answer, _ []sdk.Attempt) string {
				unsent = a.NotSent
				return ""
			}}}
			if _, err := wrap(t, config).GenerateContent(t.Context(), human("q"), middleware.WithParams(all)); err != nil {
				t.Fatal(err)
			}
			written, err := json.Marshal(s.params.Extra)
			got := string(written)
			for _, tool := range s.params.RawTools {
				got += " " + string(tool)
			}
			switch {
			case err != nil || isCapped && (got != c.sent || strings.Join(unsent, " ") != c.unsent):
				t.Errorf("%s: sent %s, want %s; not sent %q, want %q", c.dialect, got, c.sent, unsent, c.unsent)
			case !isCapped && (!cmp.Equal(s.params.Extra, all.Extra) || !cmp.Equal(s.params.RawTools, all.RawTools) || unsent != nil):
				t.Errorf("%s: without a cap %s", c.dialect, got)
			}
		}
	}
}

// Tools found by a tool search are filtered like the request's own tools, and the caller's messages are not
// modified.
func TestToolsWithinMessagesUnderACap(t *testing.T) {
	const given, want = `{"type":"tool_search_output","call_id":"c","tools":[{"type":"image_generation"},{"type":"function","name":"f"}]}`, `{"call_id":"c","tools":[{"name":"f","type":"function"}],"type":"tool_search_output"}`
	s := &modelOf{nativeModel{resp: text("fine")}, middleware.DialectResponses}
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(s)}, Step: step.Config{StepCapUSD: 1e6}})
	piece := middleware.RawPart{Dialect: middleware.DialectResponses, Raw: json.RawMessage(given)}
	messages := append(human("q"), said(llms.ChatMessageTypeHuman, llms.TextContent{Text: "a"}, piece, piece))
	if _, err := m.GenerateContent(t.Context(), messages); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 2; i++ {
		if got := string(s.messages[1].Parts[i].(middleware.RawPart).Raw); got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
		if got := string(messages[1].Parts[i].(middleware.RawPart).Raw); got != given {
			t.Errorf("the caller's own is %s", got)
		}
	}
}

// A ledger without a cap on the tenant leaves requests as they are, and a model without a limit on its answers can be
// asked: only tenants with a cap lose tools of unknown cost, and the model.
func TestALedgerWithoutACap(t *testing.T) {
	ledger := step.NewMemory(step.Caps{Tenants: map[string]float64{"capped": 1e6}})
	for tenant, want := range map[string]int{"capped": 0, "free": 1} {
		s := &modelOf{nativeModel{resp: text("fine")}, middleware.DialectResponses}
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(s)}, Step: step.Config{Ledger: ledger}})
		ctx := middleware.WithInfo(t.Context(), middleware.Info{Tenant: tenant})
		_, err := m.GenerateContent(ctx, human("q"), middleware.WithParams(middleware.Params{Dialect: middleware.DialectResponses, RawTools: []json.RawMessage{json.RawMessage(`{"type":"image_generation"}`)}}))
		if err != nil || len(s.params.RawTools) != want {
			t.Errorf("%s: sent tools %s, want %d; %v", tenant, s.params.RawTools, want, err)
		}
	}
}

// A service tier is sent under a cap if its price is known.
func TestTiersOfAnUnknownPrice(t *testing.T) {
	for tier, want := range map[string]string{"priority": "priority", "Flex": "Flex", "ultra": ""} {
		s := &nativeModel{resp: text("fine")}
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(s)}, Step: step.Config{StepCapUSD: 1}})
		if _, err := m.GenerateContent(t.Context(), human("q"), middleware.WithParams(middleware.Params{ServiceTier: tier})); err != nil || s.params.ServiceTier != want {
			t.Errorf("%s is sent as %q, want %q; %v", tier, s.params.ServiceTier, want, err)
		}
	}
}

// An answer is priced by the tier that the server reports.
func TestTheTierThatWasServed(t *testing.T) {
	for _, c := range []struct {
		asked, served string
		factor        float64 // of the model's faster tier
		want          float64 // times the price
	}{
		{"", "priority", 2, 2}, {"priority", "priority", 2, 2}, {"priority", "default", 2, 1}, {"", "default", 2, 1}, {"priority", "novel", 2, 2}, {"priority", "", 2, 2},
		{"", "priority", 0, 2.5}, {"fast", "", 0, 2.5}, {"ultrafast", "", 0, 6}, {"", "ultrafast", 2, 6}, {"ultrafast", "default", 0, 1}, {"ultrafast", "fast", 2, 2}, {"unheard-of", "", 0, 6},
		{"flex", "flex", 2, 0.5}, {"flex", "", 2, 1}, {"flex", "default", 2, 1}, {"", "flex", 2, 0.5}, {"priority", "flex", 2, 0.5},
	} {
		resp := text("fine")
		resp.Choices[0].GenerationInfo = map[string]any{"InputTokens": 1000, "OutputTokens": 100, middleware.KeyExtra: &middleware.Extra{ServiceTier: c.served, Usage: sdk.Usage{InputTokens: 1000, OutputTokens: 100}}}
		candidate := small(&nativeModel{resp: resp})
		candidate.Model.Price = sdk.Price{Input: 10, Output: 20, FastFactor: c.factor, FlexFactor: 0.5}
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{candidate}})
		answer, err := m.GenerateContent(t.Context(), human("q"), middleware.WithParams(middleware.Params{ServiceTier: c.asked}))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := answer.Choices[0].GenerationInfo["stepfall.cost_usd"], c.want*0.012; math.Abs(got.(float64)-want) > 1e-9 {
			t.Errorf("asked for %q, served %q: %v USD, want %v", c.asked, c.served, got, want)
		}
	}
}

// Anthropic's fast mode is priced by the speed that the answer reports.
func TestTheSpeedThatWasServed(t *testing.T) {
	for served, want := range map[string]float64{"": 2, "fast": 2, "standard": 1} {
		resp := text("fine")
		resp.Choices[0].GenerationInfo = map[string]any{middleware.KeyExtra: &middleware.Extra{ServiceTier: "priority", Speed: served, Usage: sdk.Usage{InputTokens: 1000, OutputTokens: 100}}}
		candidate := small(&modelOf{nativeModel{resp: resp}, middleware.DialectAnthropic})
		candidate.Model.Price = sdk.Price{Input: 10, Output: 20, FastFactor: 2}
		answer, err := wrap(t, middleware.Config{Models: []middleware.Candidate{candidate}}).GenerateContent(t.Context(), human("q"),
			middleware.WithParams(middleware.Params{Dialect: middleware.DialectAnthropic, Extra: map[string]json.RawMessage{"speed": []byte(`"fast"`)}}))
		if err != nil {
			t.Fatal(err)
		}
		if got := middleware.TotalsOf(answer.Choices[0]).CostUSD; math.Abs(got-want*0.012) > 1e-9 {
			t.Errorf("served %q: %v USD, want %v", served, got, want*0.012)
		}
	}
}

// The place of inference is priced by what Claude's answer reports, unless the request sets it.
func TestThePlaceThatServed(t *testing.T) {
	for name, c := range map[string]struct {
		asked, served string
		want          float64
	}{
		"by default":      {"", "us", 1.1},
		"anywhere":        {"", "global", 1},
		"an older model":  {"", "not_available", 1},
		"not said":        {"", "", 1},
		"as was asked":    {`"us"`, "us", 1.1},
		"asked, not said": {`"us"`, "", 1.1},
		"by chance":       {`"global"`, "us", 1},
	} {
		resp := text("fine")
		resp.Choices[0].GenerationInfo = map[string]any{middleware.KeyExtra: &middleware.Extra{Geo: c.served, Usage: sdk.Usage{InputTokens: 1000, OutputTokens: 100}}}
		candidate := small(&modelOf{nativeModel{resp: resp}, middleware.DialectAnthropic})
		candidate.Model.Price = sdk.Price{Input: 10, Output: 20}
		p := middleware.Params{Dialect: middleware.DialectAnthropic}
		if c.asked != "" {
			p.Extra = map[string]json.RawMessage{"inference_geo": []byte(c.asked)}
		}
		answer, err := wrap(t, middleware.Config{Models: []middleware.Candidate{candidate}}).GenerateContent(t.Context(), human("q"), middleware.WithParams(p))
		if err != nil {
			t.Fatal(err)
		}
		if got := middleware.TotalsOf(answer.Choices[0]).CostUSD; math.Abs(got-c.want*0.012) > 1e-9 {
			t.Errorf("%s: %v USD, want %v", name, got, c.want*0.012)
		}
	}
}

// Audio tokens are priced separately if the model's price states that.
func TestAudioThatWasHeard(t *testing.T) {
	for _, c := range []struct {
		price float64
		audio int
		want  float64
	}{{0, 600, 0.012}, {40, 0, 0.012}, {40, 600, 0.012 + 600*30e-6}, {40, 9000, 0.012 + 1000*30e-6}} {
		resp := text("fine")
		resp.Choices[0].GenerationInfo = map[string]any{middleware.KeyExtra: &middleware.Extra{AudioTokens: c.audio, Usage: sdk.Usage{InputTokens: 1000, OutputTokens: 100}}}
		candidate := small(&nativeModel{resp: resp})
		candidate.Model.Price = sdk.Price{Input: 10, AudioInput: c.price, Output: 20}
		answer, err := wrap(t, middleware.Config{Models: []middleware.Candidate{candidate}}).GenerateContent(t.Context(), human("q"))
		if err != nil {
			t.Fatal(err)
		}
		if got := middleware.TotalsOf(answer.Choices[0]).CostUSD; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d of audio at %v: %v USD, want %v", c.audio, c.price, got, c.want)
		}
	}
}

// Cache writes are priced by the lifetime that the server reports.
func TestTheCacheThatWasServed(t *testing.T) {
	const price, writes = 1e-6, 1500 // in dollars a token of input; 1.25 times as much for five minutes, 2 for an hour
	for name, tt := range map[string]struct {
		marks string
		hours *int
		want  float64
	}{
		"both":              {`{"type":"ephemeral","ttl":"1h"}`, new(1000), (1000*2 + 500*1.25) * price},
		"not stated":        {`{"type":"ephemeral","ttl":"1h"}`, nil, writes * 2 * price},
		"none for an hour":  {`{"type":"ephemeral","ttl":"1h"}`, new(0), writes * 1.25 * price},
		"more than asked":   {`{"type":"ephemeral"}`, new(writes), writes * 2 * price},
		"more than written": {`{"type":"ephemeral"}`, new(9 * writes), writes * 2 * price},
	} {
		resp := text("fine")
		resp.Choices[0].GenerationInfo = map[string]any{middleware.KeyExtra: &middleware.Extra{HourWriteTokens: tt.hours, Usage: sdk.Usage{InputTokens: 10, CacheWriteTokens: writes, OutputTokens: 1}}}
		candidate := small(&modelOf{nativeModel{resp: resp}, middleware.DialectAnthropic})
		candidate.Model.Price = sdk.Price{Input: 1, CacheWrite: 1.25, Output: 1}
		answer, err := wrap(t, middleware.Config{Models: []middleware.Candidate{candidate}}).GenerateContent(t.Context(), human(strings.Repeat("word ", writes)),
			middleware.WithParams(middleware.Params{Dialect: middleware.DialectAnthropic, Extra: map[string]json.RawMessage{"cache_control": json.RawMessage(tt.marks)}}))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := middleware.TotalsOf(answer.Choices[0]).CostUSD, tt.want+11*price; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v USD, want %v", name, got, want)
		}
	}
}

// A chat completion with search counts one search if its usage reports none.
func TestASearchIsCounted(t *testing.T) {
	resp := text("fine")
	resp.Choices[0].GenerationInfo = map[string]any{middleware.KeyExtra: &middleware.Extra{Usage: sdk.Usage{InputTokens: 1000, OutputTokens: 100}}}
	candidate := small(&nativeModel{resp: resp})
	candidate.Model.Price = sdk.Price{Input: 10, Output: 20, HostedCallUSD: 0.03}
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{candidate}})
	answer, err := m.GenerateContent(t.Context(), human("q"), middleware.WithParams(middleware.Params{Dialect: middleware.DialectChat, Extra: map[string]json.RawMessage{"web_search_options": []byte("{}")}}))
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.Choices[0].GenerationInfo["stepfall.cost_usd"]; got != 0.042 {
		t.Errorf("%v USD, want 0.042", got)
	}
}

// A search is booked at the price of the tool that the request names.
func TestSearchesAreBookedByTool(t *testing.T) {
	for tool, want := range map[string]float64{"web_search": 0.01, "web_search_preview": 0.025, "web_search_preview_2025_03_11": 0.025} {
		resp := text("fine")
		resp.Choices[0].GenerationInfo = map[string]any{middleware.KeyExtra: &middleware.Extra{Usage: sdk.Usage{InputTokens: 1000, OutputTokens: 100, HostedCalls: 2, Searches: 2}}}
		candidate := small(&modelOf{nativeModel{resp: resp}, middleware.DialectResponses})
		candidate.Model.Price = sdk.Price{Input: 10, Output: 20, HostedCallUSD: 0.03, SearchUSD: 0.01, PreviewSearchUSD: 0.025}
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{candidate}})
		answer, err := m.GenerateContent(t.Context(), human("q"), middleware.WithParams(middleware.Params{Dialect: middleware.DialectResponses, RawTools: []json.RawMessage{[]byte(`{"type":"` + tool + `"}`)}}))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := middleware.TotalsOf(answer.Choices[0]).CostUSD, 0.012+2*want; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v USD, want %v", tool, got, want)
		}
	}
}
