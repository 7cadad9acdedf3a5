package clients_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// rule is something that a vendor rejects, with its source: the vendor's documentation or a user's
// report.
type rule struct {
	api, name, source string
	broken            func(u *upstream, m *vendorModel, q gjson.Result) *refusal
}

// claude returns an error of Anthropic's.
func claude(format string, args ...any) *refusal {
	return &refusal{Message: fmt.Sprintf(format, args...)}
}

// gpt returns an error of OpenAI's.
func gpt(param, code, format string, args ...any) *refusal {
	return &refusal{Param: param, Code: code, Message: fmt.Sprintf(format, args...)}
}

// knows returns a rule about the members of a request.
func knows(unknown func(name string) *refusal, names string) func(*upstream, *vendorModel, gjson.Result) *refusal {
	known := strings.Fields(names)
	return func(_ *upstream, _ *vendorModel, q gjson.Result) (f *refusal) {
		q.ForEach(func(k, _ gjson.Result) bool {
			if !slices.Contains(known, k.Str) {
				f = unknown(k.Str)
			}
			return f == nil
		})
		return f
	}
}

var (
	claudeID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	toolName   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}
)

const (
	anthropicDocs = "https://platform.claude.com/docs/en/api/messages"
	thinkingDocs  = "https://platform.claude.com/docs/en/build-with-claude/extended-thinking"
	chatDocs      = "https://platform.openai.com/docs/api-reference/chat/create"
	responsesDocs = "https://platform.openai.com/docs/api-reference/responses/create"
	deepseekDocs  = "https://api-docs.deepseek.com/guides/thinking_mode"
)

// rules are in the order in which they are checked.
var rules = slices.Concat(messagesRules, chatRules, responsesRules)

