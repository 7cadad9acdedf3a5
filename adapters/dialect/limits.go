package dialect

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// Limits is what a vendor takes: what is beyond is clamped, mapped or left out by [Fit],
// or excludes the model before it is asked. The zero value has no limit.
type Limits struct {
	// Temperature is the largest that is clamped to. What is above 2 is above what any
	// API has, and the vendor may refuse it.
	Temperature float64
	// Lacks are fields of [middleware.Params] that the model does not take.
	Lacks []string
	// Sealed is set for a model that gives its reasoning encrypted to who asks for that.
	Sealed bool
	// Thoughts is set for a model that wants a reasoning_content, be it empty, with each
	// tool call of its own.
	Thoughts bool
	// Choices is the largest number of answers to a request.
	Choices int
	// MinTokens is the least limit of an answer.
	MinTokens int
	// StopWords is the largest number of stop words; those beyond are looked for in the
	// answer by the middleware; below 0 it takes none. StopText leaves out stop words of nothing but white space.
	StopWords int
	StopText  bool
	// ToolName is the longest name of a tool, which has letters, digits and the signs
	// of ToolSigns.
	ToolName  int
	ToolSigns string
	// CallID is the longest id of a call, which has letters, digits, - and _. Others are
	// mapped.
	CallID int
	// UserID is the longest id of an end user. Longer ones are hashed.
	UserID int
	// Effort maps words for how much to think, and Tier service tiers. What is mapped to
	// nothing is not sent; what is not mapped goes as it is.
	Effort, Tier map[string]string
	// AdaptiveBudget is the budget of tokens that stands for thinking of the type adaptive,
	// where a model does not know that type.
	AdaptiveBudget int
	// Images are the media types of images.
	Images []string
	// UserFirst wants a message of the user: the last of nothing but system messages
	// becomes one.
	UserFirst bool
	// ToolProperties wants the schema of a tool to be one of an object with properties.
	ToolProperties bool
	// ClosedSchema wants the objects of an answer's schema to allow no further properties.
	ClosedSchema bool
}

// Exclude returns why a request cannot be honoured, or "".
func (l *Limits) Exclude(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) string {
	if l.Choices > 0 && p.N != nil && *p.N > l.Choices {
		return fmt.Sprintf("takes no n above %d", l.Choices)
	}
	for i := range o.Tools {
		if f := o.Tools[i].Function; f != nil && l.ToolName > 0 && !isWord(f.Name, l.ToolName, l.ToolSigns) {
			return fmt.Sprintf("takes no tool by the name %.80q", f.Name)
		}
	}
	if l.Images == nil {
		return ""
	}
	for i := range messages {
		for _, part := range messages[i].Parts {
			if kind := imageType(part); kind != "" && !slices.Contains(l.Images, kind) {
				return "takes no " + kind
			}
		}
	}
	return ""
}

// isWord reports whether a text is as short as that and has letters, digits and the signs.
func isWord(s string, most int, signs string) bool {
	return s != "" && len(s) <= most && strings.IndexFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(signs, c)
	}) < 0
}

// imageType is the media type of an image that is sent in full, "" for anything else.
func imageType(p llms.ContentPart) string {
	kind := ""
	switch p := p.(type) {
	case llms.CachedContent:
		return imageType(p.ContentPart)
	case llms.BinaryContent:
		kind = p.MIMEType
	case middleware.FilePart:
		if p.Data != nil {
			kind = p.MIMEType
		}
	case llms.ImageURLContent:
		head, _, _ := strings.Cut(p.URL, ";")
		kind, _ = strings.CutPrefix(head, "data:")
	}
	if kind = mediaType(kind); !strings.HasPrefix(kind, "image/") || kind == "image/*" {
		return ""
	}
	return kind
}

// mediaType is the registered name of a media type.
func mediaType(kind string) string {
	if kind == "image/jpg" {
		return "image/jpeg"
	}
	return kind
}

// Fit makes a request what the vendor takes, and names what is not sent. o and p are
// changed, what they share with the caller and the messages are not.
func (l *Limits) Fit(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) (fitting []llms.MessageContent, notSent []string) {
	if t := p.Temperature; l.Temperature > 0 && t != nil && *t > l.Temperature && *t <= 2 {
		p.Temperature = &l.Temperature
		notSent = append(notSent, fmt.Sprintf("Temperature above %g", l.Temperature))
	}
	v := reflect.ValueOf(p).Elem()
	for _, name := range l.Lacks {
		if f := v.FieldByName(name); !f.IsZero() {
			f.SetZero()
			notSent = append(notSent, name)
		}
	}
	if p.MaxTokens != nil && *p.MaxTokens < l.MinTokens {
		p.MaxTokens = &l.MinTokens
	}
	if l.UserID > 0 && len(p.User) > l.UserID {
		sum := sha256.Sum256([]byte(p.User))
		p.User = hex.EncodeToString(sum[:])
	}
	notSent = append(notSent, mapWord(&p.ReasoningEffort, l.Effort, "ReasoningEffort")...)
	notSent = append(notSent, mapWord(&p.ServiceTier, l.Tier, "ServiceTier")...)
	o.StopWords = l.stopWords(o.StopWords)
	if l.ToolProperties || p.Dialect != "" {
		l.fitTools(o, p)
	}
	if l.ClosedSchema && p.Schema != nil {
		own := *p.Schema
		own.Schema = closedSchema(own.Schema)
		p.Schema = &own
	}
	return l.fitMessages(messages), notSent
}

// mapWord maps a word, and names it where it is not sent.
func mapWord(word *string, to map[string]string, name string) []string {
	mapped, ok := to[*word]
	if !ok {
		return nil
	}
	if *word = mapped; mapped == "" {
		return []string{name}
	}
	return nil
}

