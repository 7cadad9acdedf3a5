package middleware

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// MemberSet is a set of known members of a JSON object, including those of nested objects and of lists
// of objects. The member * matches any name.
type MemberSet map[string]MemberSet

// NewMemberSet parses a space-separated list of members, in which a.b is the member b of a.
func NewMemberSet(list string) MemberSet {
	root := MemberSet{}
	for path := range strings.FieldsSeq(list) {
		at := root
		for name := range strings.SplitSeq(path, ".") {
			if at[name] == nil {
				at[name] = MemberSet{}
			}
			at = at[name]
		}
	}
	return root
}

// What a call under a cap can contain although [Params] has no field for it: members of requests and of
// tools in an API's own form, and types of such tools. Each costs nothing beyond its length, or is covered
// by the reservation, through [call.tariff] and [call.hostedCalls]. Anything else, in any spelling, may
// cost more than is reserved.
var (
	countedMembers = map[Dialect]MemberSet{
		DialectChat: NewMemberSet("cache_control.ttl cache_control.type chat_template_kwargs guided_choice guided_grammar guided_json guided_regex ignore_eos include_reasoning " +
			"include_stop_str_in_output min_p min_tokens prompt_cache_retention prompt_mode random_seed reasoning.effort reasoning.enabled reasoning.exclude reasoning.summary " +
			"reasoning_format repeat_penalty repetition_penalty response_format safe_prompt service_tier skip_special_tokens stop_token_ids stream_options structured_outputs " +
			"thinking.display thinking.type tool_choice tools.*.cache_control top_a top_k typical_p web_search_options"),
		DialectResponses: NewMemberSet("client_metadata context_management include max_tool_calls prompt_cache_retention reasoning.context reasoning.generate_summary service_tier " +
			"stream_options text tool_choice tools.*.defer_loading tools.*.strict truncation"),
		DialectAnthropic: NewMemberSet("anthropic_beta cache_control.ttl cache_control.type container context_management inference_geo mcp_servers metadata output_config.effort " +
			"output_config.format output_config.task_budget output_format service_tier speed thinking.budget_tokens thinking.display thinking.type tool_choice tools.*.allowed_callers " +
			"tools.*.cache_control tools.*.defer_loading tools.*.eager_input_streaming tools.*.input_examples"),
		DialectGemini: NewMemberSet("cachedContent generationConfig.mediaResolution generationConfig.responseJsonSchema generationConfig.responseMimeType " +
			"generationConfig.responseSchema generationConfig.stopSequences generationConfig.thinkingConfig labels safetySettings serviceTier systemInstruction toolConfig"),
		DialectOllama: NewMemberSet("format keep_alive options.min_p options.mirostat options.mirostat_eta options.mirostat_tau options.num_batch options.num_ctx options.num_gpu " +
			"options.num_keep options.num_thread options.repeat_last_n options.stop options.tfs_z options.typical_p options.use_mmap think"),
	}
	countedTools = NewMemberSet("allowed_callers allowed_domains allowed_tools authorization blocked_domains cache_control citations configs connector_id container.file_ids " +
		"container.type custom default_config defer_loading description display_height display_height_px display_number display_width display_width_px enable_zoom " +
		"environment.container_id environment.file_ids environment.network_policy environment.skills environment.type execution external_web_access filters format headers input_examples " +
		"max_characters max_content_tokens max_num_results max_uses mcp_server_name name parameters ranking_options require_approval response_inclusion search_content_types " +
		"search_context_size server_description server_label server_url strict tools type use_cache user_location vector_store_ids " +
		"codeExecution computerUse enterpriseWebSearch fileSearch functionDeclarations googleMaps googleSearch googleSearchRetrieval urlContext")
	// countedNestedTools is countedTools for nested tools, which cannot nest further tools.
	countedNestedTools = func() MemberSet {
		known := maps.Clone(countedTools)
		delete(known, "tools")
		return known
	}()
	// clientTools are the types of tools that the caller runs, hostedTools those that the provider runs and whose
	// uses are reserved. Versions are left out.
	clientTools = []string{"apply_patch", "bash", "computer", "computerUse", "custom", "function", "functionDeclarations", "local_shell", "memory", "namespace", "text_editor"}
	hostedTools = []string{"codeExecution", "code_execution", "code_interpreter", "enterpriseWebSearch", "file_search", "fileSearch", "googleMaps", "googleSearch", "googleSearchRetrieval", "mcp",
		"shell", "tool_search", "urlContext", "web_fetch", "web_search"}
)

// matchesType reports whether a tool's type is in the list, in any version.
func matchesType(list []string, kind string) bool {
	return slices.ContainsFunc(list, func(one string) bool { return kind == one || strings.HasPrefix(kind, one+"_") })
}

// isPriced reports whether the value's effect on a model's prices is known.
func isPriced(prices map[string]float64, value string) bool {
	_, ok := prices[strings.ToLower(value)]
	return ok
}