var messagesRules = []rule{
	{messagesAPI, "unknown member", "https://github.com/anthropics/claude-code/issues/14135", knows(func(name string) *refusal {
		return claude("%s: Extra inputs are not permitted", name)
	}, "model messages max_tokens metadata stop_sequences stream system temperature thinking tool_choice tools top_k top_p service_tier output_config container mcp_servers context_management cache_control inference_geo")},
	{messagesAPI, "max_tokens is required", anthropicDocs, func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		if !q.Get("max_tokens").Exists() {
			return claude("max_tokens: Field required")
		}
		return nil
	}},
	{messagesAPI, "max_tokens is limited", "https://platform.claude.com/docs/en/about-claude/models/overview", func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		if n := q.Get("max_tokens").Int(); n > int64(m.maxTokens) {
			return claude("max_tokens: %d > %d, which is the maximum allowed number of output tokens for %s", n, m.maxTokens, m.name)
		}
		return nil
	}},
	{messagesAPI, "temperature is at most 1", anthropicDocs, func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		if t := q.Get("temperature"); t.Num > 1 || t.Num < 0 {
			return claude("temperature: range: 0..1")
		}
		return nil
	}},
	{messagesAPI, "temperature or top_p", "https://github.com/Vali-98/ChatterUI/issues/564", func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		if q.Get("temperature").Exists() && q.Get("top_p").Exists() {
			return claude("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
		}
		return nil
	}},
	{messagesAPI, "thinking fixes the temperature", thinkingDocs, func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		if t := q.Get("temperature"); thinkingOn(q) && t.Exists() && t.Num != 1 {
			return claude("`temperature` may only be set to 1 when thinking is enabled. Please consult our documentation at %s", thinkingDocs)
		}
		return nil
	}},
	{messagesAPI, "thinking takes no top_k", thinkingDocs, func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		if thinkingOn(q) && q.Get("top_k").Exists() {
			return claude("`top_k` must be unset when thinking is enabled. Please consult our documentation at %s", thinkingDocs)
		}
		return nil
	}},
	{messagesAPI, "thinking budget", thinkingDocs, func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		budget := q.Get("thinking.budget_tokens")
		switch {
		case q.Get("thinking.type").Str != "enabled":
			return nil
		case budget.Int() < 1024:
			return claude("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
		case budget.Int() >= q.Get("max_tokens").Int():
			return claude("`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at %s#max-tokens-and-context-window-size", thinkingDocs)
		}
		return nil
	}},
	{messagesAPI, "thinking and a forced tool", thinkingDocs, func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		if kind := q.Get("tool_choice.type").Str; thinkingOn(q) && (kind == "any" || kind == "tool") {
			return claude("Thinking may not be enabled when tool_choice forces tool use.")
		}
		return nil
	}},
	{messagesAPI, "adaptive thinking", "https://platform.claude.com/docs/en/models/opus-5-5/whats-new-opus-5-5", func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		kind := q.Get("thinking.type").Str
		switch {
		case isHaiku(m) && kind == "adaptive": // it is older than Claude 4.6
			return claude("adaptive thinking is not supported on this model")
		case !isHaiku(m) && kind != "" && kind != "adaptive":
			return claude("\"thinking.type.%s\" is not supported for this model. Use \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking behavior.", kind)
		}
		return nil
	}},
	{messagesAPI, "forced tools", "https://platform.claude.com/docs/en/models/opus-5-5/whats-new-opus-5-5#forced-tool-use-is-not-supported", func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		if kind := q.Get("tool_choice.type").Str; !isHaiku(m) && (kind == "any" || kind == "tool") {
			return claude("tool_choice.type: forced tool use is not supported on this model")
		}
		return nil
	}},
	{messagesAPI, "sampling", "https://platform.claude.com/docs/en/about-claude/models/migration-guide", func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		for _, name := range []string{"temperature", "top_p", "top_k"} {
			if !isHaiku(m) && q.Get(name).Exists() {
				return claude("`%s` is deprecated for this model.", name)
			}
		}
		return nil
	}},
	{messagesAPI, "prefill", "https://platform.claude.com/docs/en/about-claude/models/migration-guide", func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		if list := q.Get("messages").Array(); !isHaiku(m) && len(list) > 0 && list[len(list)-1].Get("role").Str == "assistant" {
			return claude("This model does not support assistant message prefill. The conversation must end with a user message.")
		}
		return nil
	}},
	{messagesAPI, "prefill ends with a word", "https://github.com/tailcallhq/forgecode/issues/1872", func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		list := q.Get("messages").Array()
		if len(list) == 0 || list[len(list)-1].Get("role").Str != "assistant" {
			return nil
		}
		for _, b := range list[len(list)-1].Get("content").Array() {
			if text := b.Get("text").Str; text != strings.TrimSpace(text) {
				return claude("messages: final assistant content cannot end with trailing whitespace")
			}
		}
		return nil
	}},
	{messagesAPI, "effort", "https://github.com/Oaklight/llm-rosetta/pull/289", func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		effort := q.Get("output_config.effort")
		switch {
		case !effort.Exists():
			return nil
		case !m.effort:
			return claude("This model does not support the effort parameter.")
		case !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, effort.Str):
			return claude("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
		}
		return nil
	}},
	{messagesAPI, "schemas have no bounds", "https://github.com/laravel/ai/issues/715", func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		if schema := q.Get("output_config.format.schema").Raw; strings.Contains(schema, `"minimum":`) {
			return claude("output_config.format.schema: For 'integer' type, property 'minimum' is not supported")
		}
		return nil
	}},
	{messagesAPI, "schemas name additionalProperties", "https://platform.claude.com/docs/en/build-with-claude/structured-outputs", func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		if schema := q.Get("output_config.format.schema"); schema.Exists() && open(schema) {
			return claude("output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false")
		}
		return nil
	}},
	{messagesAPI, "stop sequences", anthropicDocs, func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		for _, word := range q.Get("stop_sequences").Array() {
			if strings.TrimSpace(word.Str) == "" {
				return claude("stop_sequences: each stop sequence must contain non-whitespace")
			}
		}
		return nil
	}},
	{messagesAPI, "service tier", anthropicDocs, func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		if tier := q.Get("service_tier"); tier.Exists() && tier.Str != "auto" && tier.Str != "standard_only" {
			return claude("service_tier: Input should be 'auto' or 'standard_only'")
		}
		return nil
	}},
	{messagesAPI, "metadata", anthropicDocs, func(_ *upstream, _ *vendorModel, q gjson.Result) (f *refusal) {
		q.Get("metadata").ForEach(func(k, _ gjson.Result) bool {
			if k.Str != "user_id" {
				f = claude("metadata.%s: Extra inputs are not permitted", k.Str)
			}
			return f == nil
		})
		return f
	}},
	{messagesAPI, "tools", "https://github.com/apify/tester-mcp-client/issues/11", func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		for i, tool := range q.Get("tools").Array() {
			switch kind := tool.Get("type").Str; {
			case kind != "" && kind != "custom":
			case !toolName.MatchString(tool.Get("name").Str):
				return claude("tools.%d.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'", i)
			case !tool.Get("input_schema").Exists():
				return claude("tools.%d.custom.input_schema: Field required", i)
			case tool.Get("input_schema.type").Str != "object":
				return claude("tools.%d.custom.input_schema.type: Field required", i)
			}
		}
		return nil
	}},
	{messagesAPI, "tool_choice without tools", anthropicDocs, func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		if q.Get("tool_choice").Exists() && len(q.Get("tools").Array()) == 0 {
			return claude("tool_choice may only be specified while providing tools")
		}
		return nil
	}},
	{messagesAPI, "a message at least", "https://github.com/langchain-ai/langchain/issues/30764", func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		if len(q.Get("messages").Array()) == 0 {
			return claude("messages: at least one message is required")
		}
		return nil
	}},
	{messagesAPI, "blocks", "https://github.com/CommandCodeAI/command-code/issues/323", messagesBlocks},
	{messagesAPI, "results follow their calls", "https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use", messagesPairs},
	{messagesAPI, "thinking comes first", "https://github.com/anomalyco/opencode/issues/3077", func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		list := q.Get("messages").Array()
		i := lastAssistant(list)
		if i < 0 || list[len(list)-1].Get("role").Str == "user" && len(blocks(list[len(list)-1], "tool_result")) == 0 {
			return nil // the user has asked anew
		}
		first := list[i].Get("content.0.type").Str
		own := first == "thinking" || first == "redacted_thinking"
		switch {
		case isHaiku(m) && thinkingOn(q) && !own && len(blocks(list[i], "tool_use")) > 0:
			return claude("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, disable `thinking`. Please consult our documentation at %s", i, first, thinkingDocs) //nolint:misspell // as the vendor writes it
		case isHaiku(m) && !thinkingOn(q) && own:
			// https://github.com/tailcallhq/forgecode/issues/1853
			return claude("messages.%d.content.0: When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`. To use thinking blocks, enable `thinking` in your request.", i)
		}
		return nil
	}},
	{messagesAPI, "signatures", "https://github.com/anthropics/claude-code/issues/10627", func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		for i, message := range q.Get("messages").Array() {
			for k, b := range message.Get("content").Array() {
				switch signature := b.Get("signature"); {
				case b.Get("type").Str != "thinking":
				case !signature.Exists():
					return claude("messages.%d.content.%d.thinking.signature: Field required", i, k)
				case !signedBy(m, signature.Str):
					return claude("messages.%d.content.%d: Invalid `signature` in `thinking` block", i, k)
				}
			}
		}
		return nil
	}},
}

