package gemini

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"
	"google.golang.org/genai"

	"github.com/stepfall/stepfall/adapters/dialect"
	"github.com/stepfall/stepfall/adapters/provider/internal/wire"
	"github.com/stepfall/stepfall/middleware"
)

func small(f *float64) *float32 {
	if f == nil {
		return nil
	}
	return new(float32(*f))
}

// config writes what a request asks for.
func (m *Model) config(o *llms.CallOptions, p *middleware.Params) (*genai.GenerateContentConfig, []string, error) {
	c := &genai.GenerateContentConfig{
		Temperature: small(p.Temperature), TopP: small(p.TopP), PresencePenalty: small(p.PresencePenalty), FrequencyPenalty: small(p.FrequencyPenalty),
		StopSequences: o.StopWords, Labels: p.Metadata, Store: p.Store, ServiceTier: genai.ServiceTier(p.ServiceTier),
	}
	if p.TopK != nil {
		c.TopK = new(float32(*p.TopK))
	}
	if p.MaxTokens != nil {
		c.MaxOutputTokens = int32(min(*p.MaxTokens, 1<<30))
	}
	if p.Seed != nil {
		c.Seed = new(int32(*p.Seed))
	}
	if p.N != nil {
		c.CandidateCount = int32(min(*p.N, 1<<10))
	}
	if top := p.TopLogProbs; p.LogProbs != nil && *p.LogProbs {
		c.ResponseLogprobs = true
		if top != nil {
			c.Logprobs = new(int32(min(*top, 20)))
		}
	} else if p.LogProbs == nil && m.o.TopLogProbs > 0 {
		c.ResponseLogprobs, c.Logprobs = true, new(int32(min(m.o.TopLogProbs, 20)))
	}
	switch s := p.Schema; {
	case s != nil:
		var schema any
		if err := json.Unmarshal(s.Schema, &schema); err != nil {
			return nil, nil, wire.Refused(provider, "the schema is not JSON: %s", err)
		}
		c.ResponseMIMEType, c.ResponseJsonSchema = "application/json", schema
	case o.JSONMode:
		c.ResponseMIMEType = "application/json"
	default:
		c.ResponseMIMEType = o.ResponseMIMEType
	}
	if p.ReasoningEffort != "" || p.ReasoningTokens != nil || p.ReasoningSummary != "" {
		thinking := &genai.ThinkingConfig{IncludeThoughts: p.ReasoningSummary != ""}
		switch {
		case p.ReasoningTokens != nil:
			thinking.ThinkingBudget = new(int32(min(*p.ReasoningTokens, 1<<30)))
		case p.ReasoningEffort == "none" || strings.Contains(m.o.Model, "gemini-2"):
			if tokens, known := dialect.ThinkingBudget[p.ReasoningEffort]; known {
				thinking.ThinkingBudget = new(int32(tokens))
			}
		case p.ReasoningEffort != "":
			thinking.ThinkingLevel = genai.ThinkingLevel(strings.ToUpper(p.ReasoningEffort))
		}
		c.ThinkingConfig = thinking
	}
	if err := tools(c, o, p); err != nil {
		return nil, nil, err
	}
	if p.Dialect == middleware.DialectGemini && len(p.Extra) > 0 {
		extra := make(map[string]any, len(p.Extra))
		for name, raw := range p.Extra {
			var v any
			if err := json.Unmarshal(raw, &v); err != nil {
				return nil, nil, wire.Refused(provider, "the field %s is not JSON: %s", name, err)
			}
			extra[name] = v
		}
		c.HTTPOptions = &genai.HTTPOptions{ExtraBody: extra}
	}
	can := []string{
		"Temperature", "TopP", "TopK", "PresencePenalty", "FrequencyPenalty", "Seed", "N", "MaxTokens", "LogProbs", "TopLogProbs", "Schema", "Store",
		"ReasoningEffort", "ReasoningTokens", "ReasoningSummary", "ServiceTier",
	}
	// The Gemini API takes no labels; only Vertex does.
	c.Labels = nil
	return c, wire.NotSent(p, middleware.DialectGemini, can...), nil
}

