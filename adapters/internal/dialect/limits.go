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

// Limits is what a vendor accepts. [Limits.Fit] clamps, maps or leaves out whatever exceeds it, and
// [Limits.Exclude] excludes a model that would reject the request. The zero value has no limits. Each vendor's limits
// are in vendors.json, with their sources.
type Limits struct {
	// Temperature is the largest temperature; larger ones are lowered to it. Values above 2 are outside the
	// range of every API and are sent unchanged, so that the vendor can reject them.
	Temperature float64
	// Lacks has the names of the fields of [middleware.Params] that the model does not support.
	Lacks map[string]bool
	// Members are the members that a request of chat completions can have, and MessageMembers those of its
	// messages, if the vendor rejects unknown members; nil allows any. Renamed maps members to the vendor's
	// names for them.
	Members, MessageMembers []string
	Renamed                 map[string]string
	// Sealed is set for a model that returns its reasoning encrypted if the request asks for it, Unsealed
	// for one that rejects such a request.
	Sealed, Unsealed bool
	// Thoughts is set for a model that requires a reasoning_content, even if empty, in each answer of a
	// conversation.
	Thoughts bool
	// ThoughtParts is set if reasoning is a part of the content.
	ThoughtParts bool
	// Refuses are members that other vendors of chat completions accept and this one rejects, in requests,
	// messages, their parts and tools. They are removed.
	Refuses []string
	// Choices is the maximum number of answers to a request.
	Choices int
	// MinTokens is the smallest accepted limit on the length of an answer.
	MinTokens int
	// Seeds are the smallest and the largest seed; other seeds are not sent.
	Seeds []int
	// StopWords is the maximum number of stop words; a negative number means that none are accepted. The
	// middleware cuts the answer at those that are not sent.
	StopWords int
	// NoBlank is set if texts of only white space are rejected. Such stop words and messages are left out,
	// and a conversation that ends with such a message of the user excludes the model.
	NoBlank bool
	// Tools is the maximum number of tools.
	Tools int
	// UniqueTools is set if the names of tools must differ.
	UniqueTools bool
	// ToolName is the maximum length of a tool's name, which can have letters, digits and the characters
	// in ToolSigns. Other names are mapped, and mapped back in the answer.
	ToolName  int
	ToolSigns string
	// ToolLetter is set if a tool's name must begin with a letter or _.
	ToolLetter bool
	// ToolText is the maximum length of a tool's description, in characters. The full text of a longer one
	// is sent in a system message.
	ToolText int
	// PropertyName is the maximum length of the name of a tool's argument, which can have letters, digits
	// and the characters in PropertySigns.
	PropertyName  int
	PropertySigns string
	// ResultsFollow is set if the results of a turn's calls must follow it directly, UniqueCalls if a call id
	// must not occur in two turns.
	ResultsFollow, UniqueCalls bool
	// SystemFirst is set if system messages after the beginning of the conversation must become the user's,
	// OneSystem if those at the beginning must be joined, as well as consecutive texts of one role.
	SystemFirst, OneSystem bool
	// SystemAfterUser, with SystemFirst, keeps a system message that directly follows the user's, if it is the
	// last message or precedes an answer.
	SystemAfterUser bool
	// AnswerAfterResults is set if an answer must stand between tool results and a message of the user.
	AnswerAfterResults bool
	// Prefix is set if an answer that the model is to continue must be marked as a prefix.
	Prefix bool
	// TextResults is set if tool results can only be text: their files are sent beside them.
	TextResults bool
	// NoFailures is set if tool results cannot be marked as failed.
	NoFailures bool
	// CallID is the maximum length of a call id, which can have letters, digits, - and _. Other ids are
	// mapped. ExactID requires exactly that length, and only letters and digits.
	CallID  int
	ExactID bool
	// UserID is the maximum length of an end user's id and of a cache key. Longer ones are hashed.
	UserID int
	// NoContacts is set if email addresses and telephone numbers are not accepted as user ids: they are hashed.
	NoContacts bool
	// Effort maps reasoning efforts, and Tier service tiers. Values mapped to "" are not sent; values without
	// a mapping are sent unchanged.
	Effort, Tier map[string]string
	// Thinking maps the types of thinking of Messages; those mapped to "" are not sent.
	Thinking map[string]string
	// CacheMarks is set for a model whose prompts are cached only up to the marks in a request.
	CacheMarks bool
	// OneSampler is set for a model that accepts either a temperature or a top_p, but not both.
	OneSampler bool
	// SaysJSON is set if the conversation must contain the word JSON when a JSON answer is requested.
	SaysJSON bool
	// SaysTool is set if the API has no choice of tools, so that a system message requests the call.
	SaysTool bool
	// ToolEffort is the only effort that the model accepts together with tools; "" means any.
	ToolEffort string
	// NoForcedTool is set for a model that cannot be forced to call a tool.
	NoForcedTool bool
	// EndsWithUser is set for a model that cannot continue its own answer.
	EndsWithUser bool
	// StoredMetadata is set if metadata are accepted only together with store.
	StoredMetadata bool
	// Images are the media types of images, and Files those of other files. A text file of another type is
	// sent as text.
	Images, Files []string
	// ImageBytes is the maximum size of an image in base64.
	ImageBytes int
	// NoFileURL and NoImageURL are set if files and images cannot be sent by URL, SecureURLs if their URLs
	// must be https.
	NoFileURL, NoImageURL, SecureURLs bool
	// FileID begins the ids of files that are stored at the vendor.
	FileID string
	// UserFirst is set if there must be a message of the user: if there are only system messages, the last one
	// becomes the user's. UserBegins is set if it must precede any answer: one is inserted before an answer
	// that begins the conversation.
	UserFirst, UserBegins bool
	// ToolProperties is set if the schema of a tool must describe an object with properties, without
	// alternatives at its top level.
	ToolProperties bool
	// NoToolsWithSchema is set for a model that answers by a schema, or in JSON, only if the request has no
	// tools.
	NoToolsWithSchema bool
	// AllowedTools is the API in whose form a choice among some of the tools is accepted. For choices in the
	// form of another API, only those tools are offered.
	AllowedTools middleware.Dialect
	// NoCustomTools is set if all tools must be functions, and the choice of tools a mode or a name.
	NoCustomTools bool
	// Draft2020 is set if tool schemas must follow JSON Schema draft 2020-12.
	Draft2020 bool
	// NoBooleanSchemas is set if a property's schema in a tool schema must not be true or false.
	NoBooleanSchemas bool
	// ArrayItems is set if tool schemas must state the items of arrays.
	ArrayItems bool
	// StrictRequired is set if a strict schema must require all its properties and allow no others.
	StrictRequired bool
	// SchemaInWords is set if answers can be in JSON, but not follow a schema: a system message states it.
	SchemaInWords bool
	// ClosedSchema is set if objects in the schema of an answer must not allow additional properties, such a
	// schema cannot have bounds on numbers, strings and lists, and a request with one cannot continue an answer.
	ClosedSchema bool
}