// messagesBlocks checks each block separately.
func messagesBlocks(_ *upstream, m *vendorModel, q gjson.Result) (f *refusal) {
	known := map[string]string{
		"text": "type text cache_control citations", "thinking": "type thinking signature", "redacted_thinking": "type data",
		"tool_use": "type id name input cache_control caller", "tool_result": "type tool_use_id content is_error cache_control",
		"image": "type source cache_control", "document": "type source title context citations cache_control",
	}
	list := q.Get("messages").Array()
	for i, message := range list {
		role, content := message.Get("role").Str, message.Get("content")
		// https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
		switch isSystem := role == "system"; {
		case isSystem && m.name != "claude-opus-5-5":
			return claude("messages: role 'system' is not supported on this model")
		case isSystem && (i == 0 || list[i-1].Get("role").Str != "user"):
			return claude("messages.%d: a system message must immediately follow a user turn", i)
		case isSystem && i+1 < len(list) && list[i+1].Get("role").Str != "assistant":
			return claude("messages.%d: a system message must precede an assistant turn or end the conversation", i)
		case isSystem:
		case role != "user" && role != "assistant":
			return claude("messages.%d.role: Input should be 'user' or 'assistant'", i)
		}
		if content.Type == gjson.String && content.Str == "" || content.IsArray() && len(content.Array()) == 0 {
			return claude("messages.%d: all messages must have non-empty content except for the optional final assistant message", i)
		}
		for k, b := range content.Array() {
			kind := b.Get("type").Str
			if content.Type == gjson.String {
				continue
			}
			names, ok := known[kind]
			if !ok {
				continue // tools of the vendor's own
			}
			at := fmt.Sprintf("messages.%d.content.%d.%s", i, k, kind)
			if f = knows(func(name string) *refusal { return claude("%s.%s: Extra inputs are not permitted", at, name) }, names)(nil, nil, b); f != nil {
				return f
			}
			media := b.Get("source.media_type").Str
			switch {
			case kind == "text" && strings.TrimSpace(b.Get("text").Str) == "":
				return claude("messages: text content blocks must contain non-whitespace text")
			case kind == "tool_use" && !claudeID.MatchString(b.Get("id").Str):
				return claude("%s.id: String should match pattern '^[a-zA-Z0-9_-]+$'", at)
			case kind == "tool_use" && !b.Get("input").IsObject():
				return claude("%s.input: Input should be a valid dictionary", at)
			case kind == "tool_result" && !claudeID.MatchString(b.Get("tool_use_id").Str):
				return claude("%s.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'", at)
			case kind == "image" && media != "" && !slices.Contains(imageTypes, media):
				return claude("%s.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'", at)
			}
		}
	}
	return nil
}

