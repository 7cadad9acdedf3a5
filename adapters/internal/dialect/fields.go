package dialect

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/stepfall/stepfall/middleware"
)

// paramFields are the members (or dotted paths) of an API's requests that each correspond to one field of
// [middleware.Params]. They are read and written by this table.
type paramFields []paramField

type paramField struct {
	member string
	index  int // of the field in Params
}

func (f *paramField) name() string { return reflect.TypeFor[middleware.Params]().Field(f.index).Name }

// newParamFields returns the fields for pairs of a member and a field name.
func newParamFields(pairs ...string) (list paramFields) {
	for pair := range slices.Chunk(pairs, 2) {
		f, ok := reflect.TypeFor[middleware.Params]().FieldByName(pair[1])
		if !ok {
			panic("dialect: Params has no field " + pair[1])
		}
		list = append(list, paramField{pair[0], f.Index[0]})
	}
	return list
}

// commonFields are the fields of both of OpenAI's APIs.
var commonFields = newParamFields(
	"temperature", "Temperature", "top_p", "TopP", "parallel_tool_calls", "ParallelToolCalls", "user", "User", "service_tier", "ServiceTier",
	"safety_identifier", "SafetyIdentifier", "prompt_cache_key", "PromptCacheKey", "store", "Store", "metadata", "Metadata", "top_logprobs", "TopLogProbs",
)

// read sets the fields that correspond to a member or its inner members, and reports whether there are any.
func (list paramFields) read(p *middleware.Params, member string, f field) (isKnown bool) {
	for i := range list {
		name, path, isNested := strings.Cut(list[i].member, ".")
		if name != member {
			continue
		}
		isKnown = true
		if !isNested {
			list.set(p, i, f)
		} else if inner := f.of(path); inner.exists() {
			list.set(p, i, inner)
		}
	}
	return isKnown
}

func (list paramFields) set(p *middleware.Params, i int, f field) {
	switch to := reflect.ValueOf(p).Elem().Field(list[i].index).Addr().Interface().(type) {
	case **float64:
		*to = f.number()
	case **int:
		if to == &p.Seed || to == &p.TopLogProbs {
			*to = f.integer()
		} else {
			*to = f.positive()
		}
	case **bool:
		*to = new(f.truth())
	case *string:
		*to = f.text()
	case *json.RawMessage:
		*to = f.raw()
	case *map[string]string:
		labels := map[string]string{}
		f.members(func(name string, f field) { labels[name] = f.text() })
		*to = labels
	case *map[string]float64:
		weights := map[string]float64{}
		f.members(func(name string, f field) {
			if n := f.number(); n != nil {
				weights[name] = *n
			}
		})
		*to = weights
	}
}

func (list paramFields) names() string {
	var b strings.Builder
	for _, f := range list {
		if strings.Contains(f.member, ".") {
			b.WriteString(" " + f.member)
		}
	}
	return b.String()
}

func (list paramFields) write(b Object, p *middleware.Params) {
	for i := range list {
		v := reflect.ValueOf(p).Elem().Field(list[i].index)
		switch {
		case v.IsZero(), v.Kind() != reflect.Pointer && v.Len() == 0:
		case v.Kind() == reflect.Pointer:
			b.setPath(list[i].member, v.Elem().Interface())
		default:
			b.setPath(list[i].member, v.Interface())
		}
	}
}

// apiFields are the request members of APIs that clients use, or whose providers learn what a server does not
// support.
var apiFields = map[middleware.Dialect]paramFields{
	middleware.DialectChat: samplerFields, middleware.DialectResponses: responsesFields, middleware.DialectAnthropic: messagesFields,
}

