package dialect

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// Fit adapts a request to what the vendor accepts, and names what is not sent. It modifies o and p, but
// neither the messages nor anything that o and p share with the caller.
func (l *Limits) Fit(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) (fitting []llms.MessageContent, notSent []string) {
	notSent = l.fitParams(o, p)
	o.StopWords = l.stopWords(o.StopWords)
	if len(o.Tools)+len(o.Functions)+len(p.RawTools) == 0 { // parameters about tools are only sent together with tools
		o.ToolChoice, o.FunctionCallBehavior, p.ParallelToolCalls = nil, "", nil
	}
	if l.ToolProperties || p.Dialect != "" {
		notSent = append(notSent, l.fitTools(o, p)...)
	}
	if text := l.systemText(messages, o, p); text != "" {
		messages = slices.Insert(slices.Clone(messages), leadingSystem(messages), llms.TextParts(llms.ChatMessageTypeSystem, text))
	}
	if isAsStrict := l.fitSchema(p); !isAsStrict {
		notSent = addNew(notSent, "strict")
	}
	if l.NoFailures && hasFailure(messages) {
		notSent = append(notSent, "is_error")
	}
	messages, demoted := l.fitMessages(messages)
	return messages, append(notSent, demoted...)
}

// systemText returns a text for a system message in place of parameters on tools and the answer's form that
// the vendor lacks.
func (l *Limits) systemText(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) string {
	text := l.cutDescriptions(o)
	if l.SchemaInWords && p.Schema != nil {
		text = strings.TrimSpace(text + "\n\n" + askForJSON + " It must satisfy this JSON schema:\n" + string(p.Schema.Schema))
		o.JSONMode, p.Schema = true, nil
	}
	switch mode, function, _ := middleware.ToolChoice(o); {
	case !l.SaysTool:
	case function != "":
		text = strings.TrimSpace(text + "\n\nAnswer with a call of the tool " + function + ".")
	case mode == "required":
		text = strings.TrimSpace(text + "\n\nAnswer with a call of one of the tools.")
	}
	if l.SaysJSON && isJSON(o) && p.Schema == nil && !saysJSON(messages) && !strings.Contains(text, askForJSON) {
		text = strings.TrimSpace(text + "\n\n" + askForJSON)
	}
	return text
}

// fitSchema adapts the schema of the answer to the vendor, and reports whether it is as strict as
// before.
func (l *Limits) fitSchema(p *middleware.Params) (isAsStrict bool) {
	if p.Schema == nil {
		return true
	}
	own := *p.Schema
	if l.ClosedSchema {
		own.Schema = closedSchema(own.Schema)
	}
	isAsStrict = !l.StrictRequired || !deref(own.Strict) || requiresAll(own.Schema)
	if !isAsStrict {
		own.Strict = new(false)
	}
	p.Schema = &own
	return isAsStrict
}

func (l *Limits) fitParams(o *llms.CallOptions, p *middleware.Params) (notSent []string) {
	notSent = l.fitNumbers(p)
	v := reflect.ValueOf(p).Elem()
	for _, name := range slices.Sorted(maps.Keys(l.Lacks)) {
		if f := v.FieldByName(name); !f.IsZero() {
			f.SetZero()
			notSent = append(notSent, name)
		}
	}
	for _, id := range []*string{&p.User, &p.SafetyIdentifier, &p.PromptCacheKey} {
		if l.UserID > 0 && len(*id) > l.UserID || l.NoContacts && contactPattern.MatchString(*id) {
			sum := sha256.Sum256([]byte(*id))
			*id = hex.EncodeToString(sum[:])
		}
	}
	if l.StoredMetadata && p.Metadata != nil && !deref(p.Store) {
		p.Metadata = nil
		notSent = append(notSent, "Metadata")
	}
	if _, hasNone := l.Effort["none"]; hasNone && !l.Lacks["ReasoningEffort"] && p.ReasoningEffort == "" && disablesThinking(p) {
		p.ReasoningEffort = "none"
	}
	notSent = append(notSent, mapWord(&p.ReasoningEffort, l.Effort, "ReasoningEffort")...)
	notSent = append(notSent, mapWord(&p.ServiceTier, l.Tier, "ServiceTier")...)
	if l.ToolEffort == "" || len(o.Tools) == 0 {
		return notSent
	}
	if p.ReasoningEffort != "" && p.ReasoningEffort != l.ToolEffort {
		notSent = append(notSent, "ReasoningEffort")
	}
	p.ReasoningEffort = l.ToolEffort
	return notSent
}

// disablesThinking reports whether a client of Messages turned thinking off. Other models think unless they are told.
func disablesThinking(p *middleware.Params) bool {
	return p.Dialect == middleware.DialectAnthropic && gjson.GetBytes(p.Extra["thinking"], "type").Str == "disabled"
}

