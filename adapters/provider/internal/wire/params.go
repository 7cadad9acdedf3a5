package wire

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// NotSent names the fields of p that are set and that a dialect has no word for.
func NotSent(p *middleware.Params, dialect middleware.Dialect, can ...string) (names []string) {
	v := reflect.ValueOf(*p)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch name {
		case "OnDelta", "Dialect":
			continue
		case "Extra", "RawTools":
			if p.Dialect == dialect {
				continue
			}
		}
		if !v.Field(i).IsZero() && !slices.Contains(can, name) {
			names = append(names, name)
		}
	}
	return names
}

// Extra puts the caller's own fields of the dialect into the request. Of an object that
// the request has already, those members that it lacks.
func (o Object) Extra(p *middleware.Params, dialect middleware.Dialect) {
	if p.Dialect != dialect {
		return
	}
	for name, raw := range p.Extra {
		own, has := o[name].(Object)
		var members map[string]json.RawMessage
		if !has || json.Unmarshal(raw, &members) != nil {
			o[name] = raw
			continue
		}
		for member, value := range members {
			if _, known := own[member]; !known {
				own[member] = value
			}
		}
	}
}

// Thinking reads langchaingo's own way to ask for reasoning, where p does not.
func Thinking(o *llms.CallOptions, p *middleware.Params) {
	config, ok := o.Metadata["thinking_config"].(*llms.ThinkingConfig)
	if !ok || config == nil {
		return
	}
	if p.ReasoningEffort == "" && config.Mode != llms.ThinkingModeAuto {
		p.ReasoningEffort = string(config.Mode)
	}
	if p.ReasoningTokens == nil && config.BudgetTokens > 0 {
		p.ReasoningTokens = &config.BudgetTokens
	}
}

// Tools are the tools of the options, the deprecated functions among them.
func Tools(o *llms.CallOptions) []*llms.FunctionDefinition {
	var list []*llms.FunctionDefinition
	for i := range o.Tools {
		if f := o.Tools[i].Function; f != nil {
			list = append(list, f)
		}
	}
	if len(list) == 0 {
		for i := range o.Functions {
			list = append(list, &o.Functions[i])
		}
	}
	return list
}

// Choice is what the caller says about tools: "auto", "none", "required", the name of a
// function, or something of the caller's own.
func Choice(o *llms.CallOptions) (mode, function string, other any) {
	switch c := o.ToolChoice.(type) {
	case nil:
		if o.FunctionCallBehavior != "" {
			return string(o.FunctionCallBehavior), "", nil
		}
	case string:
		if c == "any" {
			c = "required"
		}
		return c, "", nil
	case llms.ToolChoice:
		if c.Function != nil {
			return "", c.Function.Name, nil
		}
		return c.Type, "", nil
	case *llms.ToolChoice:
		if c != nil && c.Function != nil {
			return "", c.Function.Name, nil
		}
	default:
		return "", "", c
	}
	return "", "", nil
}

// DataURL is data as a URL.
func DataURL(mime string, data []byte) string {
	return "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString(data)
}

// Data takes a data: URL apart.
func Data(url string) (mime string, data []byte, ok bool) {
	rest, ok := strings.CutPrefix(url, "data:")
	if !ok {
		return "", nil, false
	}
	mime, text, ok := strings.Cut(rest, ";base64,")
	if !ok {
		return "", nil, false
	}
	data, err := base64.StdEncoding.DecodeString(text)
	return mime, data, err == nil
}

// Flat are the parts of a message without their cache controls, which it hands to each.
func Flat(parts []llms.ContentPart, each func(p llms.ContentPart, cache *llms.CacheControl) error) error {
	for _, p := range parts {
		var cache *llms.CacheControl
		for {
			cached, ok := p.(llms.CachedContent)
			if !ok {
				break
			}
			p, cache = cached.ContentPart, cached.CacheControl
		}
		if err := each(p, cache); err != nil {
			return err
		}
	}
	return nil
}

// Role maps the roles of other libraries to langchaingo's.
func Role(r llms.ChatMessageType) llms.ChatMessageType {
	switch r {
	case "user", llms.ChatMessageTypeGeneric:
		return llms.ChatMessageTypeHuman
	case "assistant", "model":
		return llms.ChatMessageTypeAI
	case "developer":
		return llms.ChatMessageTypeSystem
	case llms.ChatMessageTypeFunction:
		return llms.ChatMessageTypeTool
	}
	return r
}

// Arguments are the arguments of a tool call as a JSON object: some agents keep the
// bare argument in their history.
func Arguments(text string) json.RawMessage {
	trimmed := strings.TrimSpace(text)
	switch {
	case trimmed == "":
		return json.RawMessage("{}")
	case trimmed[0] == '{' && json.Valid([]byte(trimmed)):
		return json.RawMessage(trimmed)
	}
	wrapped, err := json.Marshal(map[string]string{"__arg1": text})
	if err != nil {
		return json.RawMessage("{}")
	}
	return wrapped
}

// Info is the GenerationInfo of an answer: the keys of langchaingo's clients, and the
// Extra.
func Info(x *middleware.Extra, reasoning string) map[string]any {
	u := x.Usage
	in, out := u.InputTokens+u.CachedInputTokens+u.CacheWriteTokens, u.OutputTokens+u.ReasoningTokens
	return map[string]any{
		"PromptTokens": in, "CompletionTokens": out, "TotalTokens": in + out, "PromptCachedTokens": u.CachedInputTokens,
		"ReasoningTokens": u.ReasoningTokens, "ThinkingContent": reasoning, middleware.KeyExtra: x,
	}
}

// Emit gives a piece of a streamed answer to whom the options name.
type Emit func(d *middleware.Delta) error

// Token is a token of an answer in the form of OpenAI and those that follow it.
type Token struct {
	Token   string  `json:"token"`
	LogProb float64 `json:"logprob"`
	Top     []struct {
		Token   string  `json:"token"`
		LogProb float64 `json:"logprob"`
	} `json:"top_logprobs"`
}

// Tokens converts tokens.
func Tokens(from []Token) []sdk.TokenLogProb {
	if len(from) == 0 {
		return nil
	}
	list := make([]sdk.TokenLogProb, len(from))
	for i := range from {
		list[i] = sdk.TokenLogProb{Token: from[i].Token, LogProb: from[i].LogProb}
		for _, alt := range from[i].Top {
			list[i].Top = append(list[i].Top, sdk.TopLogProb(alt))
		}
	}
	return list
}
