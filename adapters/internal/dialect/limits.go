package dialect

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

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
	// Members are what a request of chat completions has, and MessageMembers its messages, where
	// the vendor refuses whatever it does not know; nil is anything. Renamed are those with another
	// name there.
	Members, MessageMembers []string
	Renamed                 map[string]string
	// Sealed is set for a model that gives its reasoning encrypted to who asks for that,
	// Unsealed for one that refuses to be asked.
	Sealed, Unsealed bool
	// Thoughts is set for a model that wants a reasoning_content, be it empty, with each
	// tool call of its own.
	Thoughts bool
	// Choices is the largest number of answers to a request.
	Choices int
	// MinTokens is the least limit of an answer.
	MinTokens int
	// StopWords is the largest number of stop words; those beyond are looked for in the
	// answer by the middleware; below 0 it takes none.
	StopWords int
	// NoBlank is set where texts of nothing but white space are refused: such stop words and
	// answers are left out, and the user says something.
	NoBlank bool
	// Tools is the largest number of tools.
	Tools int
	// ToolName is the longest name of a tool, which has letters, digits and the signs
	// of ToolSigns.
	ToolName  int
	ToolSigns string
	// ToolLetter wants such a name to begin with a letter or _.
	ToolLetter bool
	// ToolText is the longest description of a tool, in characters. A longer one goes whole in a
	// message of the system.
	ToolText int
	// PropertyName is the longest name of an argument of a tool, which has letters, digits and
	// the signs of PropertySigns.
	PropertyName  int
	PropertySigns string
	// ResultsFollow wants the results of a turn's calls right after it, UniqueCalls each id of a
	// call in one turn only.
	ResultsFollow, UniqueCalls bool
	// SystemFirst is set where what the system says within a conversation goes as the user's,
	// OneSystem where what it says before is one message, and texts of one role are one, too.
	SystemFirst, OneSystem bool
	// AnswerAfterResults wants an answer between the results of tools and what the user says.
	AnswerAfterResults bool
	// Prefix is set where an answer that is to be gone on with says so.
	Prefix bool
	// TextResults is set where the files that tools return go beside their results.
	TextResults bool
	// NoFailures is set where results of tools have no word for failures.
	NoFailures bool
	// CallID is the longest id of a call, which has letters, digits, - and _. Others are
	// mapped. ExactID wants all of them as long as that, without signs.
	CallID  int
	ExactID bool
	// UserID is the longest id of an end user. Longer ones are hashed.
	UserID int
	// Effort maps words for how much to think, and Tier service tiers. What is mapped to
	// nothing is not sent; what is not mapped goes as it is.
	Effort, Tier map[string]string
	// Thinking maps types of thinking in Messages; what is mapped to nothing is not sent.
	Thinking map[string]string
	// ToolEffort is the only effort that the model takes together with tools; "" is any.
	ToolEffort string
	// NoForcedTool is set for a model that is not made to call a tool.
	NoForcedTool bool
	// EndsWithUser is set for a model that continues no answer of its own.
	EndsWithUser bool
	// StoredMetadata is set where metadata are taken only with store.
	StoredMetadata bool
	// Images are the media types of images, Files those of files. A file of another type
	// goes as a text where it is one.
	Images, Files []string
	// NoFileURL and NoImageURL are set where files and images do not go by their address,
	// SecureURLs where they go by https alone.
	NoFileURL, NoImageURL, SecureURLs bool
	// FileID begins the names of files that are stored at the vendor.
	FileID string
	// UserFirst wants a message of the user: the last of nothing but system messages
	// becomes one. UserBegins wants it before any answer: one is put before an answer that is the
	// first.
	UserFirst, UserBegins bool
	// ToolProperties wants the schema of a tool to be one of an object with properties, which
	// has no alternatives at its top.
	ToolProperties bool
	// NoToolsWithSchema is set for a model that answers by a schema, or in JSON, only where it has
	// no tools.
	NoToolsWithSchema bool
	// Draft2020 wants the schema of a tool in the words of the JSON Schema draft 2020-12.
	Draft2020 bool
	// ArrayItems wants the schema of a tool to say what its lists hold.
	ArrayItems bool
	// StrictRequired wants a strict schema to require all its properties and no others.
	StrictRequired bool
	// ClosedSchema wants the objects of a schema that an answer is made by to allow no further
	// properties, and takes no bounds of numbers, texts and lists.
	ClosedSchema bool
}