func (l *Limits) fitNumbers(p *middleware.Params) (notSent []string) {
	if t := p.Temperature; l.Temperature > 0 && t != nil && *t > l.Temperature && *t <= 2 {
		p.Temperature = &l.Temperature
		notSent = append(notSent, fmt.Sprintf("Temperature above %g", l.Temperature))
	}
	if l.Seeds != nil && p.Seed != nil && (*p.Seed < l.Seeds[0] || *p.Seed > l.Seeds[1]) {
		p.Seed = nil
		notSent = append(notSent, "Seed")
	}
	if p.MaxTokens != nil && *p.MaxTokens < l.MinTokens {
		p.MaxTokens = &l.MinTokens
	}
	return notSent
}

// contactPattern matches user ids that are email addresses or telephone numbers.
var contactPattern = regexp.MustCompile(`@|^\+?[0-9][-0-9 ().]{5,}[0-9]$`)

// askForJSON is the system's text if JSON is requested but no message mentions it.
const askForJSON = "Answer with a JSON object."

// saysJSON reports whether a message of the system or the user contains the word JSON.
func saysJSON(messages []llms.MessageContent) bool {
	return slices.ContainsFunc(messages, func(m llms.MessageContent) bool {
		text, _ := textOf(m.Parts, "\n")
		return !isRole(m, llms.ChatMessageTypeAI) && strings.Contains(strings.ToLower(text), "json")
	})
}

func hasFailure(messages []llms.MessageContent) (failed bool) {
	for _, m := range messages {
		walk(m.Parts, func(p llms.ContentPart) {
			result, ok := p.(middleware.ResultPart)
			failed = failed || ok && result.Failed
		})
	}
	return failed
}