func tools(c *genai.GenerateContentConfig, o *llms.CallOptions, p *middleware.Params) error {
	var functions []*genai.FunctionDeclaration
	for _, f := range wire.Tools(o) {
		functions = append(functions, &genai.FunctionDeclaration{Name: f.Name, Description: f.Description, ParametersJsonSchema: f.Parameters})
	}
	if functions != nil {
		c.Tools = append(c.Tools, &genai.Tool{FunctionDeclarations: functions})
	}
	if p.Dialect == middleware.DialectGemini {
		for _, raw := range p.RawTools {
			tool := &genai.Tool{}
			if err := json.Unmarshal(raw, tool); err != nil {
				return wire.Refused(provider, "a tool cannot be read: %s", err)
			}
			c.Tools = append(c.Tools, tool)
		}
	}
	calling := &genai.FunctionCallingConfig{}
	switch mode, function, _ := wire.Choice(o); {
	case function != "":
		calling.Mode, calling.AllowedFunctionNames = genai.FunctionCallingConfigModeAny, []string{function}
	case mode == "required":
		calling.Mode = genai.FunctionCallingConfigModeAny
	case mode == "none":
		calling.Mode = genai.FunctionCallingConfigModeNone
	case mode == "auto":
		calling.Mode = genai.FunctionCallingConfigModeAuto
	default:
		return nil
	}
	c.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: calling}
	return nil
}

// converse writes the messages: the system's apart, and those of one role together.
func converse(c *genai.GenerateContentConfig, messages []llms.MessageContent) ([]*genai.Content, error) {
	var list []*genai.Content
	names := map[string]string{} // tool by call
	for i := range messages {
		role := genai.RoleUser
		system := false
		switch wire.Role(messages[i].Role) {
		case llms.ChatMessageTypeSystem:
			system = len(list) == 0
		case llms.ChatMessageTypeAI:
			role = genai.RoleModel
		case llms.ChatMessageTypeHuman, llms.ChatMessageTypeTool:
		default:
			return nil, wire.Refused(provider, "unknown role %q", messages[i].Role)
		}
		var parts []*genai.Part
		var signature []byte // of the part that follows
		err := wire.Flat(messages[i].Parts, func(p llms.ContentPart, _ *llms.CacheControl) error {
			one, err := part(p, names)
			if err != nil || one == nil {
				return err
			}
			if _, raw := p.(middleware.RawPart); raw && *one.withoutSignature() == (bare{}) {
				signature = one.ThoughtSignature
				return nil
			}
			if signature != nil {
				one.ThoughtSignature, signature = signature, nil
			}
			parts = append(parts, one.Part)
			return nil
		})
		switch {
		case err != nil:
			return nil, err
		case len(parts) == 0:
		case system:
			if c.SystemInstruction == nil {
				c.SystemInstruction = &genai.Content{}
			}
			c.SystemInstruction.Parts = append(c.SystemInstruction.Parts, parts...)
		case len(list) > 0 && list[len(list)-1].Role == role:
			list[len(list)-1].Parts = append(list[len(list)-1].Parts, parts...)
		default:
			list = append(list, &genai.Content{Role: role, Parts: parts})
		}
	}
	return list, nil
}

// signCalls marks calls of tools that another model made, of which this one has no
// signature and would refuse the turn: the API has a word for that.
// https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
func signCalls(contents []*genai.Content) {
	for _, c := range contents {
		if i := slices.IndexFunc(c.Parts, func(p *genai.Part) bool { return p.FunctionCall != nil }); i >= 0 && c.Role == genai.RoleModel && c.Parts[i].ThoughtSignature == nil {
			c.Parts[i].ThoughtSignature = []byte("skip_thought_signature_validator")
		}
	}
}

// written is a part that was written.
type written struct{ *genai.Part }