// Exclude returns why a request cannot be honoured, or "".
func (l *Limits) Exclude(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) string {
	if l.Choices > 0 && deref(p.N) > l.Choices {
		return fmt.Sprintf("rejects n above %d", l.Choices)
	}
	isClosed := l.ClosedSchema && p.Schema != nil
	mode, function, _ := middleware.ToolChoice(o)
	allowedMode, _ := allowedTools(p)
	return cmp.Or(
		when(isClosed && isOpen(p.Schema.Schema), "rejects answer schemas whose objects allow additional properties"),
		when(isClosed && isRecursive(p.Schema.Schema), "rejects answer schemas with recursive or deeply chained references"),
		l.excludeTools(o, p),
		when(l.NoForcedTool && (cmp.Or(mode, allowedMode) == "required" || function != ""), "cannot be forced to call a tool"),
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
		when(endsWithUser && isAnswer && pausedCall(messages) == nil, "rejects conversations that end with an answer"),
		when(l.NoBlank && isUser && isBlank(last.Parts), "rejects empty messages"))
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
		return fmt.Sprintf("rejects more than %d tools", l.Tools)
	}
	isCustom := func(raw json.RawMessage) bool { return gjson.GetBytes(raw, "type").Str == "custom" }
	return cmp.Or(
		when(l.NoToolsWithSchema && n > 0 && hasForm, "rejects tools combined with an answer format"),
		when(l.NoCustomTools && slices.ContainsFunc(p.RawTools, isCustom), "rejects custom tools"),
		l.excludeFunctions(o.Tools))
}

func (l *Limits) excludeFunctions(tools []llms.Tool) (why string) {
	names := map[string]bool{}
	for i := range tools {
		f := tools[i].Function
		if f == nil {
			continue
		}
		if l.UniqueTools && names[f.Name] {
			return fmt.Sprintf("rejects two tools named %.80q", f.Name)
		}
		names[f.Name] = true
		if l.PropertyName == 0 || why != "" {
			continue
		}
		schema, _ := f.Parameters.(json.RawMessage)
		gjson.GetBytes(schema, "properties").ForEach(func(name, _ gjson.Result) bool {
			if !isWord(name.Str, l.PropertyName, l.PropertySigns) {
				why = fmt.Sprintf("rejects the tool argument name %.80q", name.Str)
			}
			return why == ""
		})
	}
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
		why = "rejects " + kind
	case l.ImageBytes > 0 && strings.HasPrefix(kind, "image/") && base64Len(p) > l.ImageBytes:
		why = fmt.Sprintf("rejects images above %d bytes", l.ImageBytes)
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
		return "rejects files by URL"
	}
	return ""
}

func (l *Limits) excludeImageURL(url string) string {
	isData := strings.HasPrefix(url, "data:")
	return cmp.Or(
		when(l.NoImageURL && !isData, "rejects images by URL"),
		when(l.SecureURLs && !isData && !strings.HasPrefix(url, "https://"), "rejects images by URL without https"))
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

// isWord reports whether a text has between 1 and most characters, all of them ASCII letters, digits or
// signs.
func isWord(s string, most int, signs string) bool {
	const own = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && len(s) <= most && strings.IndexFunc(s, func(c rune) bool {
		return !strings.ContainsRune(own, c) && !strings.ContainsRune(signs, c)
	}) < 0
}

// fileType returns the media type of a file that is sent with its content, or "".
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
			head, _ := base64.StdEncoding.DecodeString(text[:min(len(text), 64)/4*4]) // invalid base64 is decoded as far as possible
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

// mediaType returns the media type of an image as detected from its first bytes, or kind if it is not
// detected. Vendors check the type, and clients guess it from file names:
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
