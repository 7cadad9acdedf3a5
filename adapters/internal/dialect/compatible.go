package dialect

import (
	"regexp"
	"strings"
)

// compatible sets the limits of a server that is like OpenAI's: of the vendors that are known by
// their host, and of those that serve models of others.
func (l *Limits) compatible(host, model string) {
	// "Possible values: [function]", of the types of tools and of what chooses them; https://api-docs.deepseek.com/api/create-chat-completion
	l.NoCustomTools = true
	switch {
	case isHost(host, "api.deepseek.com"):
		l.deepSeek(model)
	case isHost(host, "api.mistral.ai"):
		l.mistral()
	case isHost(host, "api.x.ai"):
		l.xAI(model)
	case isHost(host, "api.groq.com"):
		l.groq(model)
	default:
		// "System message must be at the beginning.", of the templates of many open models;
		// https://github.com/vllm-project/vllm/issues/41114
		l.OneSystem, l.SystemFirst, l.NoCustomTools = true, true, false // what is behind it may be OpenAI
	}
}

func (l *Limits) deepSeek(model string) {
	// https://api-docs.deepseek.com/api/create-chat-completion
	l.Choices, l.StopWords, l.Lacks = 1, 16, []string{"TopK", "RepetitionPenalty"}
	// "A max of 128 functions are supported.", the same page
	l.Tools, l.ToolName, l.ToolSigns = 128, 64, "-_"
	// "Missing `reasoning_content` field in the assistant message"; clients that keep
	// none send it empty: https://github.com/continuedev/continue/issues/11285, with answers in text, too:
	// https://github.com/NousResearch/hermes-agent/issues/16021
	l.Thoughts = true
	// "unknown variant `image_url`, expected `text`"; https://github.com/nextcloud/integration_openai/issues/284
	l.Files, l.Images, l.NoImageURL = []string{}, []string{}, true
	l.MessageMembers = strings.Fields("role content name prefix reasoning_content tool_calls tool_call_id")
	// "deepseek-reasoner does not support this tool_choice", "Thinking mode does not support this tool_choice", which all but
	// deepseek-chat begin with; https://github.com/deepseek-ai/DeepSeek-R1/issues/836, https://github.com/deepseek-ai/DeepSeek-V3/issues/1376
	l.NoForcedTool = !strings.Contains(model, "deepseek-chat")
	// "This response_format type is unavailable now", of json_schema; https://api-docs.deepseek.com/guides/json_mode
	l.SchemaInWords = true
	l.NoBlank = true
}

func (l *Limits) mistral() {
	// "Tool call id was toolu_1 but must be a-z, A-Z, 0-9, with a length of 9";
	// https://github.com/langchain-ai/langchain/issues/24668
	l.CallID, l.ExactID, l.UniqueCalls = 9, true, true
	// "Extra inputs are not permitted"; https://docs.mistral.ai/api/endpoint/chat
	l.Members = strings.Fields("model messages temperature top_p max_tokens stream stop random_seed metadata response_format tools tool_choice presence_penalty " +
		"frequency_penalty n prediction parallel_tool_calls prompt_mode safe_prompt reasoning_effort guardrails")
	l.Renamed = map[string]string{"seed": "random_seed"}
	l.MessageMembers = strings.Fields("role content tool_calls prefix tool_call_id")
	l.Temperature = 1.5
	// Of efforts there are two; https://docs.mistral.ai/capabilities/reasoning
	l.Effort = map[string]string{"minimal": "none", "low": "none", "medium": "high", "xhigh": "high", "max": "high"}
	// "Function name ... must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of 64";
	// https://docs.mistral.ai/capabilities/function_calling
	l.ToolName, l.ToolSigns = 64, "-_"
	// Documents go by their address, in a form of its own; https://docs.mistral.ai/capabilities/document_ai/document_qna
	l.Files = []string{}
	// "Unexpected role 'user' after role 'tool'"; https://github.com/avante-corp/avante.nvim/pull/2695. "Expected last role User or
	// Tool (or Assistant with prefix True)"; https://github.com/0xPlaygrounds/rig/pull/1130
	l.AnswerAfterResults, l.SystemFirst, l.UserFirst, l.Prefix = true, true, true, true
	// https://docs.mistral.ai/capabilities/vision
	l.Images = []string{"image/png", "image/jpeg", "image/webp", "image/gif"}
	// "Assistant message must have either content or tool_calls"; https://github.com/mistralai/mistral-common/pull/135
	l.NoBlank = true
}