// Exclude returns why a request cannot be honoured, or "".
func (l *Limits) Exclude(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) string {
	if l.Choices > 0 && p.N != nil && *p.N > l.Choices {
		return fmt.Sprintf("takes no n above %d", l.Choices)
	}
	if l.ClosedSchema && p.Schema != nil && isOpen(p.Schema.Schema) {
		return "takes no schema of an answer whose objects may have further properties"
	}
	if l.ClosedSchema && p.Schema != nil && isRecursive(p.Schema.Schema) {
		return "takes no schema of an answer that has itself within"
	}
	if why := l.excludeTools(o, p); why != "" {
		return why
	}
	mode, function, _ := toolChoice(o)
	allowedMode, _ := allowedTools(p)
	if l.NoForcedTool && (cmp.Or(mode, allowedMode) == "required" || function != "") {
		return "cannot be made to call a tool"
	}
	if n := len(messages); n > 0 {
		text, isPlain := textOf(messages[n-1].Parts)
		switch role := messages[n-1].Role; {
		case l.EndsWithUser && role == llms.ChatMessageTypeAI:
			return "takes no conversation that ends with an answer"
		case l.NoBlank && role == llms.ChatMessageTypeHuman && isPlain && strings.TrimSpace(text) == "":
			return "takes no empty message"
		}
	}
	for _, m := range messages {
		why := ""
		walk(m.Parts, func(part llms.ContentPart) {
			if w := l.excludePart(part); w != "" {
				why = w
			}
		})
		if why != "" {
			return why
		}
	}
	return ""
}

// excludeTools returns why the tools cannot be offered, or "".
func (l *Limits) excludeTools(o *llms.CallOptions, p *middleware.Params) (why string) {
	n := len(o.Tools) + len(p.RawTools)
	switch {
	case l.Tools > 0 && n > l.Tools:
		return fmt.Sprintf("takes no more than %d tools", l.Tools)
	case l.NoToolsWithSchema && n > 0 && (p.Schema != nil || o.JSONMode):
		return "takes no tools together with a form of the answer"
	}
	for i := range o.Tools {
		f := o.Tools[i].Function
		switch {
		case f == nil:
			continue
		case l.ToolName > 0 && (!isWord(f.Name, l.ToolName, l.ToolSigns) || l.ToolLetter && strings.ContainsAny(f.Name[:1], "-.:0123456789")):
			return fmt.Sprintf("takes no tool by the name %.80q", f.Name)
		case l.PropertyName == 0:
			continue
		}
		schema, _ := f.Parameters.(json.RawMessage)
		gjson.GetBytes(schema, "properties").ForEach(func(name, _ gjson.Result) bool {
			if !isWord(name.Str, l.PropertyName, l.PropertySigns) {
				why = fmt.Sprintf("takes no argument of a tool by the name %.80q", name.Str)
			}
			return why == ""
		})
		if why != "" {
			return why
		}
	}
	return ""
}

// excludePart returns why a part cannot be sent, or "".
func (l *Limits) excludePart(p llms.ContentPart) string {
	switch p := p.(type) {
	case middleware.RawPart:
		if p.Instead != nil {
			return l.excludePart(p.Instead)
		}
	case middleware.FilePart:
		switch isImage := strings.HasPrefix(p.MIMEType, "image/"); {
		case p.ID != "" && (!strings.HasPrefix(p.ID, l.FileID) || l.Files != nil && len(l.Files) == 0):
			return fmt.Sprintf("does not have the file %.80q", p.ID)
		case p.Data == nil && p.ID == "" && (isImage && l.NoImageURL || !isImage && l.NoFileURL):
			return "takes no file by its address"
		}
	case llms.ImageURLContent:
		switch isData := strings.HasPrefix(p.URL, "data:"); {
		case l.NoImageURL && !isData:
			return "takes no image by its address"
		case l.SecureURLs && !isData && !strings.HasPrefix(p.URL, "https://"):
			return "takes no image by an address without https"
		}
	}
	if kind := fileType(p); !l.takes(kind) {
		return "takes no " + kind
	}
	return ""
}

// takes reports whether files of a media type may be sent; a text of any type may.
func (l *Limits) takes(kind string) bool {
	known := l.Files
	if strings.HasPrefix(kind, "image/") {
		known = l.Images
	}
	isOpen := kind == "" || strings.HasSuffix(kind, "/*") || strings.HasPrefix(kind, "audio/") || strings.HasPrefix(kind, "text/")
	return isOpen || known == nil || slices.Contains(known, kind)
}

