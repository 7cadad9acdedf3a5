package dialect

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// Object is a JSON object under construction.
type Object map[string]any

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// setEntry sets an entry of a map, which can be nil.
func setEntry[M ~map[K]V, K comparable, V any](m *M, key K, v V) {
	if *m == nil {
		*m = M{}
	}
	(*m)[key] = v
}

// setList sets the member at a dotted path to a list unless the list is empty.
func setList[T any](o Object, path string, list []T) {
	if len(list) > 0 {
		o.setPath(path, list)
	}
}

func setValue[T any](o Object, name string, v *T) {
	if v != nil {
		o[name] = *v
	}
}

// text sets the member at a dotted path to a text unless the text is empty.
func (o Object) text(path, text string) {
	if text != "" {
		o.setPath(path, text)
	}
}

func (o Object) setPath(path string, v any) {
	name, rest, isNested := strings.Cut(path, ".")
	if !isNested {
		o[name] = v
		return
	}
	inner, _ := o[name].(Object)
	if inner == nil {
		inner = Object{}
		o[name] = inner
	}
	inner.setPath(rest, v)
}

// At returns the member at the end of a dotted path, if there is one.
func (o Object) At(path string) (v any, ok bool) {
	name, rest, isNested := strings.Cut(path, ".")
	v, ok = o[name]
	if !isNested {
		return v, ok
	}
	inner, _ := v.(Object)
	return inner.At(rest)
}

// Remove removes the member at the end of a dotted path, and each object that is empty after that.
func (o Object) Remove(path string) {
	name, rest, isNested := strings.Cut(path, ".")
	if inner, _ := o[name].(Object); isNested && len(inner) > 0 {
		if inner.Remove(rest); len(inner) > 0 {
			return
		}
	}
	delete(o, name)
}

// keepOnly removes all members that are not in known, unless known is nil, and returns their names.
func (o Object) keepOnly(known []string) (taken []string) {
	for name := range o {
		if known != nil && !slices.Contains(known, name) {
			delete(o, name)
			taken = append(taken, name)
		}
	}
	slices.Sort(taken)
	return taken
}

// removeAll removes the members with these names from a value, at every depth, and returns the names that it
// removed.
func removeAll(v any, names []string) (taken []string) {
	switch v := v.(type) {
	case Object:
		for name, inner := range v {
			if slices.Contains(names, name) {
				delete(v, name)
				taken = addNew(taken, name)
			} else {
				taken = addNew(taken, removeAll(inner, names)...)
			}
		}
	case []Object:
		for _, one := range v {
			taken = addNew(taken, removeAll(one, names)...)
		}
	case []any:
		for _, one := range v {
			taken = addNew(taken, removeAll(one, names)...)
		}
	}
	slices.Sort(taken)
	return taken
}

// addExtra adds the caller's own fields of the dialect. Objects that exist already only get the members that
// they lack.
func (o Object) addExtra(p *middleware.Params, d middleware.Dialect) {
	if p.Dialect != d {
		return
	}
	for name, raw := range p.Extra {
		value := gjson.ParseBytes(raw)
		switch own, has := o[name].(Object); {
		case has && value.IsObject():
			own.addMembers(value)
		case name == "tools" && value.IsObject(): // see Object.tools
		default:
			o[name] = raw
		}
	}
}

// setStream sets the member stream, which the caller's own fields cannot change.
func (o Object) setStream(c *Call) {
	delete(o, "stream")
	if c.Stream {
		o["stream"] = true
	}
}

