package dialect

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"github.com/stepfall/stepfall/middleware"
)

// What the vendors take, as far as requests for other APIs go beyond it. Each limit has
// where it is from.

// LimitsOf returns the limits of a model of the server at a host.
func LimitsOf(api middleware.Dialect, host, model string) Limits {
	switch api {
	case middleware.DialectAnthropic:
		l := Anthropic(model)
		l.SystemAfterUser = l.SystemAfterUser && isHost(host, "anthropic.com") // other hosts of Claude have none
		return l
	case middleware.DialectGemini:
		l := Gemini
		if strings.Contains(model, "gemini-2.5") || strings.Contains(model, "gemini-3") {
			// "Penalty is not enabled for models/gemini-2.5-flash"; https://github.com/google-gemini/cookbook/issues/1290
			l.Lacks = []string{"PresencePenalty", "FrequencyPenalty"}
		}
		// "Function calling with a response mime type: 'application/json' is unsupported";
		// https://github.com/googleapis/python-genai/issues/867
		// Files within results begin with Gemini 3; https://ai.google.dev/gemini-api/docs/function-calling#multimodal
		l.NoToolsWithSchema = !strings.Contains(model, "gemini-3")
		l.TextResults = l.NoToolsWithSchema
		return l
	case middleware.DialectOllama:
		return Ollama
	}
	return OpenAI(api, host, model)
}

// OpenAI returns the limits of chat completions or Responses for a model of the server at
// a host: OpenAI's own, or of one that is like it.
func OpenAI(api middleware.Dialect, host, model string) Limits {
	// What all take, and some want.
	l := Limits{
		// "string too long. Expected a string with maximum length 40", of tool_calls[].id;
		// https://github.com/openai/openai-python/issues/1997
		CallID: 40,
		// "object schema missing properties"; https://platform.openai.com/docs/guides/function-calling
		ToolProperties: true,
		// Results are texts; https://platform.openai.com/docs/api-reference/chat/create#chat-create-messages
		NoFailures: true,
		// "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'";
		// https://github.com/simonw/llm/issues/373, of DeepSeek https://github.com/vercel/ai/issues/7913
		SaysJSON: true,
		// Anthropic's word, which no other has; https://platform.claude.com/docs/en/api/service-tiers
		Tier: map[string]string{"standard_only": ""},
	}
	if api == middleware.DialectChat {
		// "Expected a base64-encoded data URL with an application/pdf MIME type"; https://github.com/trpc-group/trpc-agent-go/issues/1816
		l.Files, l.NoFileURL = []string{"application/pdf"}, true
		// "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'";
		// https://github.com/evalstate/fast-agent/issues/314
		l.ResultsFollow = true
	}
	if !IsOpenAI(host) {
		l.compatible(host, model)
		return l
	}
	// "an array of up to 4 sequences"; https://platform.openai.com/docs/api-reference/chat/create#chat-create-stop
	l.StopWords = 4
	// "must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of
	// 64"; https://platform.openai.com/docs/api-reference/chat/create#chat-create-tools
	l.ToolName, l.ToolSigns = 64, "-_"
	// "string too long. Expected a string with maximum length 64", of user, safety_identifier and prompt_cache_key;
	// https://platform.openai.com/docs/guides/safety-best-practices, https://github.com/theopenco/llmgateway/pull/3110
	l.UserID = 64
	// "array schema missing items", "'required' is required to be supplied and to be an array including every key in
	// properties"; https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
	l.ArrayItems, l.StrictRequired = true, true
	// "Invalid 'tools': array too long. Expected an array with maximum length 128"; https://github.com/musistudio/claude-code-router/issues/686
	l.Tools = 128
	version := versionOf(gptVersion, model)
	l.Effort = gptEffort(model, version)
	// https://platform.openai.com/docs/api-reference/chat/create#chat-create-service_tier;
	// Anthropic's standard_only is OpenAI's default.
	l.Tier = map[string]string{"standard_only": "default"}
	if host == "api.openai.com" { // Azure has prefixes of its own
		// "file-abc123"; https://platform.openai.com/docs/api-reference/files/object
		l.FileID = "file-"
	}
	// https://platform.openai.com/docs/guides/images-vision#image-input-requirements
	l.Images = []string{"image/png", "image/jpeg", "image/webp", "image/gif"}
	switch {
	case knowsNoEffort.MatchString(model):
		// "Unrecognized request argument supplied: reasoning_effort"; https://github.com/coroot/coroot/issues/698
		// "Unsupported value: 'low' is not supported with the 'gpt-4.1' model. Supported values are: 'medium'", of
		// verbosity; https://github.com/google-deepmind/concordia/issues/164. "Encrypted content is not supported with this
		// model"; https://github.com/pydantic/pydantic-ai/issues/2865
		l.Lacks, l.Unsealed = []string{"ReasoningEffort", "ReasoningSummary", "Verbosity"}, true
	case isUnsampled.MatchString(model), version >= 56:
		// "Unsupported parameter: 'temperature' is not supported with this model", and
		// "stop: Not supported with latest reasoning models"; https://platform.openai.com/docs/guides/latest-model#gpt-5-parameter-compatibility
		l.Lacks, l.StopWords = []string{"Temperature", "TopP", "PresencePenalty", "FrequencyPenalty", "LogitBias"}, -1
		if version == 0 { // verbosity begins with gpt-5; https://platform.openai.com/docs/guides/latest-model#verbosity
			l.Lacks = append(l.Lacks, "Verbosity")
		}
	}
	if version <= 51 && strings.Contains(model, "codex") {
		// "Unsupported value: 'low' is not supported with the 'gpt-5.1-codex-max' model. Supported values are: 'medium'", of
		// text.verbosity; https://github.com/openai/codex/issues/9035
		l.Lacks = append(l.Lacks, "Verbosity")
	}
	if api == middleware.DialectResponses {
		// "Expected a value >= 16", of max_output_tokens; https://platform.openai.com/docs/api-reference/responses/create
		l.MinTokens = 16
		// One answer to a request; the same page has no n
		l.Choices = 1
		// "Expected a string with maximum length 64", of call_id; https://platform.openai.com/docs/api-reference/responses/create
		l.CallID = 64
		// "No tool output found for function call"; https://platform.openai.com/docs/guides/function-calling
		l.ResultsFollow, l.UniqueCalls = true, true
		// There is no n; https://platform.openai.com/docs/guides/migrate-to-responses
		l.Choices = 1
		// https://platform.openai.com/docs/guides/reasoning#encrypted-reasoning-items
		l.Sealed = reasons.MatchString(model) && !knowsNoEffort.MatchString(model)
		return l
	}
	// "Invalid 'tools[13].function.description': string too long. Expected a string with maximum length 1024";
	// https://github.com/getsentry/sentry-mcp/issues/106
	l.ToolText = 1024
	// "The 'metadata' parameter is only allowed when 'store' is enabled"; https://github.com/tmc/langchaingo/issues/1484
	l.StoredMetadata = true
	if version >= 54 {
		// "Function tools with reasoning_effort are not supported ... in /v1/chat/completions ... or
		// set reasoning_effort to 'none'", without any effort too; https://github.com/BerriAI/litellm/pull/34569
		l.ToolEffort = "none"
	}
	return l
}