// isWord reports whether a text is as short as that and has letters, digits and the signs.
func isWord(s string, most int, signs string) bool {
	return s != "" && len(s) <= most && strings.IndexFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(signs, c)
	}) < 0
}

// fileType is the media type of a file that is sent in full, "" for anything else.
func fileType(p llms.ContentPart) string {
	switch p := p.(type) {
	case llms.BinaryContent:
		return mediaType(p.MIMEType, p.Data)
	case middleware.FilePart:
		if p.Data != nil {
			return mediaType(p.MIMEType, p.Data)
		}
	case llms.ImageURLContent:
		if kind, rest, isData := cutDataURL(p.URL); isData {
			text := strings.TrimPrefix(rest, "base64,")
			head, _ := base64.StdEncoding.DecodeString(text[:min(len(text), 64)/4*4]) // as far as it is base64
			return mediaType(kind, head)
		}
	}
	return ""
}

// cutDataURL returns the media type of a data URL and what follows it.
func cutDataURL(url string) (kind, rest string, isData bool) {
	if url, isData = strings.CutPrefix(url, "data:"); !isData {
		return "", "", false
	}
	kind, rest, _ = strings.Cut(url, ";")
	return kind, rest, true
}

// mediaType returns the media type of an image by how its data begin, where that is known:
// clients go by the names of files, and vendors look. Others have the type that is given.
// "specified using the image/jpeg media type, but the image appears to be a image/png image";
// https://github.com/vybestack/llxprt-code/issues/2130
func mediaType(kind string, data []byte) string {
	if !strings.HasPrefix(kind, "image/") || strings.HasSuffix(kind, "/*") {
		return kind
	}
	if found := http.DetectContentType(data); strings.HasPrefix(found, "image/") {
		return found
	}
	if kind == "image/jpg" {
		return "image/jpeg"
	}
	return kind
}

// Fit makes a request what the vendor takes, and names what is not sent. o and p are
// changed, what they share with the caller and the messages are not.
func (l *Limits) Fit(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) (fitting []llms.MessageContent, notSent []string) {
	notSent = l.fitParams(o, p)
	o.StopWords = l.stopWords(o.StopWords)
	if len(o.Tools)+len(o.Functions)+len(p.RawTools) == 0 { // what is said about tools goes with some
		o.ToolChoice, o.FunctionCallBehavior, p.ParallelToolCalls = nil, "", nil
	}
	if l.ToolProperties || p.Dialect != "" {
		notSent = append(notSent, l.fitTools(o, p)...)
	}
	if long := l.cutDescriptions(o); long != "" {
		messages = slices.Insert(slices.Clone(messages), leadingSystem(messages), llms.TextParts(llms.ChatMessageTypeSystem, long))
	}
	if l.ClosedSchema && p.Schema != nil {
		own := *p.Schema
		own.Schema = closedSchema(own.Schema)
		p.Schema = &own
	}
	if s := p.Schema; l.StrictRequired && s != nil && s.Strict != nil && *s.Strict && !requiresAll(s.Schema) {
		own := *s
		own.Strict, p.Schema = new(false), &own
		notSent = addNew(notSent, "strict")
	}
	if l.NoFailures && hasFailure(messages) {
		notSent = append(notSent, "is_error")
	}
	isSystem := func(m llms.MessageContent) bool { return isRole(m, llms.ChatMessageTypeSystem) }
	if l.SystemFirst && slices.ContainsFunc(messages[leadingSystem(messages):], isSystem) {
		notSent = append(notSent, "system role within the conversation")
	}
	return l.fitMessages(messages), notSent
}

// fitParams makes the parameters of a request what the vendor takes.
func (l *Limits) fitParams(o *llms.CallOptions, p *middleware.Params) (notSent []string) {
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
	for _, id := range []*string{&p.User, &p.SafetyIdentifier} {
		if l.UserID > 0 && len(*id) > l.UserID {
			sum := sha256.Sum256([]byte(*id))
			*id = hex.EncodeToString(sum[:])
		}
	}
	if l.StoredMetadata && p.Metadata != nil && (p.Store == nil || !*p.Store) {
		p.Metadata = nil
		notSent = append(notSent, "Metadata")
	}
	notSent = append(notSent, mapWord(&p.ReasoningEffort, l.Effort, "ReasoningEffort")...)
	notSent = append(notSent, mapWord(&p.ServiceTier, l.Tier, "ServiceTier")...)
	if l.ToolEffort != "" && len(o.Tools) > 0 && p.ReasoningEffort != l.ToolEffort {
		if p.ReasoningEffort != "" {
			notSent = append(notSent, "ReasoningEffort")
		}
		p.ReasoningEffort = l.ToolEffort
	}
	return notSent
}