// dropUncounted removes from the request everything that may cost more than is reserved for a call, and
// returns the names of what it removed.
func (c *call) dropUncounted() (unsent []string) {
	p := &c.params
	extra := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(p.Extra)) {
		prices, ok := countedValues[name]
		if ok && !isPriced(prices, jsonText(p.Extra[name])) || name == "context_management" && !areCountedEdits(p.Extra[name]) {
			unsent = append(unsent, name)
			continue
		}
		countedMembers[p.Dialect].keep(extra, name, "", p.Extra[name], &unsent)
	}
	if !isPriced(serviceTiers, p.ServiceTier) {
		p.ServiceTier, unsent = "", append(unsent, "service_tier")
	}
	p.Extra, p.RawTools = extra, keepTools(p.RawTools, countedTools, &unsent)
	c.messages = replaceParts(c.messages, func(part llms.ContentPart) (llms.ContentPart, bool) { return withCountedTools(part, &unsent) })
	return unsent
}

// withCountedTools returns a message part with only the tools of known cost, and whether it has any tools.
func withCountedTools(part llms.ContentPart, unsent *[]string) (llms.ContentPart, bool) {
	raw, ok := unwrap(part).(RawPart)
	if !ok || raw.Model != "" { // the provider's own state
		return part, false
	}
	tools, ok := nestedTools(raw.Raw)
	if !ok {
		return part, false
	}
	raw.Raw = withTools(raw.Raw, keepTools(tools, countedTools, unsent))
	if cached, isCached := part.(llms.CachedContent); isCached {
		cached.ContentPart = raw
		return cached, true
	}
	return raw, true
}

// keepTools returns the tools whose cost is known, each with only its known members.
func keepTools(raws []json.RawMessage, known MemberSet, unsent *[]string) (tools []json.RawMessage) {
	for _, raw := range raws {
		kind := rawToolType(raw)
		if !matchesType(clientTools, kind) && !matchesType(hostedTools, kind) {
			*unsent = append(*unsent, "tool "+kind)
			continue
		}
		object := map[string]json.RawMessage{}
		MemberSet{kind: known}.keep(object, kind, "tool ", raw, unsent)
		tool := object[kind]
		if within, ok := nestedTools(tool); ok {
			tool = withTools(tool, keepTools(within, countedNestedTools, unsent))
		}
		tools = append(tools, tool)
	}
	return tools
}

// nestedTools returns the tools nested in another tool or in a message part: those of a namespace, or found
// by a tool search. The list of an MCP server is ignored, because its tools have no types.
func nestedTools(raw json.RawMessage) (tools []json.RawMessage, ok bool) {
	if !bytes.Contains(bytes.ToLower(raw), []byte("tools")) && bytes.IndexByte(raw, '\\') < 0 {
		return nil, false
	}
	var own map[string]json.RawMessage
	_ = json.Unmarshal(raw, &own) // a value that is not an object has no tools
	if jsonText(own["type"]) == "mcp_list_tools" {
		return nil, false
	}
	for name, list := range own {
		if strings.EqualFold(name, "tools") {
			ok = true
			_ = json.Unmarshal(list, &tools) // a value that is not a list has no tools
		}
	}
	return tools, ok
}

func withTools(raw json.RawMessage, tools []json.RawMessage) json.RawMessage {
	var own map[string]json.RawMessage
	_ = json.Unmarshal(raw, &own) // it was parsed before
	maps.DeleteFunc(own, func(name string, _ json.RawMessage) bool { return strings.EqualFold(name, "tools") })
	own["tools"], _ = json.Marshal(append([]json.RawMessage{}, tools...)) // it was JSON
	raw, _ = json.Marshal(own)
	return raw
}

// countedEdits are the types, without versions, of a provider's edits of the context within a call:
// dropping parts of it costs nothing, and compaction is covered by the reservation.
var countedEdits = []string{"clear_thinking", "clear_tool_uses", "compact", "compaction"}

func areCountedEdits(raw json.RawMessage) bool {
	type edit struct{ Type string }
	var edits []edit
	var object map[string][]edit
	if json.Unmarshal(raw, &object) == nil {
		for _, list := range object {
			edits = append(edits, list...)
		}
	} else if json.Unmarshal(raw, &edits) != nil {
		return false
	}
	return !slices.ContainsFunc(edits, func(e edit) bool { return !matchesType(countedEdits, strings.ToLower(e.Type)) })
}

// keep copies the known part of a member to an object, and adds the paths of the rest to unsent.
func (k MemberSet) keep(to map[string]json.RawMessage, name, path string, raw json.RawMessage, unsent *[]string) {
	inner, isKnown := k[name]
	if !isKnown {
		inner, isKnown = k["*"]
	}
	path += name
	var own map[string]json.RawMessage
	switch {
	case !isKnown:
		*unsent = append(*unsent, path)
	case len(inner) == 0:
		to[name] = raw
	case json.Unmarshal(raw, &own) == nil && own != nil:
		kept := map[string]json.RawMessage{}
		for _, member := range slices.Sorted(maps.Keys(own)) {
			inner.keep(kept, member, path+".", own[member], unsent)
		}
		if len(kept) > 0 || len(own) == 0 {
			to[name], _ = json.Marshal(kept) // it was JSON
		}
	case bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")):
		*unsent = append(*unsent, path)
	default: // a single value, for example a flag that turns something off
		to[name] = raw
	}
}
