package dialect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// JSON encodes the object. Unpaired surrogates, which a client may have sent, are replaced:
// "no low surrogate in string"; https://github.com/anthropics/claude-code/issues/60394.
func (o Object) JSON() ([]byte, error) {
	raw, err := appendJSON(make([]byte, 0, 512), o)
	if err != nil || !hasHalfPair(raw) {
		return raw, err
	}
	return appendJSON(nil, decode(json.RawMessage(raw)))
}

// appendJSON appends the JSON of a value, with the members of objects sorted by name.
func appendJSON(buf []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case Object:
		return v.appendJSON(buf)
	case *orderedObject:
		return v.appendJSON(buf)
	case []any:
		return appendList(buf, v)
	case []Object:
		return appendList(buf, v)
	case string:
		if !strings.ContainsAny(v, "<>&") { // appendString would escape these needlessly
			return appendString(buf, v), nil
		}
	case bool:
		return strconv.AppendBool(buf, v), nil
	case int:
		return strconv.AppendInt(buf, int64(v), 10), nil
	case json.RawMessage:
		if gjson.ValidBytes(v) && !bytes.ContainsAny(v, "\r\n") {
			return append(buf, v...), nil
		}
	}
	b := bytes.NewBuffer(buf)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func (o Object) appendJSON(buf []byte) ([]byte, error) {
	if o == nil {
		return append(buf, "null"...), nil
	}
	names := make([]string, 0, 16) // enough for most objects, and on the stack
	for name := range o {
		names = append(names, name)
	}
	slices.Sort(names)
	return appendMembers(buf, names, o)
}

// appendMembers appends an object with its members in the order of names.
func appendMembers(buf []byte, names []string, values map[string]any) (_ []byte, err error) {
	buf = append(buf, '{')
	for _, name := range names {
		if buf, err = appendJSON(append(appendString(appendComma(buf), name), ':'), values[name]); err != nil {
			return nil, err
		}
	}
	return append(buf, '}'), nil
}

func appendList[T any](buf []byte, list []T) (_ []byte, err error) {
	if list == nil {
		return append(buf, "null"...), nil
	}
	buf = append(buf, '[')
	for _, v := range list {
		if buf, err = appendJSON(appendComma(buf), v); err != nil {
			return nil, err
		}
	}
	return append(buf, ']'), nil
}

// appendComma appends a comma unless buf ends with an opening bracket.
func appendComma(buf []byte) []byte {
	if last := buf[len(buf)-1]; last == '{' || last == '[' {
		return buf
	}
	return append(buf, ',')
}

// surrogates matches escaped backslashes, surrogate pairs and, as its group, unpaired surrogates.
var surrogates = regexp.MustCompile(`\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)`)

func hasHalfPair(raw []byte) bool {
	if !bytes.Contains(raw, []byte(`\ud`)) && !bytes.Contains(raw, []byte(`\uD`)) {
		return false
	}
	return slices.ContainsFunc(surrogates.FindAllSubmatchIndex(raw, -1), func(at []int) bool { return at[2] >= 0 })
}

// Halves joins surrogate pairs that a server splits across two events, in which each half would be decoded as
// U+FFFD. A half at the end of a string is held back until a string begins with the other half. The zero
// value is ready to use.
type Halves struct{ first []byte }

// Join returns an event with the half that was held back before, and without a half that is held back now.
func (h *Halves) Join(event []byte) []byte {
	if !hasHalfPair(event) {
		return event
	}
	var joined []byte
	done := 0
	for _, at := range surrogates.FindAllSubmatchIndex(event, -1) {
		from, to := at[2], at[3]
		switch {
		case from < 0: // a pair
		case strings.IndexByte("cdefCDEF", event[from+3]) >= 0: // a low surrogate
			if h.first != nil && event[from-1] == '"' {
				joined = append(append(joined, event[done:from]...), h.first...)
				done, h.first = from, nil
			}
		case bytes.HasPrefix(event[to:], []byte(`"`)):
			joined = append(joined, event[done:from]...)
			done, h.first = to, bytes.Clone(event[from:to])
		}
	}
	return append(joined, event[done:]...)
}

func isObject(text string) bool { return gjson.Valid(text) && gjson.Parse(text).IsObject() }

// rawJSON encodes a value that cannot fail, made of strings, numbers and JSON.
func rawJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null") // impossible for such values
	}
	return raw
}

// inner returns the members as JSON, without the braces.
func (o Object) inner() []byte {
	raw, err := o.JSON()
	if err != nil {
		return nil // impossible for values that were JSON
	}
	return raw[1 : len(raw)-1]
}