// messagesPairs checks for calls without results and results without calls.
func messagesPairs(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
	list := q.Get("messages").Array()
	for i, message := range list {
		var calls, results []string
		for _, b := range blocks(message, "tool_result") {
			id := b.Get("tool_use_id").Str
			if i == 0 || !slices.ContainsFunc(blocks(list[i-1], "tool_use"), func(b gjson.Result) bool { return b.Get("id").Str == id }) {
				return claude("messages.%d.content.0: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", i, id)
			}
		}
		for _, b := range blocks(message, "tool_use") {
			calls = append(calls, b.Get("id").Str)
		}
		if i+1 < len(list) {
			for _, b := range blocks(list[i+1], "tool_result") {
				results = append(results, b.Get("tool_use_id").Str)
			}
		}
		for _, id := range calls {
			if !slices.Contains(results, id) {
				return claude("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", i, id)
			}
		}
	}
	return nil
}

func lastAssistant(list []gjson.Result) int {
	for i, m := range slices.Backward(list) {
		if m.Get("role").Str == "assistant" {
			return i
		}
	}
	return -1
}

// open reports whether an object schema allows members that it does not name.
func open(schema gjson.Result) bool {
	return schema.Get("type").Str == "object" && schema.Get("additionalProperties").Raw != "false"
}

func isHaiku(m *vendorModel) bool { return strings.HasPrefix(m.name, "claude-haiku-4") }

func isDeepSeek(m *vendorModel) bool { return strings.HasPrefix(m.name, "deepseek") }

