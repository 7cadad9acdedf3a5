package dialect

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// Origin identifies a model at a server. It is the Model of the [middleware.RawPart] values that hold the
// model's state. It does not reveal the server.
func Origin(host, model string) string {
	sum := sha256.Sum256([]byte(host + "\n" + model))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:originLen])
}

const originLen = 12

// Unknown is the Model of state without a tag, from a conversation that began elsewhere.
const Unknown = "?"

// The kinds of content that [Own] removes, as named in [middleware.Extra.NotSent].
const (
	NotSentState     = "another model's reasoning"
	notSentWork      = "another model's hosted tools"
	notSentContent   = "content of another API"
	notSentCitations = "citations"
	notSentContext   = "context of a document"
)

// Own returns the messages in the form for a model of the dialect with these names: without the state of
// other models, and with replacements for the parts of other dialects. notSent names what was lost. The
// caller's messages are not modified.
func Own(messages []llms.MessageContent, d middleware.Dialect, names ...string) (own []llms.MessageContent, notSent []string) {
	for _, m := range messages {
		notSent = addInexpressible(notSent, m.Parts, d)
	}
	var translate func(p llms.ContentPart) (llms.ContentPart, bool)
	translate = func(p llms.ContentPart) (llms.ContentPart, bool) {
		raw, ok := p.(middleware.RawPart)
		switch {
		case !ok || raw.Dialect == d && isOf(&raw, names):
			return p, false
		case raw.Instead != nil:
			notSent = append(notSent, lostByReplacement(&raw)...)
			instead, _ := rewritePart(raw.Instead, translate)
			return instead, true
		}
		p, lost := withoutForm(&raw, d)
		notSent = append(notSent, lost...)
		return p, true
	}
	return dropUnansweredCalls(rewrite(messages, translate)), distinct(notSent)
}

// isOf reports whether a part belongs to a model with one of these names, or to no model.
func isOf(p *middleware.RawPart, names []string) bool {
	return p.Model == "" || slices.Contains(names, p.Model)
}

// withoutForm returns what a model of the dialect can be sent of a part of another API or model, and names what is
// lost.
func withoutForm(p *middleware.RawPart, d middleware.Dialect) (rest llms.ContentPart, lost []string) {
	switch members := memberNames(*p); {
	case p.Text != "":
		if gjson.GetBytes(p.Raw, "citations").Exists() {
			lost = []string{notSentCitations}
		}
		return p.TextContent, lost
	case isHostedTool(p):
		return nil, []string{notSentWork}
	case p.Model != "":
		return nil, []string{NotSentState}
	case members != nil:
		return adoptMark(p, d, members)
	}
	return nil, []string{notSentContent}
}

// addInexpressible adds the names of features of parts that the API cannot express: cache controls, names of
// speakers and files, the detail of an image.
func addInexpressible(names []string, parts []llms.ContentPart, d middleware.Dialect) []string {
	for _, p := range parts {
		p, cache := unwrap(p)
		need := func(does bool, name string, by ...middleware.Dialect) {
			if does && !slices.Contains(by, d) {
				names = addNew(names, name)
			}
		}
		need(cache != nil, "cache_control", middleware.DialectAnthropic)
		switch p := p.(type) {
		case middleware.NamePart:
			need(true, "name", middleware.DialectChat)
		case llms.ImageURLContent:
			need(cmp.Or(p.Detail, "auto") != "auto", "detail", middleware.DialectChat, middleware.DialectResponses)
		case middleware.FilePart:
			need(p.Name != "" && (p.Data == nil || d == middleware.DialectGemini), "filename", middleware.DialectAnthropic)
		case middleware.RawPart:
			if p.Dialect != d {
				names = addInexpressible(names, []llms.ContentPart{p.Instead}, d)
			}
		case middleware.ResultPart:
			names = addInexpressible(names, p.Parts, d)
		}
	}
	return names
}

// isHostedTool reports whether a part is a call or a result of a tool hosted by the model's vendor.
func isHostedTool(p *middleware.RawPart) bool {
	return p.Model != "" && (strings.Contains(gjson.GetBytes(p.Raw, "type").Str, "tool") || gjson.GetBytes(p.Raw, callerPath).Exists())
}

// isState reports whether a part is a model's state, without a text and not of a hosted tool.
func isState(p *middleware.RawPart) bool {
	return p.Model != "" && p.Text == "" && !isHostedTool(p)
}

// addNew adds the words that are not yet in the list. One of the two must be short: otherwise use distinct.
func addNew(list []string, words ...string) []string {
	for _, word := range words {
		if !slices.Contains(list, word) {
			list = append(list, word)
		}
	}
	return list
}