func refuseCall(format string, args ...any) error {
	return &middleware.ProviderError{Code: llms.ErrCodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

func refusePart(p llms.ContentPart) error { return refuseCall("a %T cannot be sent in a message", p) }

// functionObject returns a function with its parameters in the member schema. If it has no parameters, the
// member is set to empty, or left out if empty is nil.
func (c *Call) functionObject(f *llms.FunctionDefinition, schema string, empty any) Object {
	o := Object{"name": c.Limits.toolName(f.Name)}
	o.text("description", f.Description)
	if f.Parameters != nil {
		o[schema] = f.Parameters
	} else if empty != nil {
		o[schema] = empty
	}
	if f.Strict {
		o["strict"] = true
	}
	return o
}

// functions returns the functions of the options' tools, or else the deprecated functions.
func functions(o *llms.CallOptions) []*llms.FunctionDefinition {
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

// tools sets the tools: the functions, written by write, and the raw tools of the dialect.
func (o Object) tools(c *Call, d middleware.Dialect, write func(f *llms.FunctionDefinition) Object) {
	var list []any
	var members map[string]json.RawMessage // members of functions that are not recognized here
	if c.Params.Dialect == d {
		_ = json.Unmarshal(c.Params.Extra["tools"], &members) // fails for a list, which is the caller's own
	}
	for _, f := range functions(c.Options) {
		tool := write(f)
		tool.addMembers(gjson.ParseBytes(members[f.Name]))
		list = append(list, tool)
	}
	if c.Params.Dialect == d {
		for _, raw := range c.Params.RawTools {
			list = append(list, raw)
		}
	}
	setList(o, "tools", list)
}

// toolChoice sets the tool_choice of OpenAI's APIs; write returns the choice of a function.
func (o Object) toolChoice(c *Call, write func(name string) Object) {
	switch mode, function, other := middleware.ToolChoice(c.Options); {
	case function != "":
		o["tool_choice"] = write(c.Limits.toolName(function))
	case other != nil:
		o["tool_choice"] = other
	default:
		o.text("tool_choice", mode)
	}
}

func newCall(id, name, arguments string) llms.ToolCall {
	return llms.ToolCall{ID: id, Type: "function", FunctionCall: &llms.FunctionCall{Name: name, Arguments: arguments}}
}

func isJSON(o *llms.CallOptions) bool { return o.JSONMode || o.ResponseMIMEType == "application/json" }

func dataURL(mime string, data []byte) string {
	return "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString(data)
}

func parseDataURL(url string) (mime string, data []byte, ok bool) {
	rest, isData := strings.CutPrefix(url, "data:")
	mime, text, isBase64 := strings.Cut(rest, ";base64,")
	data, err := base64.StdEncoding.DecodeString(text)
	return mime, data, isData && isBase64 && err == nil
}

// imageFile returns an image as a file, with its content if the URL is a data: URL.
func imageFile(p llms.ImageURLContent) middleware.FilePart {
	if mime, data, ok := parseDataURL(p.URL); ok {
		return middleware.FilePart{MIMEType: mime, Data: data}
	}
	return middleware.FilePart{MIMEType: "image/*", URL: p.URL}
}

// eachMessage calls do for each message with its role, one of langchaingo's four.
func eachMessage(messages []llms.MessageContent, do func(role llms.ChatMessageType, parts []llms.ContentPart) error) error {
	for i := range messages {
		role, err := roleOf(messages[i].Role)
		if err != nil {
			return err
		}
		if err := do(role, messages[i].Parts); err != nil {
			return err
		}
	}
	return nil
}

// eachPart calls do for each part of a message with its cache control. It converts
// llms.BinaryContent to [middleware.FilePart] and llms.ToolCallResponse to
// [middleware.ResultPart].
func eachPart(parts []llms.ContentPart, do func(p llms.ContentPart, cache *llms.CacheControl) error) error {
	for _, p := range parts {
		p, cache := unwrap(p)
		switch own := p.(type) {
		case llms.BinaryContent:
			p = middleware.FilePart{MIMEType: own.MIMEType, Data: own.Data}
		case llms.ToolCallResponse:
			p = middleware.ResultPart{ToolCallResponse: own}
		case llms.ToolCall:
			if own.FunctionCall == nil {
				continue
			}
		}
		if err := do(p, cache); err != nil {
			return err
		}
	}
	return nil
}

// writeConversation writes a conversation for an API with a separate system text and alternating turns, joining
// consecutive messages of one role. member is the name of a turn's list of parts.
func writeConversation(messages []llms.MessageContent, model, member string, write func(parts []llms.ContentPart, unknown *memberWriter, isModel bool) ([]any, error)) (system []any, list []Object, err error) {
	err = eachMessage(messages, func(role llms.ChatMessageType, from []llms.ContentPart) error {
		name, isModel := roleName(role), role == llms.ChatMessageTypeAI
		if isModel {
			name = model
		}
		var unknown memberWriter
		parts, err := write(from, &unknown, isModel)
		switch n := len(list); {
		case name == "system" && n == 0:
			system = append(system, parts...)
		case len(parts) == 0:
		case n > 0 && list[n-1]["role"] == name:
			before, _ := list[n-1][member].([]any)
			unknown.addToMessage(list[n-1])[member] = append(before, parts...)
		default:
			list = append(list, unknown.addToMessage(Object{"role": name, member: parts}))
		}
		return err
	})
	return system, list, err
}

// walk calls do for each part, including those within tool results.
func walk(parts []llms.ContentPart, do func(p llms.ContentPart)) {
	for _, p := range parts {
		p, _ = unwrap(p)
		do(p)
		if result, ok := p.(middleware.ResultPart); ok {
			walk(result.Parts, do)
		}
	}
}

// unwrap returns a part without its cache controls, and the innermost of these.
func unwrap(p llms.ContentPart) (llms.ContentPart, *llms.CacheControl) {
	var cache *llms.CacheControl
	for {
		cached, ok := p.(llms.CachedContent)
		if !ok {
			return p, cache
		}
		p, cache = cached.ContentPart, cached.CacheControl
	}
}

// roleOf maps the roles of other libraries to langchaingo's four.
func roleOf(r llms.ChatMessageType) (llms.ChatMessageType, error) {
	switch r {
	case "user", llms.ChatMessageTypeGeneric, llms.ChatMessageTypeHuman:
		return llms.ChatMessageTypeHuman, nil
	case "assistant", "model", llms.ChatMessageTypeAI:
		return llms.ChatMessageTypeAI, nil
	case "developer", llms.ChatMessageTypeSystem:
		return llms.ChatMessageTypeSystem, nil
	case llms.ChatMessageTypeFunction, llms.ChatMessageTypeTool:
		return llms.ChatMessageTypeTool, nil
	}
	return r, refuseCall("unknown role %q", r)
}

// roleName returns the name of one of these roles in most APIs, in which the user returns tool results.
func roleName(role llms.ChatMessageType) string { return cmp.Or(roleNames[role], "user") }

var roleNames = map[llms.ChatMessageType]string{llms.ChatMessageTypeSystem: "system", llms.ChatMessageTypeAI: "assistant"}

// argumentsObject returns the arguments of a tool call as a JSON object. Some agents store a bare argument in
// their history.
func argumentsObject(text string) json.RawMessage {
	trimmed := strings.TrimSpace(text)
	switch {
	case trimmed == "":
		return json.RawMessage("{}")
	case trimmed[0] == '{' && json.Valid([]byte(trimmed)):
		return json.RawMessage(trimmed)
	}
	return rawJSON(map[string]string{"__arg1": text})
}
