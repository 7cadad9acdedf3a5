package dialect

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/stepfall/stepfall/middleware"
)

// What a message or a part of one has beyond what is known here goes to models of the
// same API as it is: in a [middleware.RawPart] before the part, whose only member is one of
// these.
const (
	partMembers    = "members_of_part"
	messageMembers = "members_of_message"
)

// unknown returns the part for what an object has beyond the members that are known: a list
// with spaces, in which a.b is the member b of a. ok is false where there is nothing.
func (f field) unknown(d middleware.Dialect, kind, known string) (p middleware.RawPart, ok bool) {
	rest := appendUnknown(nil, f.value, known)
	if rest == nil {
		return p, false
	}
	return newMembers(d, kind, rest), true
}

// appendUnknown appends the members that are not known, as JSON has them between braces.
func appendUnknown(buf []byte, object gjson.Result, known string) []byte {
	object.ForEach(func(name, v gjson.Result) bool {
		value, isKnown := []byte(nil), isListed(known, name.Str)
		if inner := membersOf(known, name.Str); inner != "" {
			isKnown = true
			if v.IsObject() {
				value = appendUnknown(nil, v, inner)
			}
		}
		switch {
		case v.Type == gjson.Null, v.Raw == "[]", isKnown && value == nil:
			return true
		case isKnown:
			value = append(append([]byte("{"), value...), '}')
		default:
			value = []byte(v.Raw)
		}
		if buf != nil {
			buf = append(buf, ',')
		}
		buf = append(append(appendString(buf, name.Str), ':'), value...)
		return true
	})
	return buf
}

// membersOf returns those of a list of known members that are inside a member.
func membersOf(known, name string) (inside string) {
	for known != "" {
		var k string
		k, known, _ = strings.Cut(known, " ")
		if head, inner, ok := strings.Cut(k, "."); ok && head == name {
			inside += inner + " "
		}
	}
	return inside
}

// newMembers returns the part for members as JSON has them between braces.
func newMembers(d middleware.Dialect, kind string, members []byte) middleware.RawPart {
	return middleware.RawPart{Dialect: d, Raw: json.RawMessage(`{"` + kind + `":{` + string(members) + `}}`)}
}

// membersIn returns the members that a part holds, as JSON has them between braces.
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

// withMembers returns an object with members at its end.
func withMembers(object json.RawMessage, members []byte) json.RawMessage {
	if len(members) == 0 {
		return object
	}
	return slices.Concat(object[:len(object)-1], []byte(","), members, []byte("}"))
}

// isListed reports whether a word is in a list with spaces.
func isListed(list, word string) bool {
	for list != "" {
		var known string
		if known, list, _ = strings.Cut(list, " "); known == word {
			return true
		}
	}
	return false
}

// memberWriter puts members where they belong while a message is written.
type memberWriter struct{ part, message gjson.Result }

// take reports whether a part is members, which it keeps then.
func (w *memberWriter) take(p middleware.RawPart) bool {
	for kind, to := range map[string]*gjson.Result{partMembers: &w.part, messageMembers: &w.message} {
		if members := gjson.GetBytes(p.Raw, kind); members.IsObject() {
			*to = members
			return true
		}
	}
	return false
}

// addTo gives a part what came before it for it.
func (w *memberWriter) addTo(o Object) Object {
	o.addMembers(w.part)
	w.part = gjson.Result{}
	return o
}

// addToMessage gives a message its members.
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