// gptEffort maps the words for how much to think that a model of OpenAI lacks.
// https://platform.openai.com/docs/api-reference/chat/create#chat-create-reasoning_effort,
// https://github.com/anomalyco/opencode/issues/4451
func gptEffort(model string, version int) map[string]string {
	words := map[string]string{"minimal": "low", "xhigh": "high", "max": "high"}
	switch {
	case version == 50 && !strings.Contains(model, "codex"):
		words = map[string]string{"none": "minimal", "xhigh": "high", "max": "high"}
	case version >= 56:
		words = map[string]string{"minimal": "low"}
	case version >= 52, strings.Contains(model, "codex-max"):
		words = map[string]string{"minimal": "low", "max": "xhigh"}
	}
	if version < 50 || strings.Contains(model, "codex") {
		words["none"] = "low"
	}
	return words
}

// gptVersion and claudeVersion find the two numbers of a model's version.
var (
	gptVersion    = regexp.MustCompile(`^gpt-(\d)(?:\.(\d))?`)
	claudeVersion = regexp.MustCompile(`claude-(?:(?:opus|sonnet|haiku|fable)-)?(\d)(?:[-.](\d))?(?:[-.]|$)`)
)

// versionOf returns a version as a number, of 5.4 as 54; 0 is none that is known.
func versionOf(in *regexp.Regexp, model string) int {
	found := in.FindStringSubmatch(model)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1] + cmp.Or(found[2], "0"))
	if err != nil {
		return 0 // they are digits
	}
	return n
}

var (
	knowsNoEffort = regexp.MustCompile(`^(gpt-3|gpt-4|chatgpt|gpt-5[.0-9]*-chat)`)
	isUnsampled   = regexp.MustCompile(`^(o[1-9]|gpt-5($|-))`)
	reasons       = regexp.MustCompile(`^(o[1-9]|gpt-[5-9]|codex)`)
)

// IsOpenAI reports whether a host is OpenAI's or Azure's.
func IsOpenAI(host string) bool { return isHost(host, "api.openai.com") || isHost(host, "azure.com") }