// bare says what a part holds beside its signature.
type bare struct{ text, call, data, other bool }

func (w written) withoutSignature() *bare {
	return &bare{
		text: w.Text != "" || w.Thought, call: w.FunctionCall != nil || w.FunctionResponse != nil, data: w.InlineData != nil || w.FileData != nil,
		other: w.ExecutableCode != nil || w.CodeExecutionResult != nil || w.ToolCall != nil || w.ToolResponse != nil,
	}
}

// part writes a part, or nil for what the API has no word for and loses nothing.
func part(p llms.ContentPart, names map[string]string) (*written, error) {
	switch p := p.(type) {
	case llms.TextContent:
		return &written{&genai.Part{Text: p.Text}}, nil
	case llms.ImageURLContent:
		if mime, data, ok := wire.Data(p.URL); ok {
			return part(llms.BinaryContent{MIMEType: mime, Data: data}, names)
		}
		return &written{&genai.Part{FileData: &genai.FileData{FileURI: p.URL}}}, nil
	case llms.BinaryContent:
		return &written{&genai.Part{InlineData: &genai.Blob{MIMEType: p.MIMEType, Data: p.Data}}}, nil
	case middleware.FilePart:
		if p.Data != nil {
			return part(llms.BinaryContent{MIMEType: p.MIMEType, Data: p.Data}, names)
		}
		return &written{&genai.Part{FileData: &genai.FileData{FileURI: cmp.Or(p.URL, p.ID), MIMEType: p.MIMEType}}}, nil
	case llms.ToolCall:
		if p.FunctionCall == nil {
			return nil, nil
		}
		names[p.ID] = p.FunctionCall.Name
		call := &genai.FunctionCall{Name: p.FunctionCall.Name}
		if !strings.HasPrefix(p.ID, madeUp) {
			call.ID = p.ID
		}
		if err := json.Unmarshal(wire.Arguments(p.FunctionCall.Arguments), &call.Args); err != nil {
			return nil, wire.Refused(provider, "arguments of %s: %s", call.Name, err)
		}
		return &written{&genai.Part{FunctionCall: call}}, nil
	case llms.ToolCallResponse:
		return part(middleware.ResultPart{ToolCallResponse: p}, names)
	case middleware.ResultPart:
		return returned(p, names)
	case middleware.RawPart:
		own := &genai.Part{}
		if err := json.Unmarshal(p.Raw, own); err != nil {
			return nil, wire.Refused(provider, "a part cannot be read: %s", err)
		}
		return &written{own}, nil
	case middleware.NamePart:
		return nil, nil
	}
	return nil, wire.Refused(provider, "a %T cannot be sent in a message", p)
}

func returned(p middleware.ResultPart, names map[string]string) (*written, error) {
	r := &genai.FunctionResponse{Name: cmp.Or(p.Name, names[p.ToolCallID]), Response: map[string]any{}}
	if !strings.HasPrefix(p.ToolCallID, madeUp) {
		r.ID = p.ToolCallID
	}
	key := "output"
	if p.Failed {
		key = "error"
	}
	// A result that is an object is one; anything else is its output.
	if p.Failed || json.Unmarshal([]byte(p.Content), &r.Response) != nil || r.Response == nil {
		r.Response = map[string]any{key: p.Content}
	}
	var text strings.Builder
	err := wire.Flat(p.Parts, func(inner llms.ContentPart, _ *llms.CacheControl) error {
		switch inner := inner.(type) {
		case llms.BinaryContent:
			r.Parts = append(r.Parts, &genai.FunctionResponsePart{InlineData: &genai.FunctionResponseBlob{MIMEType: inner.MIMEType, Data: inner.Data}})
		case llms.TextContent:
			text.WriteString(inner.Text)
		}
		return nil
	})
	if p.Content == "" && text.Len() > 0 {
		r.Response[key] = text.String()
	}
	return &written{&genai.Part{FunctionResponse: r}}, err
}