func (l *Limits) xAI(model string) {
	// "Each message must have at least one content element"; https://github.com/AstrBotDevs/AstrBot/issues/6447
	l.NoBlank = true
	// "jpg/jpeg or png"; https://docs.x.ai/docs/guides/image-understanding
	l.Files, l.Images = []string{}, []string{"image/png", "image/jpeg"}
	// "A max of 128 functions are supported."; https://docs.x.ai/docs/api-reference#chat-completions
	l.Tools = 128
	// https://github.com/NousResearch/hermes-agent/pull/23435, https://github.com/mnfst/modelparams.dev/pull/330
	switch {
	case !takesGrokEffort.MatchString(model):
		l.Lacks = []string{"ReasoningEffort"}
	case strings.HasPrefix(model, "grok-3-mini"):
		l.Effort = map[string]string{"none": "low", "minimal": "low", "medium": "high", "xhigh": "high", "max": "high"}
	case strings.Contains(model, "multi-agent"), strings.HasPrefix(model, "grok-4.6"):
		l.Effort = map[string]string{"none": "low", "minimal": "low", "max": "xhigh"}
	case strings.HasPrefix(model, "grok-4.3"):
		l.Effort = map[string]string{"minimal": "low", "xhigh": "high", "max": "high"}
	default:
		l.Effort = map[string]string{"none": "low", "minimal": "low", "xhigh": "high", "max": "high"}
	}
	if !isUnthinkingGrok.MatchString(model) {
		// "Model grok-4 does not support parameter stop", nor penalties; https://github.com/BerriAI/litellm/issues/16265
		l.StopWords, l.Lacks = -1, append(l.Lacks, "PresencePenalty", "FrequencyPenalty")
	}
}

var (
	takesGrokEffort  = regexp.MustCompile(`^grok-(3-mini|4\.[356]|4\.20-multi-agent|[5-9])`)
	isUnthinkingGrok = regexp.MustCompile(`^grok-(2|3($|-fast|-latest|-beta))|non-reasoning`)
)

func (l *Limits) groq(model string) {
	// "property 'verbosity' is unsupported", "'n' : number must be at most 1"; https://console.groq.com/docs/api-reference#chat-create
	l.Members = strings.Fields("messages model citation_options compound_custom disable_tool_validation documents exclude_domains frequency_penalty function_call functions " +
		"include_domains include_reasoning max_completion_tokens max_tokens metadata n parallel_tool_calls presence_penalty reasoning_effort reasoning_format " +
		"response_format search_settings seed service_tier stop store stream stream_options temperature tool_choice tools top_p user")
	// "a 400 error (yikes) if they are supplied: ... messages[].name"; https://console.groq.com/docs/openai
	l.MessageMembers = strings.Fields("role content tool_calls tool_call_id reasoning function_call")
	// "a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of 64", "a max of 128 functions";
	// https://console.groq.com/docs/api-reference#chat-create
	l.Choices, l.StopWords, l.Tools, l.ToolName, l.ToolSigns = 1, 4, 128, 64, "-_"
	l.Files, l.Images = []string{}, []string{"image/png", "image/jpeg", "image/webp", "image/gif"}
	l.Tier = map[string]string{"default": "on_demand", "standard_only": "on_demand", "priority": "", "scale": ""}
	// "`reasoning_effort` is not supported with this model", and its values by model; https://console.groq.com/docs/reasoning
	switch {
	case strings.Contains(model, "gpt-oss"):
		l.Effort = map[string]string{"none": "low", "minimal": "low", "xhigh": "high", "max": "high"}
	case strings.Contains(model, "qwen"):
		l.Effort = map[string]string{"minimal": "default", "low": "default", "medium": "default", "high": "default", "xhigh": "default", "max": "default"}
	default:
		l.Lacks = []string{"ReasoningEffort"}
	}
}
