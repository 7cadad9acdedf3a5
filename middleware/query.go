package middleware

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
)

// call is the state of one step: the caller's input and what is derived from it.
type call struct {
	m        *Model
	messages []llms.MessageContent
	options  []llms.CallOption
	// resolved are the resolved options.
	resolved llms.CallOptions
	params   Params
	// notSent names the members that were dropped from the request because their cost is unknown: with a cap, or Claude's fallbacks.
	notSent []string
	query   sdk.Query
	size    size
	// streamed: the caller wants chunks. live: the answer was streamed while it arrived.
	streamed, live bool
	// toolsShown: tool calls were streamed while they arrived.
	toolsShown bool
}

// newCall reads the options and builds the query. The query shares all texts with the messages, and only
// lengths and the two ends of a prompt are read, so that the cost does not grow with the prompt.
func newCall(ctx context.Context, m *Model, messages []llms.MessageContent, options []llms.CallOption) *call {
	c := &call{m: m, messages: messages, options: options}
	c.resolved, c.params = Resolve(options...)
	c.streamed = c.resolved.StreamingFunc != nil || c.resolved.StreamingReasoningFunc != nil || c.params.OnDelta != nil

	info, q := InfoFrom(ctx), &c.query
	*q = sdk.Query{
		ID: info.QueryID, Group: info.Group, Run: m.c.Redact.Text(info.Run), Session: info.Session, Tenant: info.Tenant, Labels: info.Labels,
		Format: info.Format, WorkDir: info.WorkDir, Checks: info.Checks, MaxOutputTokens: c.resolved.MaxTokens,
	}
	if m.engine.HasCap(ctx, q) {
		c.notSent = c.dropUncounted()
	} else if _, isSet := c.params.Extra["fallbacks"]; isSet && c.params.Dialect == DialectAnthropic { // to models whose prices are unknown; the cascade has its own
		c.params.Extra, c.notSent = maps.Clone(c.params.Extra), []string{"fallbacks"}
		delete(c.params.Extra, "fallbacks")
	}
	adapt(&c.resolved)
	f := &c.query.Format
	switch s := c.params.Schema; {
	case s != nil:
		f.Schema = s.Schema
	case len(f.Schema) > 0:
		c.params.Schema = &Schema{Name: "answer", Schema: f.Schema}
	}
	f.JSON = f.JSON || len(f.Schema) > 0 || c.resolved.JSONMode || c.resolved.ResponseMIMEType == "application/json"
	q.Tools = queryTools(c.resolved.Tools)
	q.ToolChoice = c.neededCall()
	q.Messages = queryMessages(c.messages, &c.size)
	c.size.addRequest(q, &c.params)
	q.Tools = append(q.Tools, c.rawClientTools()...) // their size is that of the raw tools
	q.InputTokens = c.size.tokens()
	q.Features = features(q, &c.size)
	if q.Run == "" && q.Session == "" && (len(q.Tools) > 0 || m.c.Session.CountDisputes) {
		q.Conversation = conversationDigest(q.Messages)
	}
	c.label()
	return c
}

// labelProtocol is the label of a query that names the format that the agent expects of answers, "mrkl" or
// "conversational", for checks; unset for none.
const labelProtocol = "stepfall.protocol"

// neededCall returns the tool that the model is required to call, or "".
func (c *call) neededCall() string {
	switch mode, function, _ := ToolChoice(&c.resolved); {
	case len(c.resolved.Tools)+len(c.params.RawTools) == 0: // the choice is not sent
		return ""
	case function == "" && cmp.Or(mode, c.allowedMode()) == "required":
		return sdk.AnyTool
	default:
		return function
	}
}

// allowedMode returns the mode of a tool choice of the type allowed_tools, of chat completions or Responses, or "".
func (c *call) allowedMode() string {
	raw, isSet := c.params.Extra["tool_choice"]
	if !isSet {
		return ""
	}
	var choice struct {
		Mode    string
		Allowed struct{ Mode string } `json:"allowed_tools"`
	}
	_ = json.Unmarshal(raw, &choice) // on an error nothing is required
	return cmp.Or(choice.Mode, choice.Allowed.Mode)
}

func (c *call) label() {
	protocol := c.protocol()
	if protocol == "" {
		return
	}
	labels := make(map[string]string, len(c.query.Labels)+1)
	maps.Copy(labels, c.query.Labels)
	labels[labelProtocol] = protocol
	c.query.Labels = labels
}