var chatRules = []rule{
	{chatAPI, "unknown member", "https://github.com/xlinx/sd-webui-decadetw-auto-prompt-llm/issues/29", knows(func(name string) *refusal {
		return gpt("", "", "Unrecognized request argument supplied: %s", name)
	}, "model messages audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens metadata modalities n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options thinking")},
	{chatAPI, "unknown member of a message", chatDocs, func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		names := "role content name refusal audio annotations tool_calls tool_call_id function_call"
		if isDeepSeek(m) {
			names += " prefix reasoning_content"
		}
		for i, message := range q.Get("messages").Array() {
			unknown := func(name string) *refusal {
				return gpt("", "", "Additional properties are not allowed ('%s' was unexpected) - 'messages.%d'", name, i)
			}
			if f := knows(unknown, names)(nil, nil, message); f != nil {
				return f
			}
			if len(message.Get("content.#.cache_control").Array()) > 0 {
				return unknown("content.cache_control")
			}
		}
		return nil
	}},
	{chatAPI, "max_tokens is limited", chatDocs, func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		n := max(q.Get("max_tokens").Int(), q.Get("max_completion_tokens").Int())
		switch {
		case n <= int64(m.maxTokens):
			return nil
		case isDeepSeek(m): // https://github.com/nickscamara/open-deep-research/issues/19
			return gpt("", "invalid_request_error", "Invalid max_tokens value, the valid range of max_tokens is [1, %d]", m.maxTokens)
		}
		return gpt("max_tokens", "invalid_value", "max_tokens is too large: %d. This model supports at most %d completion tokens, whereas you provided %d.", n, m.maxTokens, n)
	}},
	{chatAPI, "temperature is at most 2", chatDocs, func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		if t := q.Get("temperature"); t.Num > 2 {
			return gpt("temperature", "decimal_above_max_value", "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got %s instead.", t.Raw)
		}
		return nil
	}},
	{chatAPI, "four stop words", chatDocs, func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		most := 4
		if isDeepSeek(m) { // https://api-docs.deepseek.com/api/create-chat-completion
			most = 16
		}
		if n := len(q.Get("stop").Array()); n > most {
			return gpt("stop", "array_above_max_length", "Invalid 'stop': array too long. Expected an array with maximum length %d, but got an array with length %d instead.", most, n)
		}
		return nil
	}},
	{chatAPI, "reasoning_effort of models that do not reason", "https://github.com/coroot/coroot/issues/698", func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		if q.Get("reasoning_effort").Exists() && !m.effort {
			return gpt("", "", "Unrecognized request argument supplied: reasoning_effort")
		}
		return nil
	}},
	{chatAPI, "verbosity", "https://github.com/google-deepmind/concordia/issues/164", func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		if v := q.Get("verbosity"); v.Exists() && !m.effort {
			return gpt("verbosity", "unsupported_value", "Unsupported value: 'verbosity' does not support '%s' with this model. Supported values are: 'medium'.", v.Str)
		}
		return nil
	}},
	{chatAPI, "metadata", "https://github.com/tmc/langchaingo/issues/1484", func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		if q.Get("metadata").Exists() && !q.Get("store").Bool() && !isDeepSeek(m) {
			return gpt("metadata", "", "The 'metadata' parameter is only allowed when 'store' is enabled.")
		}
		return nil
	}},
	{chatAPI, "files", "https://github.com/trpc-group/trpc-agent-go/issues/1816", func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		for _, file := range q.Get("messages.#.content.#.file").Array() {
			for _, one := range file.Array() {
				if isDeepSeek(m) { // https://github.com/nextcloud/integration_openai/issues/284
					return gpt("", "invalid_request_error", "Failed to deserialize the JSON body into the target type: messages[1]: unknown variant `file`, expected `text`")
				}
				if data := one.Get("file_data"); data.Exists() && (!strings.HasPrefix(data.Str, "data:application/pdf;") || one.Get("filename").Str == "") {
					return gpt("messages", "invalid_value", "Invalid file data: 'file_data'. Expected a base64-encoded data URL with an application/pdf MIME type, and a filename")
				}
			}
		}
		return nil
	}},
	{responsesAPI, "files", "https://github.com/langchain-ai/langchainjs/pull/9887", func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		for _, list := range q.Get("input.#.content").Array() {
			for _, part := range list.Array() {
				if hasName := part.Get("filename").Exists(); part.Get("type").Str == "input_file" && hasName != part.Get("file_data").Exists() {
					return gpt("input", "", "Mutually exclusive parameters, or a missing one: filename goes with file_data and with nothing else")
				}
			}
		}
		return nil
	}},
	{chatAPI, "one choice", "https://api-docs.deepseek.com/api/create-chat-completion", func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		if isDeepSeek(m) && q.Get("n").Int() > 1 {
			return gpt("", "invalid_request_error", "Invalid n value (currently only n = 1 is supported)")
		}
		return nil
	}},
	{chatAPI, "service tier", chatDocs, func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		return tier(q)
	}},
	{chatAPI, "tools", "https://github.com/evalstate/fast-agent/issues/143", func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		return gptTools(q, "function.")
	}},
	{chatAPI, "strict schemas", "https://github.com/xemantic/xemantic-ai-tool-schema/issues/37", func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		return strictSchema(q.Get("response_format.json_schema"), "response_format")
	}},
	{chatAPI, "a message at least", chatDocs, func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		if len(q.Get("messages").Array()) == 0 {
			return gpt("messages", "empty_array", "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
		}
		return nil
	}},
	{chatAPI, "ids", "https://github.com/camel-ai/camel/issues/2215", func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		for i, message := range q.Get("messages").Array() {
			for k, c := range message.Get("tool_calls").Array() {
				if n := len(c.Get("id").Str); n > 40 {
					return gpt(fmt.Sprintf("messages[%d].tool_calls[%d].id", i, k), "string_above_max_length", "Invalid 'messages[%d].tool_calls[%d].id': string too long. Expected a string with maximum length 40, but got a string with length %d instead.", i, k, n)
				}
			}
		}
		return nil
	}},
	{chatAPI, "results follow their calls", "https://github.com/miurla/morphic/issues/136", chatPairs},
	{chatAPI, "reasoning_content of others", "https://github.com/CherryHQ/cherry-studio/issues/16790", func(u *upstream, m *vendorModel, q gjson.Result) *refusal {
		for i, message := range q.Get("messages").Array() {
			thought := message.Get("reasoning_content")
			switch {
			case message.Get("role").Str != "assistant":
			case !isDeepSeek(m) && thought.Exists():
				return &refusal{Param: "validation_error", Code: "wrong_api_format", Message: fmt.Sprintf("messages.%d.assistant.reasoning_content: property 'messages.%d.assistant.reasoning_content' is unsupported", i, i)}
			case isDeepSeek(m) && slices.ContainsFunc(vendorModels, func(o vendorModel) bool { return o.name != m.name && strings.HasPrefix(thought.Str, o.name+" ") }):
				// No vendor is known to check this: it is the gateway's own promise.
				return gpt("", "invalid_request_error", "The `reasoning_content` of message %d is another model's", i)
			case isDeepSeek(m) && !thought.Exists() && u.owner[message.Get("tool_calls.0.id").Str] == m.name:
				// https://github.com/deepseek-ai/DeepSeek-V3/issues/1053
				return gpt("", "invalid_request_error", "Missing `reasoning_content` field in the assistant message at message index %d. For more information, please refer to %s#tool-calls", i, deepseekDocs)
			}
		}
		return nil
	}},
	{chatAPI, "images", "https://platform.openai.com/docs/guides/images-vision", func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		for _, message := range q.Get("messages").Array() {
			for _, part := range message.Get("content").Array() {
				if f := gptImage(part.Get("image_url.url").Str); f != nil {
					return f
				}
			}
		}
		return nil
	}},
}