// distinct returns the words of a list, which can be long, without duplicates.
func distinct(list []string) (words []string) {
	if len(list) < 2 {
		return list
	}
	seen := make(map[string]bool, len(list))
	for _, word := range list {
		if !seen[word] {
			seen[word] = true
			words = append(words, word)
		}
	}
	return words
}

// lostByReplacement names what the replacement of a part lacks: citations, the cache control, and the
// context of a file.
func lostByReplacement(raw *middleware.RawPart) (words []string) {
	own := gjson.ParseBytes(raw.Raw)
	if own.Get("citations.enabled").Bool() {
		words = append(words, notSentCitations)
	}
	if own.Get("cache_control").IsObject() {
		words = append(words, "cache_control")
	}
	if _, isText := raw.Instead.(llms.TextContent); !isText && own.Get("context").Str != "" {
		words = append(words, notSentContext)
	}
	return words
}

// Foreign returns the type of an essential part of the conversation that cannot be sent to a model of the
// dialect with these names, or "": a user's or tool's part in the form of another API, another model's
// compaction, or a turn that another model paused.
func Foreign(messages []llms.MessageContent, d middleware.Dialect, names ...string) (kind string) {
	if open := pausedCall(messages); open != nil && !isOf(open, names) {
		return "paused turn"
	}
	for _, m := range messages {
		walk(m.Parts, func(p llms.ContentPart) {
			raw, _ := p.(middleware.RawPart)
			if (raw.Dialect != d || !isOf(&raw, names)) && isEssential(raw, m.Role) {
				kind = gjson.GetBytes(raw.Raw, "type").Str
			}
		})
	}
	return kind
}

// isEssential reports whether a part cannot be replaced: a compaction, or a part of a user or tool that does
// not come from a vendor's own tools.
func isEssential(part llms.ContentPart, role llms.ChatMessageType) bool {
	p, _ := part.(middleware.RawPart)
	name := gjson.GetBytes(p.Raw, "type").Str
	isSaid := role != llms.ChatMessageTypeAI && p.Model == ""
	return p.Text == "" && p.Instead == nil && name != "" && (isSaid || name == "compaction")
}

// rewrite returns messages with each part, including those within tool results, replaced by do, which removes
// it by returning nil. The caller's messages are not modified.
func rewrite(messages []llms.MessageContent, do func(p llms.ContentPart) (own llms.ContentPart, isChanged bool)) (own []llms.MessageContent) {
	for i, m := range messages {
		parts, isChanged := rewriteParts(m.Parts, do)
		if isChanged && own == nil {
			own = append(make([]llms.MessageContent, 0, len(messages)), messages[:i]...)
		}
		if m.Parts = parts; own != nil && (!isChanged || len(parts) > 0) {
			own = append(own, m)
		}
	}
	if own == nil {
		return messages
	}
	return own
}

func rewriteParts(parts []llms.ContentPart, do func(p llms.ContentPart) (llms.ContentPart, bool)) (own []llms.ContentPart, isChanged bool) {
	for i, p := range parts {
		fresh, differs := rewritePart(p, do)
		if differs && !isChanged {
			own, isChanged = append(make([]llms.ContentPart, 0, len(parts)), parts[:i]...), true
		}
		if isChanged && fresh != nil {
			own = append(own, fresh)
		}
	}
	if !isChanged {
		return parts, false
	}
	return own, true
}

func rewritePart(p llms.ContentPart, do func(p llms.ContentPart) (llms.ContentPart, bool)) (own llms.ContentPart, isChanged bool) {
	switch p := p.(type) {
	case llms.CachedContent:
		if p.ContentPart, isChanged = rewritePart(p.ContentPart, do); p.ContentPart == nil {
			return nil, isChanged
		}
		return p, isChanged
	case middleware.ResultPart:
		var differs bool
		p.Parts, differs = rewriteParts(p.Parts, do)
		own, isChanged = do(p)
		return own, isChanged || differs
	}
	return do(p)
}

// A tag precedes an opaque text of a model (a signature, encrypted content, an id). It consists of the mark
// with its version, the origin, and a letter that tells how to read the rest.
const (
	tagName    = "stepfall"
	tagMark    = tagName + "1"
	tagPlain   = 'o' // followed by the model's own text
	tagWrapped = 'w' // followed by a whole part of another dialect, in base64
)

// tag marks an opaque text with its origin. Clients send it back unchanged.
func tag(origin, text string) string {
	if origin == "" {
		return text
	}
	return tagMark + origin + string(tagPlain) + text
}

// Wrap encodes a part as an opaque text for any dialect.
func Wrap(p middleware.RawPart) string {
	return tagMark + p.Model + string(tagWrapped) + string(p.Dialect) + "." + base64.RawURLEncoding.EncodeToString(p.Raw)
}