func isHost(host, name string) bool { return host == name || strings.HasSuffix(host, "."+name) }

// Anthropic returns the limits of Messages for a model.
func Anthropic(model string) Limits {
	l := Limits{
		// "Ranges from 0.0 to 1.0"; https://platform.claude.com/docs/en/api/messages/create
		Temperature: 1,
		// One answer to a request; https://platform.claude.com/docs/en/api/openai-sdk
		Choices: 1,
		// "each stop sequence must contain non-whitespace", "text content blocks must contain non-whitespace
		// text"; https://platform.claude.com/docs/en/api/messages/create
		NoBlank: true,
		// ^[a-zA-Z0-9_-]{1,128}$; https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use
		ToolName: 128, ToolSigns: "-_",
		// ^[a-zA-Z0-9_-]+$, of tool_use.id; https://platform.claude.com/docs/en/api/messages/create
		CallID: 128,
		// "maxLength: 256", of metadata.user_id; https://platform.claude.com/docs/en/api/messages/create
		UserID: 256,
		// "user_id appears to contain an email address. Please send a uuid or hash value instead.", and of telephone numbers;
		// https://github.com/BerriAI/litellm/issues/10106
		NoContacts: true,
		// https://platform.claude.com/docs/en/build-with-claude/effort; none is thinking disabled
		Effort: map[string]string{"minimal": "low", "xhigh": "high"},
		// https://platform.claude.com/docs/en/api/service-tiers
		Tier: map[string]string{"default": "standard_only", "flex": "", "priority": "", "scale": ""},
		// https://platform.claude.com/docs/en/build-with-claude/vision
		Images: []string{"image/jpeg", "image/png", "image/gif", "image/webp"},
		// Of documents; a text of any type goes as a plain one; https://platform.claude.com/docs/en/build-with-claude/pdf-support
		Files: []string{"application/pdf", "text/plain"},
		// "10 MiB encoded image-field limit", where it was 5; https://github.com/kolega-ai/kolega-code/pull/354,
		// https://github.com/can1357/oh-my-pi/pull/10633
		ImageBytes: 10 << 20,
		// "Tool names must be unique"; https://github.com/anthropics/claude-code/issues/10687
		UniqueTools: true,
		// "file_011CNha8iCJcU1wXNR6q4V8w"; https://platform.claude.com/docs/en/build-with-claude/files
		FileID: "file_",
		// "messages: at least one message is required"; https://platform.claude.com/docs/en/api/messages/create
		// "first message must use the "user" role"; https://github.com/anthropics/anthropic-sdk-typescript/issues/622
		UserFirst: true, UserBegins: true,
		// "`tool_use` ids were found without `tool_result` blocks immediately after"; https://github.com/anthropics/claude-code/issues/7929.
		// "`tool_use` ids must be unique"; https://github.com/anthropics/claude-code/issues/21317
		ResultsFollow: true, UniqueCalls: true, SystemFirst: true,
		// "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'", of those at the top alone;
		// https://github.com/beautyfree/appstore-connect-mcp/issues/2
		PropertyName: 64, PropertySigns: "_.-",
		// "tools.0.custom.input_schema.type: Field required"; https://platform.claude.com/docs/en/api/messages/create
		// "input_schema does not support oneOf, allOf, or anyOf at the top level"; https://github.com/anthropics/claude-code/issues/5973
		ToolProperties: true,
		// "JSON schema is invalid. It must match JSON Schema draft 2020-12"; https://github.com/anthropics/claude-code/issues/7365
		Draft2020: true,
		// "Only HTTPS URLs are supported"; https://platform.claude.com/docs/en/build-with-claude/vision
		SecureURLs: true,
		// "additionalProperties must be explicitly set to false", "For 'integer' type, property 'minimum' is not supported";
		// https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
		ClosedSchema: true,
	}
	version, isOpus := versionOf(claudeVersion, model), strings.Contains(model, "opus")
	if version == 0 {
		return l
	}
	// "This model does not support the effort parameter"; https://platform.claude.com/docs/en/build-with-claude/effort
	if version < 45 || version == 45 && !isOpus {
		l.Effort = map[string]string{"minimal": "", "low": "", "medium": "", "high": "", "xhigh": "", "max": ""}
	} else if version == 45 { // max begins with Claude 4.6
		l.Effort = map[string]string{"minimal": "low", "xhigh": "high", "max": "high"}
	}
	if version < 46 {
		// Adaptive thinking begins with Claude 4.6; https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking
		l.Thinking = map[string]string{"adaptive": "enabled", "between_tools": "disabled"}
		return l
	}
	// "This model does not support assistant message prefill"; https://platform.claude.com/docs/en/about-claude/models/migration-guide
	l.EndsWithUser = true
	if version < 47 {
		return l
	}
	// "must immediately follow a user turn", and be the last or before an answer; "role 'system' is not supported on this model", of others;
	// https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages. Of Sonnet 5 it is said and denied.
	l.SystemAfterUser = isOpus && version >= 48 || version >= 55 || strings.Contains(model, "fable")
	// Sampling parameters and budgets return 400 from Opus 4.7 on; https://platform.claude.com/docs/en/about-claude/models/migration-guide
	l.Lacks = []string{"Temperature", "TopP", "TopK"}
	l.Effort, l.Thinking = map[string]string{"minimal": "low"}, map[string]string{"enabled": "adaptive", "between_tools": "disabled"}
	switch {
	case strings.Contains(model, "sonnet") && version >= 55:
		// https://platform.claude.com/docs/en/models/sonnet-5-5/whats-new-sonnet-5-5
		l.Thinking, l.NoForcedTool = map[string]string{"enabled": "adaptive", "disabled": "between_tools"}, true
	case isOpus && version >= 55, strings.Contains(model, "fable"):
		// https://platform.claude.com/docs/en/models/opus-5-5/whats-new-opus-5-5
		l.Thinking, l.NoForcedTool = map[string]string{"enabled": "adaptive", "disabled": "", "between_tools": ""}, true
	}
	return l
}