func mapWord(word *string, to map[string]string, name string) []string {
	mapped, ok := to[strings.ToLower(*word)]
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

// fitTools adapts the schemas of tools. If the choice among some tools has the form of another API, it offers
// only those tools.
func (l *Limits) fitTools(o *llms.CallOptions, p *middleware.Params) (notSent []string) {
	names := l.allowTools(o, p)
	tools := make([]llms.Tool, 0, len(o.Tools))
	for _, tool := range o.Tools {
		f := tool.Function
		if f == nil || names != nil && !slices.Contains(names, f.Name) {
			continue
		}
		if l.ToolProperties {
			tool.Function = l.fitFunction(*f)
			if tool.Function.Strict != f.Strict {
				notSent = addNew(notSent, "strict")
			}
		}
		tools = append(tools, tool)
	}
	o.Tools = tools
	return notSent
}

// allowTools returns the names of the tools that a choice in the form of another API, or of tools that are sent under
// other names, allows, nil for all, and
// makes the choice's mode the tool choice.
func (l *Limits) allowTools(o *llms.CallOptions, p *middleware.Params) []string {
	mode, names := allowedTools(p)
	isOwn := p.Dialect != "" && p.Dialect == l.AllowedTools
	if isOwn && !slices.ContainsFunc(names, func(name string) bool { return l.toolName(name) != name }) {
		return nil
	}
	if mode != "" && o.ToolChoice == nil {
		o.ToolChoice = mode
	}
	if mode != "" && (isOwn || l.NoCustomTools) { // only the allowed tools are offered
		p.Extra = maps.Clone(p.Extra)
		delete(p.Extra, "tool_choice")
	}
	return names
}

// fitFunction returns a function with the schema of its arguments adapted to the vendor, and not strict if the
// schema does not allow that.
func (l *Limits) fitFunction(f llms.FunctionDefinition) *llms.FunctionDefinition {
	schema, ok := f.Parameters.(json.RawMessage)
	switch {
	case f.Parameters == nil:
		schema = json.RawMessage("{}")
	case !ok:
		return &f
	}
	if l.Draft2020 {
		schema = draft2020(schema)
	}
	schema = objectSchema(schema)
	switch {
	case !f.Strict:
	case l.ClosedSchema:
		schema = closedSchema(schema)
	case l.StrictRequired && !requiresAll(schema):
		f.Strict = false
	}
	if l.ArrayItems {
		schema = withItems(schema)
	}
	if l.NoBooleanSchemas {
		schema = withoutBooleans(schema)
	}
	f.Parameters = schema
	return &f
}

// cutDescriptions truncates the descriptions of tools that are too long, and returns the full ones.
func (l *Limits) cutDescriptions(o *llms.CallOptions) string {
	const rest = " [whole in the system message]"
	var whole strings.Builder
	for i, tool := range o.Tools {
		if l.ToolText == 0 || tool.Function == nil || utf8.RuneCountInString(tool.Function.Description) <= l.ToolText {
			continue
		}
		own := *tool.Function
		fmt.Fprintf(&whole, "The tool %s:\n%s\n\n", l.toolName(own.Name), own.Description)
		own.Description = string([]rune(own.Description)[:l.ToolText-len(rest)]) + rest
		o.Tools = slices.Clone(o.Tools)
		o.Tools[i].Function = &own
	}
	return strings.TrimSpace(whole.String())
}

func leadingSystem(messages []llms.MessageContent) int {
	first := slices.IndexFunc(messages, func(m llms.MessageContent) bool { return !isRole(m, llms.ChatMessageTypeSystem) })
	if first < 0 {
		return len(messages)
	}
	return first
}

// allowedTools returns the mode and the names of a tool_choice of the type allowed_tools.
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

// fitMessages maps ids, media types and roles, and adds a message of the user where one is needed.
// notSent reports if a system message within the conversation became the user's.
func (l *Limits) fitMessages(messages []llms.MessageContent) (fitting []llms.MessageContent, notSent []string) {
	if l.NoBlank {
		messages = slices.DeleteFunc(slices.Clone(messages), func(m llms.MessageContent) bool { return isBlank(m.Parts) })
	}
	if l.ResultsFollow {
		messages = pairCalls(messages, l.UniqueCalls)
	}
	messages, notSent = l.fitRoles(rewrite(messages, l.fitPart))
	switch first := leadingSystem(messages); {
	case len(messages) == 0:
	case first == len(messages):
		if l.UserFirst {
			messages = slices.Clone(messages)
			messages[first-1].Role = llms.ChatMessageTypeHuman
		}
	case l.UserBegins && isRole(messages[first], llms.ChatMessageTypeAI):
		messages = slices.Insert(slices.Clone(messages), first, llms.TextParts(llms.ChatMessageTypeHuman, emptyQuestion))
	}
	return messages, notSent
}

func isBlank(parts []llms.ContentPart) bool {
	text, isPlain := textOf(parts, "")
	return isPlain && strings.TrimSpace(text) == ""
}

// fitRoles joins the leading system messages, makes later ones the user's, and joins consecutive texts of a
// role, as far as the limits require.
func (l *Limits) fitRoles(messages []llms.MessageContent) (fitting []llms.MessageContent, notSent []string) {
	first := leadingSystem(messages)
	if l.SystemFirst {
		messages, notSent = l.demoteSystem(messages, first)
	}
	if l.OneSystem {
		messages = joinMessages(messages, first)
	}
	return messages, notSent
}

// demoteSystem makes the system messages after the first message of another role the user's, except those with parts that
// only the model's API has, such as tool_addition.
func (l *Limits) demoteSystem(messages []llms.MessageContent, first int) (fitting []llms.MessageContent, notSent []string) {
	fitting = messages
	for i := first + 1; i < len(messages); i++ {
		end, isAfterUser := systemRun(messages, i)
		if l.SystemAfterUser && isAfterUser {
			i = end
		}
		for ; i < end; i++ {
			if slices.ContainsFunc(messages[i].Parts, func(p llms.ContentPart) bool { return isEssential(p, messages[i].Role) }) {
				continue
			}
			if notSent == nil {
				fitting, notSent = slices.Clone(messages), []string{"system role within the conversation"}
			}
			fitting[i].Role = llms.ChatMessageTypeHuman
		}
	}
	return fitting, notSent
}

func joinMessages(messages []llms.MessageContent, first int) (fitting []llms.MessageContent) {
	var together [][]llms.ContentPart
	for i, end := 0, 0; i < len(messages); i = end {
		m, isPlain := messages[i], isText(messages[i].Parts)
		together = append(together[:0], m.Parts)
		for end = i + 1; end < len(messages) && (end < first || isPlain && messages[end].Role == m.Role && isText(messages[end].Parts)); end++ {
			together = append(together, messages[end].Parts)
		}
		if len(together) > 1 {
			m.Parts = joinTexts(together, m.Role)
		}
		fitting = append(fitting, m)
	}
	return fitting
}

// systemRun returns the end of the system messages that begin at i, and whether they do not follow an answer
// and precede an answer or the end of the conversation.
func systemRun(messages []llms.MessageContent, i int) (end int, isAfterUser bool) {
	end = i + leadingSystem(messages[i:])
	return end, !isRole(messages[i-1], llms.ChatMessageTypeAI) && (end == len(messages) || isRole(messages[end], llms.ChatMessageTypeAI))
}

// joinTexts joins the parts of messages, and leading texts to one text, because some servers accept no list of
// parts from the system. Everything after a message with other parts is left unchanged.
func joinTexts(messages [][]llms.ContentPart, role llms.ChatMessageType) (parts []llms.ContentPart) {
	var texts []string
	for len(texts) < len(messages) && isText(messages[len(texts)]) {
		text, _ := textOf(messages[len(texts)], separatorAfter(role))
		texts = append(texts, text)
	}
	if len(texts) > 1 {
		messages, parts = messages[len(texts):], []llms.ContentPart{llms.TextContent{Text: strings.Join(texts, "\n\n")}}
	}
	return append(parts, slices.Concat(messages...)...)
}

func isText(parts []llms.ContentPart) bool {
	return !slices.ContainsFunc(parts, func(p llms.ContentPart) bool {
		_, isPlain := p.(llms.TextContent)
		return !isPlain
	})
}

// emptyQuestion is the user's message before an answer that begins a conversation: the shortest text that is
// not blank.
const emptyQuestion = "."
