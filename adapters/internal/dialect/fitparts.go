package dialect

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

func (l *Limits) fitPart(p llms.ContentPart) (fitting llms.ContentPart, isChanged bool) {
	switch p := p.(type) {
	case llms.ToolCall:
		return l.fitCall(p)
	case llms.ToolCallResponse, middleware.ResultPart:
		result, _ := resultOf(p)
		id, isChanged := l.callID(result.ToolCallID)
		return nameResult(p, id), isChanged
	case middleware.RawPart:
		return l.fitRaw(p)
	case llms.BinaryContent:
		was := p.MIMEType
		p.MIMEType = mediaType(was, p.Data)
		return p, p.MIMEType != was
	case middleware.FilePart:
		if p.Data != nil && l.Files != nil && strings.HasPrefix(p.MIMEType, "text/") && !slices.Contains(l.Files, p.MIMEType) && !slices.Contains(l.Files, "text/plain") { // then it is sent as text
			return llms.TextContent{Text: strings.TrimPrefix(p.Name+"\n\n"+string(p.Data), "\n\n")}, true
		}
		was := p.MIMEType
		p.MIMEType = mediaType(was, p.Data)
		return p, p.MIMEType != was
	case llms.ImageURLContent:
		if kind, rest, _ := cutDataURL(p.URL); kind != fileType(p) {
			p.URL, isChanged = "data:"+fileType(p)+";"+rest, true
		}
		return p, isChanged
	}
	return p, false
}

func (l *Limits) fitCall(call llms.ToolCall) (fitting llms.ToolCall, isChanged bool) {
	call.ID, isChanged = l.callID(call.ID)
	if f := call.FunctionCall; f != nil && l.toolName(f.Name) != f.Name {
		call.FunctionCall, isChanged = &llms.FunctionCall{Name: l.toolName(f.Name), Arguments: f.Arguments}, true
	}
	return call, isChanged
}

// fitRaw replaces parts that only OpenAI has: a refusal by its text, and the call of a custom tool by a function call.
func (l *Limits) fitRaw(p middleware.RawPart) (fitting llms.ContentPart, isChanged bool) {
	switch {
	case l.NoCustomTools && isCustomCall(p):
		fitting, _ = l.fitPart(p.Instead)
		return fitting, true
	case l.MessageMembers != nil && !slices.Contains(l.MessageMembers, "refusal") && p.Text != "" && gjson.GetBytes(p.Raw, "type").Str == "refusal":
		return p.TextContent, true
	}
	return p, false
}

// toolName maps the name of a tool to one that the vendor accepts. Different names give different results.
func (l *Limits) toolName(name string) string {
	hasStart := !l.ToolLetter || !strings.ContainsAny(name[:min(len(name), 1)], "-.:0123456789")
	if l.ToolName == 0 || hasStart && isWord(name, l.ToolName, l.ToolSigns) {
		return name
	}
	readable := strings.Map(func(c rune) rune {
		if isWord(string(c), l.ToolName, l.ToolSigns) {
			return c
		}
		return '_'
	}, name)
	if !hasStart {
		readable = "_" + readable
	}
	sum := sha256.Sum256([]byte(name))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return readable[:min(len(readable), l.ToolName-len(suffix))] + suffix
}

// ToolNames returns the caller's names of the tools that are sent under other names, by these.
func (c *Call) ToolNames() (names map[string]string) {
	for _, f := range functions(c.Options) {
		if sent := c.Limits.toolName(f.Name); sent != f.Name {
			setEntry(&names, sent, f.Name)
		}
	}
	return names
}

// callID maps a call id to one that the vendor accepts. Equal ids give equal results.
func (l *Limits) callID(id string) (fitting string, changed bool) {
	signs := "-_"
	if l.ExactID {
		signs = ""
	}
	if l.CallID == 0 || id == "" || isWord(id, l.CallID, signs) && (!l.ExactID || len(id) == l.CallID) {
		return id, false
	}
	sum := sha256.Sum256([]byte(id))
	if l.ExactID {
		return hex.EncodeToString(sum[:])[:l.CallID], true
	}
	return "call_" + hex.EncodeToString(sum[:12]), true
}
