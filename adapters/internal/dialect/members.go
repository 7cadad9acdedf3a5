package dialect

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// Unknown members of a message or a part are sent unchanged to models of the same API. They are kept in a
// [middleware.RawPart] before the part, whose only member has one of these names.
const (
	partMembers    = "members_of_part"
	messageMembers = "members_of_message"
	eventMembers   = "members_of_event" // of a stream's event, with its type
)

// memberSet is the set of an object's members that are recognized here.
type memberSet struct{ middleware.MemberSet }

func newKnown(list string) memberSet { return memberSet{middleware.NewMemberSet(list)} }

// unknownMembers returns the unknown members of a value, within their objects and lists, or nil. An element
// of a list that has an index is placed at that index.
func (k memberSet) unknownMembers(v gjson.Result) any {
	if v.IsArray() {
		return k.unknownElements(v)
	}
	var object Object
	v.ForEach(func(name, v gjson.Result) bool {
		var rest any
		switch inner, isKnown := k.MemberSet[name.Str]; {
		case v.Type == gjson.Null, v.Raw == "[]":
		case len(inner) > 0 && v.Type == gjson.JSON:
			rest = memberSet{inner}.unknownMembers(v)
		case !isKnown && k.MemberSet["*"] == nil:
			rest = json.RawMessage(v.Raw)
		}
		if rest != nil {
			setEntry(&object, name.Str, rest)
		}
		return true
	})
	if object == nil {
		return nil
	}
	return object
}

func (k memberSet) unknownElements(v gjson.Result) any {
	var list []any
	for i, element := range v.Array() {
		rest := k.unknownMembers(element)
		if rest == nil {
			continue
		}
		if index := element.Get("index"); index.Type == gjson.Number && index.Num >= 0 && index.Num < maxChoices {
			i = int(index.Num)
		}
		for len(list) <= i {
			list = append(list, nil)
		}
		list[i] = rest
	}
	if list == nil {
		return nil
	}
	return list
}

// members returns the unknown members of an object as JSON without braces, or nil.
func (k memberSet) members(object gjson.Result) []byte {
	rest, ok := k.unknownMembers(object).(Object)
	if !ok {
		return nil
	}
	return rest.inner()
}

// addUnknown adds the unknown members of an answer, or of one of its events, to the reply.
func (r *Reply) addUnknown(d middleware.Dialect, rest any) {
	if rest == nil {
		return
	}
	all := decode(rest)
	if r.Extra.Unknown.Raw != nil {
		all = merge(decode(r.Extra.Unknown.Raw), all)
	}
	r.Extra.Unknown = middleware.RawPart{Dialect: d, Raw: rawJSON(all)}
}

// withUnknown returns an answer with the unknown members of the model's answer, for a client of the same API.
func withUnknown(answer any, d middleware.Dialect, x *middleware.Extra) any {
	if x == nil || x.Unknown.Dialect != d || x.Unknown.Raw == nil {
		return answer
	}
	own, isWritten := decode(answer).(*orderedObject)
	rest, isObject := decode(x.Unknown.Raw).(*orderedObject)
	if !isWritten || !isObject {
		return answer
	}
	if usage := rest.get("usage"); usage != nil { // the model's counts replace zeros of the answer
		own.set("usage", merge(usage, own.get("usage")))
		rest.remove("usage")
	}
	return merge(own, rest)
}

// unknown returns a part with the unknown members of an object. It leaves out copies of a model's state, which
// have a tag.
func (f field) unknown(d middleware.Dialect, kind string, k memberSet) []llms.ContentPart {
	rest, _ := k.unknownMembers(f.value).(Object)
	for name, v := range rest {
		if name != "caller" && bytes.Contains(rawJSON(v), []byte(tagMark)) {
			delete(rest, name)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	p, _ := Open(d, newMembers(d, kind, rest.inner()).Raw)
	return []llms.ContentPart{p}
}

// keepUnknown keeps the unknown members of a parameter for models of the same API, and its type, in case
// nothing else of it is sent.
func (a *Request) keepUnknown(name string, f field, k memberSet) {
	inner := k.MemberSet[name]
	if inner == nil || !f.value.IsObject() || a.Params.Extra[name] != nil {
		return
	}
	if rest := (memberSet{inner}).members(f.value); rest != nil {
		if kind := f.get("type"); kind.exists() {
			rest = append(append(rest, `,"type":`...), kind.value.Raw...)
		}
		keepExtra(&a.Params, a.Params.Dialect, name, field{value: gjson.Parse("{" + string(rest) + "}")})
	}
}

// readTools reads a list of tools. Unknown members of functions are kept by the functions' names, for models
// of the same API.
func (a *Request) readTools(d middleware.Dialect, f field, k memberSet, read func(f field)) {
	unknown := map[string]json.RawMessage{}
	f.each(func(f field) {
		n := len(a.Tools)
		read(f)
		if len(a.Tools) == n {
			return
		}
		if rest := k.members(f.value); rest != nil {
			unknown[a.Tools[n].Function.Name] = json.RawMessage("{" + string(rest) + "}")
		}
	})
	if len(unknown) > 0 {
		keepExtra(&a.Params, d, "tools", field{value: gjson.ParseBytes(rawJSON(unknown))})
	}
}

// newMembers returns a part that holds members given in JSON without braces.
func newMembers(d middleware.Dialect, kind string, members []byte) middleware.RawPart {
	return middleware.RawPart{Dialect: d, Raw: json.RawMessage(`{"` + kind + `":{` + string(members) + `}}`)}
}

// membersIn returns the members that a part holds, as JSON without braces.
func membersIn(p middleware.RawPart, kind string) []byte {
	if p.Model != "" || len(p.Raw) < len(kind) || !strings.HasPrefix(string(p.Raw[2:]), kind) {
		return nil
	}
	members := gjson.GetBytes(p.Raw, kind).Raw
	if len(members) < 2 {
		return nil
	}
	return []byte(members[1 : len(members)-1])
}

// memberNames returns the names of the members of a message or part that p holds, or nil.
func memberNames(p middleware.RawPart) (names []string) {
	for _, kind := range []string{partMembers, messageMembers} {
		names = append(names, slices.Sorted(maps.Keys(gjson.GetBytes(p.Raw, kind).Map()))...)
	}
	return names
}

func withMembers(object json.RawMessage, members []byte) json.RawMessage {
	if len(members) == 0 {
		return object
	}
	return slices.Concat(object[:len(object)-1], []byte(","), members, []byte("}"))
}

// memberWriter keeps members until the part or message to which they belong is written.
type memberWriter struct{ part, message gjson.Result }

// take keeps the members of a part, and reports whether it has any.
func (w *memberWriter) take(p middleware.RawPart) bool {
	for kind, to := range map[string]*gjson.Result{partMembers: &w.part, messageMembers: &w.message} {
		if members := gjson.GetBytes(p.Raw, kind); members.IsObject() {
			*to = members
			return true
		}
	}
	return false
}

func (w *memberWriter) addTo(o Object) Object {
	o.addMembers(w.part)
	w.part = gjson.Result{}
	return o
}

func (w *memberWriter) addToMessage(o Object) Object {
	o.addMembers(w.message)
	w.message = gjson.Result{}
	return o
}

// addMembers sets the members that the object lacks.
func (o Object) addMembers(members gjson.Result) {
	members.ForEach(func(name, v gjson.Result) bool {
		switch own := o[name.Str].(type) {
		case nil:
			o[name.Str] = json.RawMessage(v.Raw)
		case Object:
			own.addMembers(v)
		}
		return true
	})
}