// hasFailure reports whether the result of a tool says that it failed.
func hasFailure(messages []llms.MessageContent) (failed bool) {
	for _, m := range messages {
		for _, p := range m.Parts {
			p, _ = unwrap(p)
			result, ok := p.(middleware.ResultPart)
			failed = failed || ok && result.Failed
		}
	}
	return failed
}

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
	if l.NoBlank {
		words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.TrimSpace(w) == "" })
	}
	if l.StopWords != 0 && len(words) > l.StopWords {
		words = words[:max(l.StopWords, 0)]
	}
	return words
}

// fitTools mends the schemas of tools, and offers only those that are allowed where the
// choice of tools has the form of another API.
func (l *Limits) fitTools(o *llms.CallOptions, p *middleware.Params) (notSent []string) {
	mode, names := allowedTools(p)
	if mode != "" && o.ToolChoice == nil {
		o.ToolChoice = mode
	}
	tools := make([]llms.Tool, 0, len(o.Tools))
	for _, tool := range o.Tools {
		if tool.Function == nil || names != nil && !slices.Contains(names, tool.Function.Name) {
			continue
		}
		raw, ok := tool.Function.Parameters.(json.RawMessage)
		if tool.Function.Parameters == nil {
			raw, ok = json.RawMessage("{}"), true
		}
		if ok && l.ToolProperties {
			own := *tool.Function
			if l.Draft2020 {
				raw = draft2020(raw)
			}
			raw = objectSchema(raw)
			switch {
			case own.Strict && l.ClosedSchema:
				raw = closedSchema(raw)
			case own.Strict && l.StrictRequired && !requiresAll(raw):
				own.Strict, notSent = false, addNew(notSent, "strict")
			}
			if l.ArrayItems {
				raw = withItems(raw)
			}
			own.Parameters = raw
			tool.Function = &own
		}
		tools = append(tools, tool)
	}
	if len(o.Tools) > 0 {
		o.Tools = tools
	}
	return notSent
}

// cutDescriptions cuts what is too long of the descriptions of tools, and returns them whole.
func (l *Limits) cutDescriptions(o *llms.CallOptions) string {
	const rest = " [whole in the system message]"
	var whole strings.Builder
	for i, tool := range o.Tools {
		if l.ToolText == 0 || tool.Function == nil || utf8.RuneCountInString(tool.Function.Description) <= l.ToolText {
			continue
		}
		own := *tool.Function
		fmt.Fprintf(&whole, "The tool %s:\n%s\n\n", own.Name, own.Description)
		own.Description = string([]rune(own.Description)[:l.ToolText-len(rest)]) + rest
		o.Tools = slices.Clone(o.Tools)
		o.Tools[i].Function = &own
	}
	return strings.TrimSpace(whole.String())
}

// leadingSystem returns how many messages of the system a conversation begins with.
func leadingSystem(messages []llms.MessageContent) int {
	first := slices.IndexFunc(messages, func(m llms.MessageContent) bool { return !isRole(m, llms.ChatMessageTypeSystem) })
	if first < 0 {
		return len(messages)
	}
	return first
}

// allowedTools returns the names of the tools that may be called of those that are offered,
// and whether one has to be, where the choice of tools says so.
func allowedTools(p *middleware.Params) (mode string, names []string) {
	choice := gjson.ParseBytes(p.Extra["tool_choice"])
	if choice.Get("type").Str != "allowed_tools" {
		return "", nil
	}
	if inner := choice.Get("allowed_tools"); inner.Exists() {
		choice = inner
	}
	for _, tool := range choice.Get("tools").Array() {
		names = append(names, tool.Get("name").Str+tool.Get("function.name").Str)
	}
	return choice.Get("mode").Str, names
}

// fitMessages maps ids and media types, and makes a message of the user where one is needed.
func (l *Limits) fitMessages(messages []llms.MessageContent) []llms.MessageContent {
	if l.ResultsFollow {
		messages = pairCalls(messages, l.UniqueCalls)
	}
	messages = l.fitRoles(rewrite(messages, l.fitPart))
	switch first := leadingSystem(messages); {
	case len(messages) == 0:
	case first == len(messages):
		if l.UserFirst {
			messages = slices.Clone(messages)
			messages[first-1].Role = llms.ChatMessageTypeHuman
		}
	case l.UserBegins && isRole(messages[first], llms.ChatMessageTypeAI):
		messages = slices.Insert(slices.Clone(messages), first, llms.TextParts(llms.ChatMessageTypeHuman, noQuestion))
	}
	return messages
}