func chatPairs(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
	var waiting []string
	unanswered := func() *refusal {
		if len(waiting) == 0 {
			return nil
		}
		return gpt("messages", "", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(waiting, ", "))
	}
	for i, message := range q.Get("messages").Array() {
		if message.Get("role").Str == "tool" {
			at := slices.Index(waiting, message.Get("tool_call_id").Str)
			if at < 0 {
				return gpt(fmt.Sprintf("messages.[%d].role", i), "", "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.") //nolint:misspell // as the vendor writes it
			}
			waiting = slices.Delete(waiting, at, at+1)
			continue
		}
		if f := unanswered(); f != nil {
			return f
		}
		for _, c := range message.Get("tool_calls").Array() {
			waiting = append(waiting, c.Get("id").Str)
		}
	}
	return unanswered()
}

func tier(q gjson.Result) *refusal {
	if t := q.Get("service_tier"); t.Exists() && !slices.Contains([]string{"auto", "default", "flex", "scale", "priority"}, t.Str) {
		return gpt("service_tier", "invalid_value", "Invalid value: '%s'. Supported values are: 'auto', 'default', 'flex', and 'priority'.", t.Str)
	}
	return nil
}

// gptTools checks the tools, whose members are below inner.
func gptTools(q gjson.Result, inner string) *refusal {
	tools := q.Get("tools")
	if tools.Exists() && len(tools.Array()) == 0 {
		return gpt("tools", "empty_array", "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	for _, name := range []string{"tool_choice", "parallel_tool_calls"} {
		if q.Get(name).Exists() && q.Get(name).Str != "none" && q.Get(name).Str != "auto" && !tools.Exists() {
			return gpt(name, "", "Invalid value for '%s': '%s' is only allowed when 'tools' are specified.", name, name)
		}
	}
	for i, tool := range tools.Array() {
		if tool.Get("type").Str != "function" {
			continue
		}
		at := fmt.Sprintf("tools[%d].%s", i, inner)
		name, parameters := tool.Get(inner+"name").Str, tool.Get(inner+"parameters")
		switch {
		case len(name) > 64:
			return gpt(at+"name", "string_above_max_length", "Invalid '%sname': string too long. Expected a string with maximum length 64, but got a string with length %d instead.", at, len(name))
		case !toolName.MatchString(name):
			return gpt(at+"name", "invalid_value", "Invalid '%sname': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", at)
		case parameters.Exists() && parameters.Type != gjson.Null && !parameters.Get("properties").Exists():
			return gpt(at+"parameters", "invalid_function_parameters", "Invalid schema for function '%s': In context=(), object schema missing properties.", name)
		case tool.Get(inner+"strict").Bool() && open(parameters):
			return gpt(at+"parameters", "invalid_function_parameters", "Invalid schema for function '%s': In context=(), 'additionalProperties' is required to be supplied and to be false.", name)
		}
	}
	return nil
}

func strictSchema(format gjson.Result, what string) *refusal {
	if format.Get("strict").Bool() && open(format.Get("schema")) {
		return gpt(what, "", "Invalid schema for response_format '%s': In context=(), 'additionalProperties' is required to be supplied and to be false.", format.Get("name").Str)
	}
	return nil
}

func gptImage(url string) *refusal {
	if media, _, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,"); ok && !slices.Contains(imageTypes, media) {
		return gpt("", "invalid_image_format", "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].")
	}
	return nil
}