// Untag removes the tag from an opaque text. The origin of a text without a tag is [Unknown]. A tag that was
// not written here, or that a client or another version changed, matches no model. part is set if the text
// was made by [Wrap].
func Untag(text string) (origin, rest string, part *middleware.RawPart) {
	const nobody = "!"
	tagged, ok := strings.CutPrefix(text, tagMark)
	switch {
	case !ok && !isForeignTag(text):
		return Unknown, text, nil
	case !ok, len(tagged) <= originLen:
		return nobody, text, nil
	}
	origin, rest = tagged[:originLen], tagged[originLen+1:]
	switch tagged[originLen] {
	case tagPlain:
		return origin, rest, nil
	case tagWrapped:
		dot := strings.LastIndexByte(rest, '.') // the dialect's name contains dots
		raw, err := base64.RawURLEncoding.DecodeString(rest[dot+1:])
		if dot > 0 && err == nil && isObject(string(raw)) {
			return origin, "", &middleware.RawPart{Dialect: middleware.Dialect(rest[:dot]), Model: origin, Raw: raw}
		}
	}
	return nobody, text, nil
}

// isForeignTag reports whether a text begins with a tag of another version, or with spaces and a tag.
func isForeignTag(text string) bool {
	version, ok := strings.CutPrefix(strings.TrimSpace(text), tagName)
	return ok && version != "" && version[0] >= '0' && version[0] <= '9'
}

// sealedMembers are the members that hold a model's state, by the type of the object. The last of them can be
// empty.
var sealedMembers = map[string][]string{
	"thinking": {"signature"}, "redacted_thinking": {"data"}, "server_tool_use": {"id"}, // Messages
	"reasoning": {"encrypted_content", "id"}, "compaction": {"encrypted_content", "signature", "id"}, // Responses, and Messages
	"reasoning.text": {"signature", "id"}, "reasoning.encrypted": {"data", "id"}, "reasoning.summary": {"id"}, // chat completions, in OpenRouter's form
}

// callerPath is the path to the id of the block of the model's own code that made a call.
const callerPath = partMembers + ".caller.tool_id"

// sealedPaths returns the paths of an object's sealed members. Results of the vendor's own tools, which are
// partly encrypted, and citations of them also belong to the model.
func sealedPaths(object json.RawMessage) []string {
	kind := gjson.GetBytes(object, "type").Str
	switch {
	case kind == "text":
		for i, citation := range gjson.GetBytes(object, "citations").Array() {
			if citation.Get("encrypted_index").Exists() {
				return []string{fmt.Sprintf("citations.%d.encrypted_index", i)}
			}
		}
	case strings.HasSuffix(kind, "_tool_result") && kind != "mcp_tool_result":
		return []string{"tool_use_id"}
	case gjson.GetBytes(object, callerPath).Exists():
		return []string{callerPath}
	}
	return sealedMembers[kind]
}

// Seal tags an object with the model that returned it, if it holds that model's state.
func Seal(origin string, object json.RawMessage) json.RawMessage {
	names := sealedPaths(object)
	if origin == "" || names == nil {
		return object
	}
	i := slices.IndexFunc(names, func(name string) bool { return gjson.GetBytes(object, name).Str != "" })
	if i < 0 {
		i = len(names) - 1
	}
	name := names[i]
	return withText(object, name, tag(origin, gjson.GetBytes(object, name).Str))
}

// Open removes the tag from an object that [Seal] tagged, or returns the part that is wrapped in it. state is
// false for an object that is not a model's state.
func Open(dialect middleware.Dialect, object json.RawMessage) (p middleware.RawPart, state bool) {
	p = middleware.RawPart{Dialect: dialect, Raw: object}
	names := sealedPaths(object)
	for _, name := range names {
		text := gjson.GetBytes(object, name).Str
		origin, rest, part := Untag(text)
		if part != nil {
			return *part, true
		}
		if origin == Unknown {
			continue
		}
		p.Model, p.Raw = origin, withText(object, name, rest)
		return p, true
	}
	if names != nil {
		p.Model = Unknown
	}
	return p, names != nil
}

// withText returns an object with a member set to a string, or to null if that is empty.
func withText(object json.RawMessage, name, text string) json.RawMessage {
	return withMember(object, name, string(appendNullable(nil, text)))
}

// withMember returns an object with a member set to a JSON value.
func withMember(object json.RawMessage, name, value string) json.RawMessage {
	if old := gjson.GetBytes(object, name); old.Index > 0 {
		return slices.Concat(object[:old.Index], []byte(value), object[old.Index+len(old.Raw):])
	}
	object = bytes.TrimSpace(object)
	return slices.Concat(object[:len(object)-1], []byte(`,"`+name+`":`+value+"}"))
}
