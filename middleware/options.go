package middleware

import (
	"encoding/json"
	"maps"

	"github.com/tmc/langchaingo/llms"
)

// thinkingConfig is the key under which langchaingo keeps a *llms.ThinkingConfig
// in the metadata.
const thinkingConfig = "thinking_config"

// isolate gives o its own metadata: options may share a map or a thinking configuration and write to
// it, and several models are called with one list of options, sometimes concurrently.
func isolate(o *llms.CallOptions) {
	if _, hasParams := o.Metadata[paramsKey]; o.Metadata == nil || hasParams && len(o.Metadata) == 1 { // WithParams made a new map
		return
	}
	o.Metadata = maps.Clone(o.Metadata)
	if t, ok := o.Metadata[thinkingConfig].(*llms.ThinkingConfig); ok && t != nil {
		own := *t
		o.Metadata[thinkingConfig] = &own
	}
}

func apply(o *llms.CallOptions, options []llms.CallOption) {
	isolate(o)
	for _, option := range options {
		if option == nil {
			continue
		}
		option(o)
		isolate(o)
	}
}

// adapt replaces the deprecated functions, which half of the providers ignore, with tools.
func adapt(o *llms.CallOptions) {
	if len(o.Functions) > 0 && len(o.Tools) == 0 {
		o.Tools = toolsOf(o.Functions)
		if o.ToolChoice == nil && o.FunctionCallBehavior != "" {
			o.ToolChoice = string(o.FunctionCallBehavior)
		}
	}
	o.Functions, o.FunctionCallBehavior = nil, ""
}

// ToolChoice returns the caller's choice of tools: the mode "auto", "none" or "required", the name
// of a function, or any other value unchanged.
func ToolChoice(o *llms.CallOptions) (mode, function string, other any) {
	switch c := o.ToolChoice.(type) {
	case nil:
		return string(o.FunctionCallBehavior), "", nil
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
		var named llms.ToolChoice // a map in OpenAI's form, say
		if raw, err := json.Marshal(c); err == nil && json.Unmarshal(raw, &named) == nil && named.Function != nil {
			return "", named.Function.Name, nil
		}
		return "", "", c
	}
	return "", "", nil
}

func toolsOf(functions []llms.FunctionDefinition) []llms.Tool {
	tools := make([]llms.Tool, len(functions))
	for i := range functions {
		tools[i] = llms.Tool{Type: "function", Function: &functions[i]}
	}
	return tools
}