// scanWindow is the number of bytes read at each end of a prompt.
const scanWindow = 8 << 10

// protocol recognises langchaingo's text agents by their stop words and format
// instructions.
func (c *call) protocol() string {
	if !slices.Contains(c.resolved.StopWords, "\nObservation:") || len(c.query.Messages) == 0 {
		return ""
	}
	parts := c.query.Messages[len(c.query.Messages)-1].Parts
	if len(parts) == 0 {
		return ""
	}
	text := parts[0].Text
	head, tail := text[:min(len(text), scanWindow)], text[max(0, len(text)-scanWindow):]
	switch {
	case strings.Contains(head, conversationalMark) || strings.Contains(tail, conversationalMark):
		return protocolConversational
	case strings.Contains(head, finalAnswerMark) || strings.Contains(tail, finalAnswerMark):
		return protocolMRKL
	}
	return ""
}

// queryMessages converts messages; all parts share one array.
func queryMessages(messages []llms.MessageContent, s *size) []sdk.Message {
	s.count(messages)
	list := make([]sdk.Message, len(messages))
	parts := make([]sdk.Part, 0, s.parts)
	calls, results := make([]sdk.ToolCall, 0, s.calls), make([]sdk.ToolResult, 0, s.calls)
	for i := range messages {
		from := len(parts)
		for _, p := range messages[i].Parts {
			s.bytes += 16
			switch p := unwrap(p).(type) {
			case llms.TextContent:
				s.bytes += len(p.Text)
				parts = append(parts, sdk.TextPart(p.Text))
			case RawPart:
				s.addRaw(p)
				if p.Text != "" {
					parts = append(parts, sdk.TextPart(p.Text))
				}
				if result, ok := p.Instead.(ResultPart); ok { // its size is in that of the part
					parts = append(parts, (&size{}).addResult(result)...)
				}
			case ResultPart:
				parts = append(parts, s.addResult(p)...)
				results = append(results, sdk.ToolResult{CallID: p.ToolCallID, Name: p.Name, Content: p.Content, IsError: p.Failed || looksFailed(p.Content)})
				parts = append(parts, sdk.Part{Kind: sdk.PartToolResult, ToolResult: &results[len(results)-1]})
			case llms.ImageURLContent, llms.BinaryContent, FilePart:
				parts = append(parts, s.addFile(p))
			case llms.ToolCall:
				call := sdk.ToolCall{ID: p.ID}
				if p.FunctionCall != nil {
					call.Name, call.Arguments = p.FunctionCall.Name, p.FunctionCall.Arguments
				}
				s.bytes += len(call.Name) + len(call.Arguments)
				calls = append(calls, call)
				parts = append(parts, sdk.Part{Kind: sdk.PartToolCall, ToolCall: &calls[len(calls)-1]})
			case llms.ToolCallResponse:
				s.bytes += len(p.Content)
				results = append(results, sdk.ToolResult{CallID: p.ToolCallID, Name: p.Name, Content: p.Content, IsError: looksFailed(p.Content)})
				parts = append(parts, sdk.Part{Kind: sdk.PartToolResult, ToolResult: &results[len(results)-1]})
			}
		}
		s.bytes += 16
		list[i] = sdk.Message{Role: queryRole(messages[i].Role), Parts: parts[from:len(parts):len(parts)]}
	}
	return list
}

func unwrap(p llms.ContentPart) llms.ContentPart {
	for {
		cached, ok := p.(llms.CachedContent)
		if !ok {
			return p
		}
		p = cached.ContentPart
	}
}

func queryRole(r llms.ChatMessageType) sdk.Role {
	switch normalRole(r) {
	case llms.ChatMessageTypeSystem:
		return sdk.RoleSystem
	case llms.ChatMessageTypeAI:
		return sdk.RoleAssistant
	case llms.ChatMessageTypeTool, llms.ChatMessageTypeFunction:
		return sdk.RoleTool
	}
	return sdk.RoleUser
}

