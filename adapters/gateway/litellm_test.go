package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// LiteLLM returns an answer with members that it does not know moved to members of its own, and without some of them.
// A model's reasoning is still sent back to that model alone.
func TestLiteLLMReturnsThoughtsToTheirModel(t *testing.T) {
	const call = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]`
	vendors := map[string]*vendor{
		"openrouter": {whole: `{"id":"c","model":"m","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"","reasoning":"THINK","reasoning_details":[{"type":"reasoning.text","text":"THINK","signature":"SIGN","format":"x","index":0}],` + call + `}}]}`},
		"vllm":       {whole: `{"id":"c","model":"m","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"","reasoning":"THINK",` + call + `}}]}`},
		"gemini": {whole: `{"responseId":"g","candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[{"text":"THINK","thought":true},
			{"functionCall":{"id":"c1","name":"look","args":{}},"thoughtSignature":"SIGN"}]}}]}`},
		"text": {whole: `{"id":"c","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi","reasoning_content":"THINK"}}]}`},
		"gpt":  {whole: `{"id":"c","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}]}`},
	}
	var candidates []middleware.Candidate
	for name, v := range vendors {
		options := provider.Options{Model: "m", BaseURL: "http://" + name + "/v1", Transport: v}
		switch name {
		case "gemini":
			options.API, options.BaseURL = middleware.DialectGemini, "http://gemini"
		case "gpt":
			options.Model, options.BaseURL = "gpt-5.1", "https://api.openai.com/v1"
		}
		llm, err := provider.New(options)
		if err != nil {
			t.Fatal(err)
		}
		candidates = append(candidates, middleware.Candidate{Model: sdk.Model{Name: name, Capabilities: sdk.Capabilities{Tools: true}}, LLM: llm})
	}
	m, err := middleware.New(middleware.Config{Models: candidates})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g := newGateway(t, gateway.Options{Model: m, Models: named("openrouter", "vllm", "gemini", "text", "gpt")})
	const tools = `"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{}}}}]`
	for from := range vendors {
		answer := post(g, chatPath, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}],%s}`, from, tools)).Body.String()
		message := gjson.Get(answer, "choices.0.message")
		var own []string
		for _, name := range []string{"reasoning", "reasoning_details"} {
			if v := message.Get(name); v.Exists() {
				own = append(own, fmt.Sprintf("%q:%s", name, v.Raw))
			}
		}
		turn := `{"role":"assistant","content":"a","provider_specific_fields":{` + strings.Join(own, ",") + `}`
		for _, name := range []string{"reasoning_content", "tool_calls"} {
			if v := message.Get(name); v.Exists() {
				turn += fmt.Sprintf(",%q:%s", name, v.Raw)
			}
		}
		turn += "},"
		if id := message.Get("tool_calls.0.id"); id.Exists() {
			turn += `{"role":"tool","tool_call_id":` + id.Raw + `,"content":"a cat"}`
		} else {
			turn += `{"role":"user","content":"and?"}`
		}
		for to, other := range vendors {
			post(g, chatPath, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"},%s],%s}`, to, turn, tools))
			isLeak := from != to && strings.Contains(other.asked, "THINK") && (from != "text" || to == "gpt") // a text without calls has no place for a tag
			isLost := from == to && from != "gpt" && from != "gemini" && !strings.Contains(other.asked, "THINK")
			if isLeak || isLost || strings.Contains(other.asked, "stepfall1") || strings.Contains(other.asked, "provider_specific") {
				t.Errorf("of %s, then %s: %s", from, to, other.asked)
			}
		}
	}
	for _, v := range vendors {
		v.asked = ""
	}
	post(g, chatPath, `{"model":"vllm","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"a","novel":{"deep":[{"s":"stepfall1aaaaaaaaaaaaoSIGN"}]},"other":1},{"role":"user","content":"b"}]}`)
	if asked := vendors["vllm"].asked; strings.Contains(asked, "SIGN") || !strings.Contains(asked, `"other":1`) {
		t.Errorf("a tag within an unknown member: %s", asked)
	}
}