var responsesRules = []rule{
	{responsesAPI, "unknown member", responsesDocs, knows(func(name string) *refusal {
		return gpt(name, "unknown_parameter", "Unknown parameter: '%s'.", name)
	}, "model input background conversation include instructions max_output_tokens max_tool_calls metadata parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user client_metadata")},
	{responsesAPI, "max_output_tokens is at least 16", "https://github.com/vectorize-io/hindsight/issues/58", func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		switch n := q.Get("max_output_tokens"); {
		case n.Exists() && n.Int() < 16:
			return gpt("max_output_tokens", "integer_below_min_value", "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got %d instead.", n.Int())
		case n.Int() > int64(m.maxTokens):
			return gpt("max_output_tokens", "integer_above_max_value", "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= %d, but got %d instead.", m.maxTokens, n.Int())
		}
		return nil
	}},
	{responsesAPI, "sampling of models that reason", "https://platform.openai.com/docs/guides/latest-model", func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		for _, name := range []string{"temperature", "top_p"} {
			if q.Get(name).Exists() && !m.temperature {
				return gpt(name, "unsupported_parameter", "Unsupported parameter: '%s' is not supported with this model.", name)
			}
		}
		return nil
	}},
	{responsesAPI, "effort", "https://platform.openai.com/docs/guides/reasoning", func(_ *upstream, m *vendorModel, q gjson.Result) *refusal {
		if effort := q.Get("reasoning.effort"); effort.Exists() && !slices.Contains([]string{"minimal", "low", "medium", "high"}, effort.Str) {
			return gpt("reasoning.effort", "unsupported_value", "Unsupported value: '%s' is not supported with the '%s' model. Supported values are: 'minimal', 'low', 'medium', and 'high'.", effort.Str, m.name)
		}
		return nil
	}},
	{responsesAPI, "service tier", responsesDocs, func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		return tier(q)
	}},
	{responsesAPI, "tools", "https://github.com/kevinwatt/mysql-mcp/issues/5", func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		return gptTools(q, "")
	}},
	{responsesAPI, "strict schemas", "https://github.com/xemantic/xemantic-ai-tool-schema/issues/37", func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		return strictSchema(q.Get("text.format"), "text.format.schema")
	}},
	{responsesAPI, "items", "https://github.com/openai/codex/issues/33176", responsesItems},
	{responsesAPI, "results follow their calls", "https://github.com/james-6-23/codex2api/issues/414", func(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
		var calls, results []string
		for _, item := range q.Get("input").Array() {
			id := item.Get("call_id").Str
			switch item.Get("type").Str {
			case "function_call":
				calls = append(calls, id)
			case "function_call_output":
				if !slices.Contains(calls, id) {
					return gpt("input", "", "No tool call found for function call output with call_id %s.", id)
				}
				results = append(results, id)
			}
		}
		for _, id := range calls {
			if !slices.Contains(results, id) {
				return gpt("input", "", "No tool output found for function call %s.", id)
			}
		}
		return nil
	}},
	{responsesAPI, "reasoning items", "https://github.com/openai/codex/issues/8145", responsesThoughts},
}