func (l *Limits) stopWords(words []string) []string {
	if l.StopText {
		words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.TrimSpace(w) == "" })
	}
	if l.StopWords != 0 && len(words) > l.StopWords {
		words = words[:max(l.StopWords, 0)]
	}
	return words
}

// fitTools mends the schemas of tools, and offers only those that are allowed where the
// choice of tools has the form of another API.
func (l *Limits) fitTools(o *llms.CallOptions, p *middleware.Params) {
	choice := gjson.ParseBytes(p.Extra["tool_choice"])
	allowed := choice.Get("allowed_tools")
	if !allowed.Exists() {
		allowed = choice
	}
	var names []string
	if choice.Get("type").Str == "allowed_tools" {
		for _, tool := range allowed.Get("tools").Array() {
			names = append(names, tool.Get("name").Str+tool.Get("function.name").Str)
		}
		if o.ToolChoice == nil {
			o.ToolChoice = allowed.Get("mode").Str
		}
	}
	tools := make([]llms.Tool, 0, len(o.Tools))
	for _, tool := range o.Tools {
		if tool.Function == nil || names != nil && !slices.Contains(names, tool.Function.Name) {
			continue
		}
		if raw, ok := tool.Function.Parameters.(json.RawMessage); ok && l.ToolProperties {
			own := *tool.Function
			own.Parameters = objectSchema(raw)
			tool.Function = &own
		}
		tools = append(tools, tool)
	}
	if len(o.Tools) > 0 {
		o.Tools = tools
	}
}

// objectSchema is a schema of a tool's arguments that says that it is one of an object.
func objectSchema(schema json.RawMessage) json.RawMessage {
	root := gjson.ParseBytes(schema)
	if !root.IsObject() || root.Get("type").Exists() && (root.Get("type").Str != "object" || root.Get("properties").Exists()) || root.Get("$ref").Exists() {
		return schema
	}
	members := map[string]json.RawMessage{}
	if json.Unmarshal(schema, &members) != nil {
		return schema
	}
	members["type"] = json.RawMessage(`"object"`)
	if members["properties"] == nil {
		members["properties"] = json.RawMessage("{}")
	}
	return marshal(members, schema)
}

func marshal(v any, otherwise json.RawMessage) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return otherwise
	}
	return raw
}

// closedSchema says of each object of a schema that it has no further properties, where
// the schema does not say anything about it.
func closedSchema(schema json.RawMessage) json.RawMessage {
	if strings.Count(string(schema), `"object"`) <= strings.Count(string(schema), `"additionalProperties"`) {
		return schema
	}
	var v any
	if json.Unmarshal(schema, &v) != nil {
		return schema
	}
	closeObjects(v)
	return marshal(v, schema)
}

func closeObjects(v any) {
	switch v := v.(type) {
	case []any:
		for _, inner := range v {
			closeObjects(inner)
		}
	case map[string]any:
		if _, said := v["additionalProperties"]; v["type"] == "object" && !said {
			v["additionalProperties"] = false
		}
		for inner := range maps.Values(v) {
			closeObjects(inner)
		}
	}
}

// fitMessages maps ids and media types, and makes a message of the user where one is needed.
func (l *Limits) fitMessages(messages []llms.MessageContent) []llms.MessageContent {
	copied := false
	change := func(i int) *llms.MessageContent {
		if !copied {
			messages, copied = slices.Clone(messages), true
		}
		return &messages[i]
	}
	system := 0
	for i := range messages {
		if messages[i].Role == llms.ChatMessageTypeSystem {
			system++
		}
		own := false
		for j, p := range messages[i].Parts {
			fresh, changed := l.fitPart(p)
			if !changed {
				continue
			}
			if m := change(i); !own {
				m.Parts, own = slices.Clone(m.Parts), true
			}
			messages[i].Parts[j] = fresh
		}
	}
	if n := len(messages); l.UserFirst && system == n && n > 0 {
		change(n - 1).Role = llms.ChatMessageTypeHuman
	}
	return messages
}

func (l *Limits) fitPart(p llms.ContentPart) (fitting llms.ContentPart, changed bool) {
	switch p := p.(type) {
	case llms.CachedContent:
		p.ContentPart, changed = l.fitPart(p.ContentPart)
		return p, changed
	case llms.ToolCall:
		p.ID, changed = l.callID(p.ID)
		return p, changed
	case llms.ToolCallResponse:
		p.ToolCallID, changed = l.callID(p.ToolCallID)
		return p, changed
	case middleware.ResultPart:
		p.ToolCallID, changed = l.callID(p.ToolCallID)
		for j, inner := range p.Parts {
			if fresh, differs := l.fitPart(inner); differs {
				p.Parts, changed = slices.Clone(p.Parts), true
				p.Parts[j] = fresh
			}
		}
		return p, changed
	case llms.BinaryContent:
		was := p.MIMEType
		p.MIMEType = mediaType(was)
		return p, p.MIMEType != was
	case middleware.FilePart:
		was := p.MIMEType
		p.MIMEType = mediaType(was)
		return p, p.MIMEType != was
	case llms.ImageURLContent:
		rest, jpg := strings.CutPrefix(p.URL, "data:image/jpg;")
		if jpg {
			p.URL = "data:image/jpeg;" + rest
		}
		return p, jpg
	}
	return p, false
}

// callID is the id of a call as the vendor takes it: the same for the same one.
func (l *Limits) callID(id string) (fitting string, changed bool) {
	if l.CallID == 0 || id == "" || isWord(id, l.CallID, "-_") {
		return id, false
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:12]), true
}