// fitRoles makes what the system says one message, or the user's, and of texts that follow each
// other one.
func (l *Limits) fitRoles(messages []llms.MessageContent) (fitting []llms.MessageContent) {
	if !l.SystemFirst && !l.OneSystem {
		return messages
	}
	first := leadingSystem(messages)
	for i, m := range messages {
		switch isSystem := isRole(m, llms.ChatMessageTypeSystem); {
		case isSystem && i < first && i > 0 && l.OneSystem:
			fitting[0].Parts = joinTexts(fitting[0].Parts, m.Parts)
			continue
		case isSystem && i > first && l.SystemFirst:
			m.Role = llms.ChatMessageTypeHuman
		}
		if last := len(fitting) - 1; l.OneSystem && last >= 0 && fitting[last].Role == m.Role && isText(fitting[last].Parts) && isText(m.Parts) {
			fitting[last].Parts = joinTexts(fitting[last].Parts, m.Parts)
			continue
		}
		fitting = append(fitting, m)
	}
	return fitting
}

// joinTexts joins the parts of two messages, to one text where they are texts: not every server
// takes a list of them of the system.
func joinTexts(a, b []llms.ContentPart) []llms.ContentPart {
	if !isText(a) || !isText(b) {
		return slices.Concat(a, b)
	}
	first, _ := textOf(a)
	second, _ := textOf(b)
	return []llms.ContentPart{llms.TextContent{Text: first + "\n\n" + second}}
}

func isText(parts []llms.ContentPart) bool {
	_, isText := textOf(parts)
	return isText
}

// noQuestion is what the user says before an answer that begins a conversation: the shortest
// text that is not blank.
const noQuestion = "."

func (l *Limits) fitPart(p llms.ContentPart) (fitting llms.ContentPart, isChanged bool) {
	switch p := p.(type) {
	case llms.ToolCall:
		p.ID, isChanged = l.callID(p.ID)
		if f := p.FunctionCall; f != nil && l.ToolName > 0 && !isWord(f.Name, l.ToolName, l.ToolSigns) {
			own := *f
			own.Name, isChanged = l.toolName(f.Name), true
			p.FunctionCall = &own
		}
		return p, isChanged
	case llms.ToolCallResponse:
		p.ToolCallID, isChanged = l.callID(p.ToolCallID)
		return p, isChanged
	case middleware.ResultPart:
		p.ToolCallID, isChanged = l.callID(p.ToolCallID)
		return p, isChanged
	case middleware.RawPart: // what OpenAI alone has for a refusal is a text elsewhere
		if l.MessageMembers != nil && p.Text != "" && gjson.GetBytes(p.Raw, "type").Str == "refusal" {
			return p.TextContent, true
		}
	case llms.BinaryContent:
		was := p.MIMEType
		p.MIMEType = mediaType(was, p.Data)
		return p, p.MIMEType != was
	case middleware.FilePart:
		if p.Data != nil && l.Files != nil && strings.HasPrefix(p.MIMEType, "text/") && !slices.Contains(l.Files, p.MIMEType) && !slices.Contains(l.Files, "text/plain") {
			return llms.TextContent{Text: strings.TrimPrefix(p.Name+"\n\n"+string(p.Data), "\n\n")}, true
		}
		was := p.MIMEType
		p.MIMEType = mediaType(was, p.Data)
		return p, p.MIMEType != was
	case llms.ImageURLContent:
		kind, rest, isData := cutDataURL(p.URL)
		if !isData || kind == fileType(p) {
			return p, false
		}
		p.URL = "data:" + fileType(p) + ";" + rest
		return p, true
	}
	return p, false
}

// toolName is the name of a tool that was called, as the vendor takes it: of a conversation that
// another model began, it is only read.
func (l *Limits) toolName(name string) string {
	name = strings.Map(func(c rune) rune {
		if isWord(string(c), l.ToolName, l.ToolSigns) {
			return c
		}
		return '_'
	}, name)
	return cmp.Or(name[:min(len(name), l.ToolName)], "_")
}

// callID is the id of a call as the vendor takes it: the same for the same one.
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