// responsesItems checks each item separately.
func responsesItems(_ *upstream, _ *vendorModel, q gjson.Result) *refusal {
	prefix := map[string]string{"reasoning": "rs", "function_call": "fc", "message": "msg"}
	for i, item := range q.Get("input").Array() {
		kind, role := item.Get("type").Str, item.Get("role").Str
		if kind == "" && role != "" {
			kind = "message"
		}
		if id := item.Get("id"); id.Exists() && prefix[kind] != "" && !strings.HasPrefix(id.Str, prefix[kind]) {
			return gpt(fmt.Sprintf("input[%d].id", i), "invalid_id_prefix", "Invalid 'input[%d].id': '%s'. Expected an ID that begins with '%s'.", i, id.Str, prefix[kind])
		}
		if n := len(item.Get("call_id").Str); n > 64 { // https://github.com/AnswerDotAI/fastllm/issues/45
			return gpt(fmt.Sprintf("input[%d].call_id", i), "string_above_max_length", "Invalid 'input[%d].call_id': string too long. Expected a string with maximum length 64, but got a string with length %d instead.", i, n)
		}
		if role == "tool" || role == "function" {
			return gpt(fmt.Sprintf("input[%d]", i), "invalid_value", "Invalid value: '%s'. Supported values are: 'assistant', 'system', 'developer', and 'user'.", role)
		}
		for k, part := range item.Get("content").Array() {
			said := part.Get("type").Str
			if kind != "message" || said == "" {
				continue
			}
			if own := said == "output_text" || said == "refusal"; own != (role == "assistant") {
				supported := "'input_text', 'input_image', and 'input_file'"
				if role == "assistant" {
					supported = "'output_text' and 'refusal'"
				}
				return gpt(fmt.Sprintf("input[%d].content[%d]", i, k), "invalid_value", "Invalid value: '%s'. Supported values are: %s.", said, supported)
			}
			if f := gptImage(part.Get("image_url").Str); f != nil {
				return f
			}
		}
	}
	return nil
}

// responsesThoughts checks reasoning items and the items that must accompany them.
func responsesThoughts(u *upstream, m *vendorModel, q gjson.Result) *refusal {
	items := q.Get("input").Array()
	var seen []string
	for i, item := range items {
		id := item.Get("id").Str
		switch item.Get("type").Str {
		case "reasoning":
			seen = append(seen, id)
			sealed := item.Get("encrypted_content")
			switch {
			case u.stored[id] && sealed.Str == "":
			case !sealed.Exists() || sealed.Type == gjson.Null:
				return gpt("input", "", "Item with id '%s' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.", id)
			case !signedBy(m, sealed.Str):
				return gpt("", "invalid_encrypted_content", "The encrypted content %.4s... could not be verified.", sealed.Str)
			case i+1 == len(items) || items[i+1].Get("role").Str == "user" || items[i+1].Get("type").Str == "function_call_output":
				// https://github.com/continuedev/continue/issues/8933
				return gpt("input", "", "Item '%s' of type 'reasoning' was provided without its required following item.", id)
			}
		case "function_call":
			// https://github.com/continuedev/continue/issues/11994
			if thought := u.thought[id]; thought != "" && !slices.Contains(seen, thought) {
				return gpt("input", "", "Item '%s' of type 'function_call' was provided without its required 'reasoning' item: '%s'.", id, thought)
			}
		}
	}
	return nil
}
