package middleware_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// judge runs the default checks on an answer and returns the first fault as
// "check: fault", or "".
func judge(q sdk.Query, a sdk.Answer) string {
	if a.StopReason == "" {
		a.StopReason = "stop"
	}
	for _, k := range middleware.DefaultChecks() {
		if fault := k.Fault(&q, &a, nil); fault != "" {
			return strings.TrimPrefix(k.Name, "check:") + ": " + fault
		}
	}
	return ""
}

func prompt(protocol, text string) sdk.Query {
	return sdk.Query{
		Labels:   map[string]string{"stepfall.protocol": protocol},
		Messages: []sdk.Message{{Role: sdk.RoleUser, Parts: []sdk.Part{sdk.TextPart(text)}}},
	}
}

func calling(name, arguments string) sdk.Answer {
	return sdk.Answer{ToolCalls: []sdk.ToolCall{{ID: "2", Name: name, Arguments: arguments}}}
}

func parts(list ...llms.ContentPart) *llms.ContentResponse {
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{GenerationInfo: map[string]any{middleware.KeyExtra: &middleware.Extra{Parts: list}}}}}
}

func TestChecks(t *testing.T) {
	weather := []sdk.Tool{{Name: "weather", Parameters: []byte(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}`)}}
	failed := sdk.Query{Tools: weather, Messages: []sdk.Message{
		{Role: sdk.RoleAssistant, Parts: []sdk.Part{{Kind: sdk.PartToolCall, ToolCall: &sdk.ToolCall{ID: "1", Name: "weather", Arguments: `{"city":"Oslo"}`}}}},
		{Role: sdk.RoleTool, Parts: []sdk.Part{{Kind: sdk.PartToolResult, ToolResult: &sdk.ToolResult{CallID: "1", Content: "error: no such city", IsError: true}}}},
	}}
	worked := failed
	worked.Messages = []sdk.Message{failed.Messages[0], {Role: sdk.RoleTool, Parts: []sdk.Part{{Kind: sdk.PartToolResult, ToolResult: &sdk.ToolResult{CallID: "1", Content: "rain"}}}}}
	mrkl := prompt("mrkl", "Action: the action to take, should be one of [ search, calc ]\nQuestion: ?")
	conversational := prompt("conversational", "should be one of [search]")
	forced := func(choice string) sdk.Query {
		return sdk.Query{Tools: append([]sdk.Tool{{Name: "look"}}, weather...), ToolChoice: choice, MaxOutputTokens: 9}
	}
	wantsJSON := sdk.Query{Format: sdk.ResponseFormat{JSON: true}}
	schema := sdk.Query{Format: sdk.ResponseFormat{JSON: true, Schema: []byte(`{"type":"object","required":["answer"]}`)}}
	brokenSchema := sdk.Query{Format: sdk.ResponseFormat{JSON: true, Schema: []byte(`{"type": 7}`)}}
	foreign := sdk.Query{Format: sdk.ResponseFormat{JSON: true, Schema: []byte(`{"$ref":"file:///etc/passwd"}`)}}

	for name, tt := range map[string]struct {
		q    sdk.Query
		a    sdk.Answer
		want string
	}{
		"plain answer":    {sdk.Query{}, sdk.Answer{Text: "yes"}, ""},
		"empty":           {sdk.Query{}, sdk.Answer{Text: " \n"}, "empty"},
		"a picture alone": {sdk.Query{}, sdk.Answer{Raw: parts(middleware.RawPart{Raw: []byte(`{"type":"image_generation_call"}`)})}, ""},
		"thoughts alone":  {sdk.Query{}, sdk.Answer{Raw: parts(middleware.RawPart{Model: "m", Raw: []byte(`{"type":"reasoning"}`)})}, "empty"},
		"a call in its API's form": {sdk.Query{Tools: weather}, sdk.Answer{ToolCalls: []sdk.ToolCall{{ID: "2", Name: "patch", Arguments: "{}"}},
			Raw: parts(middleware.RawPart{Raw: []byte(`{"type":"custom_tool_call"}`), Instead: llms.ToolCall{ID: "2", FunctionCall: &llms.FunctionCall{Name: "patch"}}})}, ""},
		"a call of its API's": {sdk.Query{Tools: append([]sdk.Tool{{Name: sdk.AnyTool}}, weather...)}, calling("screenshot", `{}`), ""},
		"beside its API's":    {sdk.Query{Tools: append([]sdk.Tool{{Name: sdk.AnyTool}}, weather...)}, calling("weather", `{}`), "tool_calls: arguments of weather: "},
		"any call, unknown":   {sdk.Query{Tools: []sdk.Tool{{Name: sdk.AnyTool}}, ToolChoice: sdk.AnyTool}, calling("screenshot", `{}`), ""},
		"aborted":             {sdk.Query{}, sdk.Answer{Text: "so", StopReason: "abort"}, "stop_reason: interrupted: abort"},
		"not finished":        {sdk.Query{}, sdk.Answer{Text: "so", StopReason: middleware.StopError + "cancelled"}, "stop_reason: interrupted: cancelled"},
		"broken off":          {sdk.Query{}, sdk.Answer{Text: "so", StopReason: "MALFORMED_FUNCTION_CALL"}, "stop_reason"},
		"call without text":   {sdk.Query{Tools: weather}, calling("weather", `{"city":"Oslo"}`), ""},
		"cut off":             {sdk.Query{}, sdk.Answer{Text: "yes", StopReason: "max_tokens"}, "stop_reason: cut off"},
		"filtered":            {sdk.Query{}, sdk.Answer{Text: "yes", StopReason: "content_filter"}, "stop_reason: stopped by a filter"},
		"refusal":             {sdk.Query{}, sdk.Answer{Text: "I'm sorry, but I can't help with that."}, "refusal"},
		"apology that helps":  {sdk.Query{}, sdk.Answer{Text: "I'm sorry, but I cannot find an error. " + strings.Repeat("Here is what I did. ", 40)}, ""},
		"unknown tool":        {sdk.Query{Tools: weather}, calling("wheather", `{}`), "tool_calls: calls the tool"},
		"arguments no JSON":   {sdk.Query{Tools: weather}, calling("weather", `{"city":`), "tool_calls: arguments of weather are not JSON"},
		"argument missing":    {sdk.Query{Tools: weather}, calling("weather", ``), "tool_calls: arguments of weather: "},
		"argument of a type":  {sdk.Query{Tools: weather}, calling("weather", `{"city":"Oslo","days":"two"}`), "tool_calls: arguments of weather: "},
		"repeats the failure": {failed, calling("weather", `{"city":"Oslo"}`), "repeated_call: repeats the failed call weather"},
		"tries another":       {failed, calling("weather", `{"city":"Bergen"}`), ""},
		"repeats a success":   {worked, calling("weather", `{"city":"Oslo"}`), ""},

		"any call":                 {forced(sdk.AnyTool), calling("look", ``), ""},
		"prose for any call":       {forced(sdk.AnyTool), sdk.Answer{Text: "It rains."}, "tool_calls: calls no tool"},
		"prose for a call":         {forced("weather"), sdk.Answer{Text: "It rains."}, "tool_calls: calls no tool"},
		"another call":             {forced("weather"), calling("look", ``), "tool_calls: calls look instead of weather"},
		"the call":                 {forced("look"), calling("look", ``), ""},
		"cut before the call":      {forced("look"), sdk.Answer{Text: "It", StopReason: "length", Usage: sdk.Usage{OutputTokens: 9}}, ""},
		"a search for any call":    {forced(sdk.AnyTool), sdk.Answer{Text: "It rains.", Raw: parts(middleware.RawPart{Raw: []byte(`{"type":"web_search_call"}`)})}, ""},
		"a choice of an API's own": {forced("web_search"), calling("look", ``), ""},
		"thoughts are no call":     {forced(sdk.AnyTool), sdk.Answer{Text: "It rains.", Raw: parts(middleware.RawPart{Model: "m", Raw: []byte(`{"type":"reasoning"}`)})}, "tool_calls: calls no tool"},
		"mrkl answer":              {mrkl, sdk.Answer{Text: "Thought: I know\nFinal Answer: 42"}, ""},
		"mrkl action":              {mrkl, sdk.Answer{Text: "Action: calc\nAction Input: 6*7"}, ""},
		"mrkl loose spelling":      {mrkl, sdk.Answer{Text: "action: Calc\naction input: 6*7"}, ""},
		"mrkl prose":               {mrkl, sdk.Answer{Text: "I would use the calculator."}, "protocol: neither a final answer nor an action"},
		"mrkl no input":            {mrkl, sdk.Answer{Text: "Action: calc"}, "protocol: neither"},
		"mrkl unknown tool":        {mrkl, sdk.Answer{Text: "Action: browse\nAction Input: x"}, "protocol: unknown tool browse"},
		"mrkl empty answer":        {mrkl, sdk.Answer{Text: "Final Answer: "}, "protocol: the final answer is empty"},
		"mrkl both":                {mrkl, sdk.Answer{Text: "Final Answer: 42\nAction: calc\nAction Input: 1"}, "protocol: both a final answer and an action"},
		"conversational answer":    {conversational, sdk.Answer{Text: "Thought: Do I need to use a tool? No\nAI: hello"}, ""},
		"conversational action":    {conversational, sdk.Answer{Text: "Action: search\nAction Input: x"}, ""},
		"conversational prose":     {conversational, sdk.Answer{Text: "hello"}, "protocol: neither"},

		"JSON":              {wantsJSON, sdk.Answer{Text: ` {"a": [1]} `}, ""},
		"fenced JSON":       {wantsJSON, sdk.Answer{Text: "```json\n{}\n```"}, "json: is not JSON"},
		"schema kept":       {schema, sdk.Answer{Text: `{"answer": 1}`}, ""},
		"schema broken":     {schema, sdk.Answer{Text: `{"Answer": 1}`}, "json: violates the JSON schema"},
		"schema and prose":  {schema, sdk.Answer{Text: `answer: 1`}, "json: violates the JSON schema: not JSON"},
		"no valid schema":   {brokenSchema, sdk.Answer{Text: `{}`}, ""},
		"schema of a file":  {foreign, sdk.Answer{Text: `{}`}, ""},
		"tools beside JSON": {sdk.Query{Tools: weather, Format: wantsJSON.Format}, calling("weather", `{"city":"Oslo"}`), ""},
	} {
		got := judge(tt.q, tt.a)
		if tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func FuzzChecks(f *testing.F) {
	f.Add("mrkl", "should be one of [ a, b ]", "Action: a\nAction Input: b", "tool", `{"x":1}`, `{"type":"object"}`)
	f.Add("conversational", "[", "AI:", "", "{", `{"$ref":"#"}`)
	f.Fuzz(func(t *testing.T, protocol, text, answer, tool, arguments, schema string) {
		q := prompt(protocol, text)
		q.Tools = []sdk.Tool{{Name: tool, Parameters: []byte(schema)}}
		judge(q, sdk.Answer{Text: answer})
		judge(q, calling(tool, arguments))
		q.Format = sdk.ResponseFormat{JSON: true, Schema: []byte(schema)}
		judge(q, sdk.Answer{Text: answer})
	})
}

// A schema that would take long to compile is not checked: answers to it pass.
func TestHugeSchemasAreNotCompiled(t *testing.T) {
	schema := func(properties int) json.RawMessage {
		var b strings.Builder
		b.WriteString(`{"type": "object", "properties": {"last": {"type": "string"}`)
		for i := range properties {
			fmt.Fprintf(&b, `, "p%d": {"type": "string"}`, i)
		}
		b.WriteString("}}")
		return json.RawMessage(b.String())
	}
	for properties, found := range map[int]bool{100: true, 3000: false} {
		q := prompt("", "q")
		q.Format.Schema = schema(properties)
		if fault := judge(q, sdk.Answer{Text: `{"last": 1}`}); (fault != "") != found {
			t.Errorf("%d properties: %q", properties, fault)
		}
	}
}

// A caller who requested several answers gets all of them, so a fault of any of them is a fault of the answer.
func TestChecksOfEveryChoice(t *testing.T) {
	tools := sdk.Query{Tools: []sdk.Tool{{Name: "weather"}}}
	call := func(arguments string) *llms.ContentChoice {
		return &llms.ContentChoice{StopReason: "tool_calls", ToolCalls: []llms.ToolCall{{ID: "1", FunctionCall: &llms.FunctionCall{Name: "weather", Arguments: arguments}}}}
	}
	for want, second := range map[string]*llms.ContentChoice{
		"": {Content: "Rain.", StopReason: "stop"},
		"empty: choice 2: neither text nor tool calls":            {StopReason: "stop"},
		"stop_reason: choice 2: cut off at the token limit":       {Content: "Ra", StopReason: "length"},
		"tool_calls: choice 2: arguments of weather are not JSON": call(`{"a":`),
	} {
		first := llms.ContentChoice{Content: "Sun.", StopReason: "stop"}
		a := sdk.Answer{Text: first.Content, Choices: []string{second.Content}, Raw: &llms.ContentResponse{Choices: []*llms.ContentChoice{&first, second}}}
		if got := judge(tools, a); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
