package middleware

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// plainMessages returns the messages without the part types of this package, for models that are not a
// [NativeModel]. The caller's messages are not modified, and are returned unchanged if they have no such parts.
func plainMessages(messages []llms.MessageContent) []llms.MessageContent {
	return replaceParts(messages, plainPart)
}

// plainPart returns the replacement of a part, nil for none, and whether it differs from the part itself.
func plainPart(p llms.ContentPart) (instead llms.ContentPart, isChanged bool) {
	switch p := unwrap(p).(type) {
	case RawPart:
		if p.Instead != nil {
			instead, _ = plainPart(p.Instead)
		} else if p.Text != "" {
			instead = p.TextContent
		}
		return instead, true
	case FilePart:
		return p.plain(), true
	case ResultPart:
		return p.ToolCallResponse, true
	case NamePart:
		return nil, true
	}
	return p, false
}

func (p FilePart) plain() llms.ContentPart {
	switch {
	case p.Data != nil:
		return llms.BinaryContent{MIMEType: p.MIMEType, Data: p.Data}
	case p.URL != "":
		return llms.ImageURLContent{URL: p.URL}
	}
	return nil
}

// schemaInstruction precedes a schema in the prompt of a model whose API does not accept one.
const schemaInstruction = "Answer with one JSON value and nothing else. It must satisfy this JSON schema:\n"

func instruct(messages []llms.MessageContent, s *Schema) []llms.MessageContent {
	at := 0
	for at < len(messages) && normalRole(messages[at].Role) == llms.ChatMessageTypeSystem {
		at++
	}
	list := append(make([]llms.MessageContent, 0, len(messages)+1), messages[:at]...)
	list = append(list, llms.TextParts(llms.ChatMessageTypeSystem, schemaInstruction+string(s.Schema)))
	return append(list, messages[at:]...)
}

func (c *call) exclude(i int) string {
	if why := c.m.targets[i].exclude(); why != "" {
		return why
	}
	p := &c.params
	if name := c.neededTool(); name != "" && !c.m.targets[i].usesDialect(p.Dialect) {
		return ReasonNoTool + name + " of " + string(p.Dialect)
	}
	if p.LogProbs != nil && *p.LogProbs && !c.m.engine.Models()[i].Capabilities.LogProbs {
		return "gives no log-probabilities"
	}
	if t := &c.m.targets[i]; t.isLaterArm && !t.override && c.statesEffort() {
		return reasonOwnEffort
	}
	return c.m.targets[i].refusalReason(c)
}

// reasonOwnEffort excludes the later arms of a model if the caller states a reasoning effort.
const reasonOwnEffort = "the caller sets the reasoning effort"

// refusalReason returns why every deployment of the candidate would reject the call, or "".
func (t *target) refusalReason(c *call) (why string) {
	for _, d := range t.deployments {
		l, ok := d.llm.(limiter)
		if !ok {
			return ""
		}
		if why = l.Exclude(c.messages, &c.resolved, &c.params); why == "" {
			return ""
		}
	}
	return why
}

// ReasonNoTool begins the reason for excluding a model that lacks a tool of another API. The type of the
// tool follows.
const ReasonNoTool = "has no tool "

// neededTool returns the type of the first raw tool that is not optional, or "". In the first form of Anthropic's MCP
// connector, only mcp_servers names tools.
func (c *call) neededTool() string {
	var names []string
	for _, raw := range c.params.RawTools {
		names = append(names, rawToolType(raw))
	}
	if servers := c.params.Extra["mcp_servers"]; c.params.Dialect == DialectAnthropic && len(servers) > len("null") { // or an empty list
		names = append(names, "mcp_servers")
	}
	for _, name := range names {
		if !slices.ContainsFunc(c.m.c.OptionalTools, func(o string) bool { return name == o || strings.HasPrefix(name, o+"_") }) {
			return name
		}
	}
	return ""
}

// rawToolType returns the type of a tool in an API's own form. Gemini's tools have one member, named after
// the tool.
func rawToolType(raw json.RawMessage) string {
	var tool map[string]json.RawMessage
	if json.Unmarshal(raw, &tool) != nil {
		return "?"
	}
	if name := jsonText(tool["type"]); name != "" {
		return name
	}
	return strings.Join(slices.Sorted(maps.Keys(tool)), " ")
}

func (t *target) usesDialect(dialect Dialect) bool {
	return slices.ContainsFunc(t.deployments, func(d *deployment) bool { return d.usesDialect(dialect) })
}

func (d *deployment) usesDialect(dialect Dialect) bool {
	_, ok := d.llm.(NativeModel)
	return ok && d.dialect() == dialect
}

// dialect returns the API of the deployment, or "" for one of langchaingo's own clients.
func (d *deployment) dialect() Dialect {
	if s, ok := d.llm.(NativeModel); ok {
		return s.Dialect()
	}
	return ""
}
