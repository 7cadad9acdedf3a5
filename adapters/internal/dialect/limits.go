package dialect

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// Limits is what a vendor takes: what is beyond is clamped, mapped or left out by [Fit],
// or excludes the model before it is asked. The zero value has no limit. What each vendor takes
// is in vendors.json, with where that is from.
type Limits struct {
	// Temperature is the largest that is clamped to. What is above 2 is above what any
	// API has, and the vendor may refuse it.
	Temperature float64
	// Lacks are fields of [middleware.Params] that the model does not take.
	Lacks map[string]bool
	// Members are what a request of chat completions has, and MessageMembers its messages, where
	// the vendor refuses whatever it does not know; nil is anything. Renamed are those with another
	// name there.
	Members, MessageMembers []string
	Renamed                 map[string]string
	// Sealed is set for a model that gives its reasoning encrypted to who asks for that,
	// Unsealed for one that refuses to be asked.
	Sealed, Unsealed bool
	// Thoughts is set for a model that wants a reasoning_content, be it empty, with each
	// answer in a conversation.
	Thoughts bool
	// ThoughtParts is set where what a model thinks is a part of the content.
	ThoughtParts bool
	// Refuses are members that others have and that the vendor of chat completions refuses, of
	// requests, messages, their parts and tools.
	Refuses []string
	// Choices is the largest number of answers to a request.
	Choices int
	// MinTokens is the least limit of an answer.
	MinTokens int
	// Seeds are the smallest and the largest seed; others are not sent.
	Seeds []int
	// StopWords is the largest number of stop words; those beyond are looked for in the
	// answer by the middleware; below 0 it takes none.
	StopWords int
	// NoBlank is set where texts of nothing but white space are refused: such stop words and
	// answers are left out, and the user says something.
	NoBlank bool
	// Tools is the largest number of tools.
	Tools int
	// UniqueTools is set where no two tools have one name.
	UniqueTools bool
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
	// SystemAfterUser is set beside SystemFirst where the system may speak right after the user, at
	// the end or before an answer.
	SystemAfterUser bool
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
	// UserID is the longest id of an end user, and key of a cache. Longer ones are hashed.
	UserID int
	// NoContacts is set where addresses and telephone numbers are no ids of users: they are hashed.
	NoContacts bool
	// Effort maps words for how much to think, and Tier service tiers. What is mapped to
	// nothing is not sent; what is not mapped goes as it is.
	Effort, Tier map[string]string
	// Thinking maps types of thinking in Messages; what is mapped to nothing is not sent.
	Thinking map[string]string
	// OneSampler is set for a model that takes a temperature or a top_p, and not both.
	OneSampler bool
	// SaysJSON is set where the conversation has to ask for JSON, too, for an answer in it.
	SaysJSON bool
	// SaysTool is set where the system tells that a tool is to be called: the API has no such choice.
	SaysTool bool
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
	// ImageBytes is the largest image, as long as its base64 is.
	ImageBytes int
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
	// AllowedTools is the API in whose form a choice among some of the tools is taken; of others
	// those tools alone are offered.
	AllowedTools middleware.Dialect
	// NoCustomTools is set where tools are functions, and are chosen by a word or a name.
	NoCustomTools bool
	// Draft2020 wants the schema of a tool in the words of the JSON Schema draft 2020-12.
	Draft2020 bool
	// NoBooleanSchemas is set where a property of a tool's schema is no truth value.
	NoBooleanSchemas bool
	// ArrayItems wants the schema of a tool to say what its lists hold.
	ArrayItems bool
	// StrictRequired wants a strict schema to require all its properties and no others.
	StrictRequired bool
	// SchemaInWords is set where an answer is in JSON and by no schema: the system tells it.
	SchemaInWords bool
	// ClosedSchema wants the objects of a schema that an answer is made by to allow no further
	// properties, takes no bounds of numbers, texts and lists, and continues no answer by one.
	ClosedSchema bool
}

// Exclude returns why a request cannot be honoured, or "".
func (l *Limits) Exclude(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) string {
	if l.Choices > 0 && deref(p.N) > l.Choices {
		return fmt.Sprintf("takes no n above %d", l.Choices)
	}
	isClosed := l.ClosedSchema && p.Schema != nil
	mode, function, _ := middleware.ToolChoice(o)
	allowedMode, _ := allowedTools(p)
	return cmp.Or(
		when(isClosed && isOpen(p.Schema.Schema), "takes no schema of an answer whose objects may have further properties"),
		when(isClosed && isRecursive(p.Schema.Schema), "takes no schema of an answer that refers to itself, or through too many others"),
		l.excludeTools(o, p),
		when(l.NoForcedTool && (cmp.Or(mode, allowedMode) == "required" || function != ""), "cannot be made to call a tool"),
		l.excludeEnd(messages, l.EndsWithUser || isClosed),
		l.excludeParts(messages))
}

