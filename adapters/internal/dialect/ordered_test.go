package dialect

import (
	"encoding/json"
	"testing"

	"github.com/stepfall/stepfall/middleware"
)

// Unknown members of an answer are merged into the client's answer in their own order; values that are not objects are left out.
func TestWithUnknown(t *testing.T) {
	own := Object{"usage": Object{"known": 1, "zero": 0}, "list": []any{Object{"b": 2}}}
	for raw, want := range map[string]string{
		`{"z":1,"a":{"y":1,"x":2},"list":[{"c":3}]}`: `{"list":[{"b":2,"c":3}],"usage":{"known":1,"zero":0},"z":1,"a":{"y":1,"x":2}}`,
		`{"usage":{"zero":7,"audio":2}}`:             `{"list":[{"b":2}],"usage":{"zero":7,"audio":2,"known":1}}`,
		`null`:                                       `{"list":[{"b":2}],"usage":{"known":1,"zero":0}}`,
		`[1]`:                                        `{"list":[{"b":2}],"usage":{"known":1,"zero":0}}`,
	} {
		x := &middleware.Extra{Unknown: middleware.RawPart{Dialect: middleware.DialectChat, Raw: json.RawMessage(raw)}}
		got, err := encode(withUnknown(own, middleware.DialectChat, x))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", raw, got, err, want)
		}
	}
}
