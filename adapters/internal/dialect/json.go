package dialect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// JSON encodes the object. Unpaired surrogates, which a client may have sent, are replaced:
// "no low surrogate in string"; https://github.com/anthropics/claude-code/issues/60394.
func (o Object) JSON() ([]byte, error) {
	raw, err := encode(o)
	if err != nil || !hasHalfPair(raw) {
		return raw, err
	}
	return encode(decode(json.RawMessage(raw)))
}

// encode is like json.Marshal, but does not escape <, > and &.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
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