func when(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

func (l *Limits) excludeEnd(messages []llms.MessageContent, endsWithUser bool) string {
	if len(messages) == 0 {
		return ""
	}
	last := messages[len(messages)-1]
	isAnswer, isUser := last.Role == llms.ChatMessageTypeAI, last.Role == llms.ChatMessageTypeHuman
	return cmp.Or(
		when(endsWithUser && isAnswer && pausedCall(messages) == nil, "takes no conversation that ends with an answer"),
		when(l.NoBlank && isUser && isBlank(last.Parts), "takes no empty message"))
}

func (l *Limits) excludeParts(messages []llms.MessageContent) (why string) {
	for _, m := range messages {
		walk(m.Parts, func(part llms.ContentPart) { why = cmp.Or(l.excludePart(part), why) })
		if why != "" {
			break
		}
	}
	return why
}

func (l *Limits) excludeTools(o *llms.CallOptions, p *middleware.Params) string {
	n, hasForm := len(o.Tools)+len(p.RawTools), p.Schema != nil || o.JSONMode
	if l.Tools > 0 && n > l.Tools {
		return fmt.Sprintf("takes no more than %d tools", l.Tools)
	}
	isCustom := func(raw json.RawMessage) bool { return gjson.GetBytes(raw, "type").Str == "custom" }
	return cmp.Or(
		when(l.NoToolsWithSchema && n > 0 && hasForm, "takes no tools together with a form of the answer"),
		when(l.NoCustomTools && slices.ContainsFunc(p.RawTools, isCustom), "takes no custom tools"),
		l.excludeFunctions(o.Tools))
}

func (l *Limits) excludeFunctions(tools []llms.Tool) string {
	names := map[string]bool{}
	for i := range tools {
		f := tools[i].Function
		if f == nil {
			continue
		}
		if l.UniqueTools && names[f.Name] {
			return fmt.Sprintf("takes no two tools by the name %.80q", f.Name)
		}
		names[f.Name] = true
		if why := l.excludeFunction(f); why != "" {
			return why
		}
	}
	return ""
}

func (l *Limits) excludeFunction(f *llms.FunctionDefinition) string {
	if l.ToolName > 0 && (!isWord(f.Name, l.ToolName, l.ToolSigns) || l.ToolLetter && strings.ContainsAny(f.Name[:1], "-.:0123456789")) {
		return fmt.Sprintf("takes no tool by the name %.80q", f.Name)
	}
	return l.excludeProperties(f)
}

func (l *Limits) excludeProperties(f *llms.FunctionDefinition) (why string) {
	if l.PropertyName == 0 {
		return ""
	}
	schema, _ := f.Parameters.(json.RawMessage)
	gjson.GetBytes(schema, "properties").ForEach(func(name, _ gjson.Result) bool {
		if !isWord(name.Str, l.PropertyName, l.PropertySigns) {
			why = fmt.Sprintf("takes no argument of a tool by the name %.80q", name.Str)
		}
		return why == ""
	})
	return why
}

func (l *Limits) excludePart(p llms.ContentPart) string {
	why := ""
	switch p := p.(type) {
	case middleware.RawPart:
		return l.excludePart(p.Instead)
	case middleware.FilePart:
		why = l.excludeReference(&p)
	case llms.ImageURLContent:
		why = l.excludeImageURL(p.URL)
	}
	kind := fileType(p)
	switch {
	case why != "":
	case !l.takes(kind):
		why = "takes no " + kind
	case l.ImageBytes > 0 && strings.HasPrefix(kind, "image/") && base64Len(p) > l.ImageBytes:
		why = fmt.Sprintf("takes no image above %d bytes", l.ImageBytes)
	}
	return why
}

func (l *Limits) excludeReference(p *middleware.FilePart) string {
	noURL := l.NoFileURL
	if strings.HasPrefix(p.MIMEType, "image/") {
		noURL = l.NoImageURL
	}
	switch {
	case p.ID != "":
		if !strings.HasPrefix(p.ID, l.FileID) || l.Files != nil && len(l.Files) == 0 {
			return fmt.Sprintf("does not have the file %.80q", p.ID)
		}
	case p.Data == nil && noURL:
		return "takes no file by its address"
	}
	return ""
}

func (l *Limits) excludeImageURL(url string) string {
	isData := strings.HasPrefix(url, "data:")
	return cmp.Or(
		when(l.NoImageURL && !isData, "takes no image by its address"),
		when(l.SecureURLs && !isData && !strings.HasPrefix(url, "https://"), "takes no image by an address without https"))
}

// takes reports whether files of a media type may be sent; any text may.
func (l *Limits) takes(kind string) bool {
	known := l.Files
	if strings.HasPrefix(kind, "image/") {
		known = l.Images
	}
	isOpen := kind == "" || strings.HasSuffix(kind, "/*") || strings.HasPrefix(kind, "audio/") || strings.HasPrefix(kind, "text/")
	return isOpen || known == nil || slices.Contains(known, kind)
}

// isWord reports whether a text has 1 to most characters, all of them ASCII letters, digits or
// signs.
func isWord(s string, most int, signs string) bool {
	const own = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && len(s) <= most && strings.IndexFunc(s, func(c rune) bool {
		return !strings.ContainsRune(own, c) && !strings.ContainsRune(signs, c)
	}) < 0
}

// fileType returns the media type of a file with its content, "" for anything else.
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

func base64Len(p llms.ContentPart) int {
	switch p := p.(type) {
	case llms.BinaryContent:
		return base64.StdEncoding.EncodedLen(len(p.Data))
	case middleware.FilePart:
		return base64.StdEncoding.EncodedLen(len(p.Data))
	case llms.ImageURLContent:
		return len(p.URL)
	}
	return 0
}

func cutDataURL(url string) (kind, rest string, isData bool) {
	if url, isData = strings.CutPrefix(url, "data:"); !isData {
		return "", "", false
	}
	kind, rest, _ = strings.Cut(url, ";")
	return kind, rest, true
}

// mediaType returns the media type of an image by its first bytes, if they are known: vendors check
// it, and clients guess it by file names. Otherwise it returns kind.
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