// isOneSampler reports whether a Claude takes temperature or top_p, and not both.
// https://platform.claude.com/docs/en/about-claude/models/migration-guide
func isOneSampler(model string) bool {
	version := versionOf(claudeVersion, model)
	return version == 0 || version > 40
}

// Gemini has the limits of the Gemini API.
var Gemini = Limits{
	// "up to 5"; https://ai.google.dev/api/generate-content#generationconfig
	StopWords: 5,
	// "must start with a letter or an underscore ... underscores, colons, dots, and dashes,
	// with a maximum length of 64"; https://ai.google.dev/api/caching#FunctionDeclaration
	ToolName: 64, ToolSigns: "-_.:", ToolLetter: true,
	// "Duplicate function declaration found"; https://github.com/tridz-dev/huf/pull/341
	UniqueTools: true,
	// "between 1 and 8"; https://ai.google.dev/api/generate-content#generationconfig
	Choices: 8,
	// https://ai.google.dev/gemini-api/docs/thinking#thinking-levels
	Effort: map[string]string{"xhigh": "high", "max": "high"},
	// https://ai.google.dev/api/generate-content#ServiceTier
	Tier: map[string]string{"auto": "", "default": "standard", "standard_only": "standard", "scale": ""},
	// https://ai.google.dev/gemini-api/docs/image-understanding#supported-formats
	Images: []string{"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"},
	// "function response turn comes immediately after a function call turn"; https://github.com/langchain-ai/langchain/issues/27799
	ResultsFollow: true, SystemFirst: true,
	// "function call turn comes immediately after a user turn", also at the beginning; https://github.com/google-gemini/gemini-cli/issues/11814
	UserBegins: true,
	// "contents is not specified"; https://ai.google.dev/api/generate-content
	UserFirst: true,
	// "The resource name"; https://ai.google.dev/api/files#File
	FileID: "files/",
}

// Ollama has the limits of Ollama's chat API.
var Ollama = Limits{
	// Results are texts; https://docs.ollama.com/api/chat
	NoFailures: true,
	// "cannot unmarshal bool into Go struct field ToolFunctionParameters.tools.function.parameters.properties", and a list as
	// the type; https://github.com/can1357/oh-my-pi/issues/4488
	ToolProperties: true, NoBooleanSchemas: true,
	// "must be "high", "medium", "low", "max", true, or false"; https://github.com/ollama/ollama/issues/17837
	Effort:  map[string]string{"minimal": "low", "xhigh": "high"},
	Choices: 1,
	// Images are all that goes along; https://docs.ollama.com/api/chat
	Files: []string{}, NoFileURL: true, NoImageURL: true,
}

// thinkingBudget is the number of tokens for a word, for Gemini models before 3, which
// know no words; https://ai.google.dev/gemini-api/docs/openai#thinking
var thinkingBudget = map[string]int{"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}

// proBudget is the largest of the Pro models, that of others is for the word high;
// https://ai.google.dev/gemini-api/docs/thinking#set-budget
const proBudget = 32768

// leastProBudget is their smallest: "Budget 0 is invalid. This model only works in thinking mode";
// https://github.com/vercel/ai/issues/8027. Of levels they have low and high.
const leastProBudget = 128