// queryTools converts tools. Parameters that cannot be marshaled are left out.
func queryTools(tools []llms.Tool) []sdk.Tool {
	if len(tools) == 0 {
		return nil
	}
	list := make([]sdk.Tool, 0, len(tools))
	for _, t := range tools {
		if t.Function == nil {
			continue
		}
		tool := sdk.Tool{Name: t.Function.Name, Description: t.Function.Description}
		if t.Function.Parameters != nil {
			if schema, err := json.Marshal(t.Function.Parameters); err == nil {
				tool.Parameters = schema
			}
		}
		list = append(list, tool)
	}
	return list
}

// rawClientTools returns the tools in an API's own form that a model calls like functions, such as Claude's computer. Their
// API checks the arguments. Where the request can offer tools whose names are unknown here, [sdk.AnyTool] is one of them.
func (c *call) rawClientTools() (list []sdk.Tool) {
	for _, raw := range c.rawTools() {
		var named struct{ Name string }
		_ = json.Unmarshal(raw, &named) // on an error it has no name
		kind := rawToolType(raw)
		switch _, isHosted := hostedUses(raw); {
		case isHosted && (kind == "image_generation" || matchesType(hostedTools, kind)): // its uses are no calls
		case named.Name != "" && matchesType(clientTools, kind):
			list = append(list, sdk.Tool{Name: named.Name})
		default: // several tools, such as Claude's toolsets, or a new type
			list = append(list, sdk.Tool{Name: sdk.AnyTool})
		}
	}
	if slices.ContainsFunc(c.messages, mayAddTools) {
		list = append(list, sdk.Tool{Name: sdk.AnyTool})
	}
	return list
}

// mayAddTools reports whether a message of the caller has a part about tools that only its API understands, such as Claude's
// tool_addition.
func mayAddTools(m llms.MessageContent) bool {
	return normalRole(m.Role) != llms.ChatMessageTypeAI && slices.ContainsFunc(m.Parts, func(p llms.ContentPart) bool {
		raw, isRaw := unwrap(p).(RawPart)
		return isRaw && raw.Model == "" && raw.Instead == nil && strings.Contains(rawToolType(raw.Raw), "tool")
	})
}

// looksFailed reports whether a tool's result begins like an error message: langchaingo does not mark failures.
func looksFailed(content string) bool {
	head := strings.ToLower(strings.TrimSpace(content[:min(len(content), 64)]))
	signs := []string{"error", "failed", "exception", "traceback", "invalid ", "no such "}
	return strings.Contains(head, " is not a valid tool") || slices.ContainsFunc(signs, func(sign string) bool { return strings.HasPrefix(head, sign) })
}

// Names of the features that the middleware measures on every query, besides those of
// the run ([feature.Setbacks]).
const (
	featureTurn          = "turn"            // answers of the assistant so far
	featureTools         = "tools"           // tools on offer
	featureMessages      = "messages"        // messages of the conversation
	featureInputTokens   = "input_tokens"    // estimated length of the prompt, in tokens
	featureLastToolError = "last_tool_error" // 1 if the last result looks failed
	featureImages        = "images"
)

func features(q *sdk.Query, s *size) map[string]float64 {
	f := make(map[string]float64, 8)
	f[featureTools], f[featureMessages], f[featureInputTokens] = float64(len(q.Tools)), float64(len(q.Messages)), float64(q.InputTokens)
	if s.images > 0 {
		f[featureImages] = float64(s.images)
	}
	turns := 0
	for i := range q.Messages {
		if q.Messages[i].Role == sdk.RoleAssistant {
			turns++
		}
	}
	f[featureTurn] = float64(turns)
	f[feature.ToolErrors], f[featureLastToolError], f[feature.RepeatedCalls] = callFeatures(q.Messages, s.calls)
	return f
}

// callFeatures counts the failed results and the repeated calls in a conversation with the given number
// of calls. last is 1 if the last result is an error.
func callFeatures(messages []sdk.Message, calls int) (failed, last, repeated float64) {
	if calls == 0 {
		return 0, 0, 0
	}
	seen := make(map[sdk.ToolCall]bool, calls)
	for i := range messages {
		for j := range messages[i].Parts {
			p := &messages[i].Parts[j]
			switch p.Kind {
			case sdk.PartToolCall:
				key := sdk.ToolCall{Name: p.ToolCall.Name, Arguments: p.ToolCall.Arguments}
				if seen[key] {
					repeated++
				}
				seen[key] = true
			case sdk.PartToolResult:
				last = 0
				if p.ToolResult.IsError {
					failed++
					last = 1
				}
			}
		}
	}
	return failed, last, repeated
}