// otherMembers are the request members that correspond to more than a single field of [middleware.Params].
var otherMembers = map[middleware.Dialect]map[string]string{
	middleware.DialectChat:      {"MaxTokens": "max_completion_tokens", "Schema": "response_format", "JSONMode": "response_format", "StopWords": "stop", "ToolChoice": "tool_choice", "Thinking": "reasoning_effort"},
	middleware.DialectResponses: {"Schema": "text.format", "JSONMode": "text.format", "LogProbs": "include", "ToolChoice": "tool_choice", "Thinking": "reasoning.effort"},
	middleware.DialectAnthropic: {"Schema": "output_config.format", "StopWords": "stop_sequences", "ParallelToolCalls": "tool_choice.disable_parallel_tool_use", "ToolChoice": "tool_choice", "Thinking": "thinking"},
}

// SpellNotSent returns the names of what was not sent as a client of the API would write them, as a header
// value that all clients can read.
func SpellNotSent(d middleware.Dialect, names []string) string {
	const most = 2048 // of the 8 kB that some clients accept for all headers
	var text string
	spelled := map[string]bool{}
	for _, name := range distinct(names) {
		word, more, _ := strings.Cut(name, " ")
		member := otherMembers[d][word]
		for _, f := range apiFields[d] {
			if f.name() == word {
				member = f.member
			}
		}
		if member != "" {
			name = strings.TrimSpace(member + " " + more)
		}
		name = strings.Trim(strconv.QuoteToASCII(name), `"`)
		if spelled[name] {
			continue
		}
		if spelled[name] = true; text != "" {
			text += ", "
		}
		if text += name; len(text) > most {
			return text[:most] + " ..."
		}
	}
	return text
}

// NameNotSent returns names for request members that were not sent: the corresponding fields of
// [middleware.Params], where there are any.
func NameNotSent(d middleware.Dialect, members []string) (names []string) {
	for _, name := range members {
		for field, member := range otherMembers[d] {
			if member == name && field != "Thinking" && field != "JSONMode" {
				name = field
			}
		}
		for _, f := range apiFields[d] {
			if f.member == name {
				name = f.name()
			}
		}
		names = append(names, name)
	}
	return names
}

// foreignNames names what a field contains for another API: request members, or types of tools. It leaves out
// what the gateway provides for every model.
func foreignNames(p *middleware.Params, field string, d middleware.Dialect) (names []string) {
	sentOfTools := knownOfStrict
	if d == middleware.DialectAnthropic {
		sentOfTools = knownOfToolMark
	}
	if field == "Extra" {
		for _, name := range slices.Sorted(maps.Keys(p.Extra)) {
			switch v := gjson.ParseBytes(p.Extra[name]); {
			case name == "include" && includesOnlyOwn(p.Extra[name]):
			case name == "thinking" && (p.ReasoningTokens != nil || p.ReasoningEffort != "" && disablesThinking(p)): // which corresponds to it
			case name == "output_format": // which is the answer's schema
			case name == cacheMark && d == middleware.DialectAnthropic && v.IsObject():
			case name == "tool_choice" && v.Get("type").Str == "allowed_tools": // only the allowed tools are offered, see Limits.fitTools
			case name == "tools" && v.IsObject(): // unknown members of functions, by function name
				for _, members := range v.Map() {
					rest, _ := sentOfTools.unknownMembers(members).(Object)
					for member := range rest {
						names = append(names, "tools."+member)
					}
				}
			default:
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	for _, raw := range p.RawTools {
		names = append(names, "tool "+gjson.GetBytes(raw, "type").Str)
	}
	return names
}

// missing names the fields that are set but not sent, because the API has no member for them. Those among words
// are left out, because the caller sends them in another way.
func (list paramFields) missing(p *middleware.Params, d middleware.Dialect, words ...string) (names []string) {
	v := reflect.ValueOf(p).Elem()
	for i := range v.NumField() {
		if v.Field(i).IsZero() || slices.ContainsFunc(list, func(f paramField) bool { return f.index == i }) {
			continue
		}
		switch name := v.Type().Field(i).Name; name {
		case "OnDelta", "Dialect":
		case "Extra", "RawTools":
			if p.Dialect != d {
				names = append(names, foreignNames(p, name, d)...)
			}
		default:
			if !slices.Contains(words, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
