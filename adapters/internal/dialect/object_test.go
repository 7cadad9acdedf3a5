package dialect

import (
	"encoding/json"
	"testing"
)

// Unpaired surrogates are replaced wherever a client wrote them; everything else is unchanged.
func TestHalvesOfPairs(t *testing.T) {
	for raw, want := range map[string]string{
		`{"b":"\ud83d\ude00","a":1.0}`: `{"b":"\ud83d\ude00","a":1.0}`,
		`{"b":"\\ud83d"}`:              `{"b":"\\ud83d"}`,
		`{"b":"\\\ud83d","a":1e2}`:     `{"a":1e2,"b":"\\\ufffd"}`,
		`{"b":"\uDE00\ud83d<"}`:        `{"b":"\ufffd\ufffd<"}`,
	} {
		got, err := Object{"x": json.RawMessage(raw)}.JSON()
		var wanted, have any
		if err != nil || json.Unmarshal([]byte(`{"x":`+want+`}`), &wanted) != nil || json.Unmarshal(got, &have) != nil || string(rawJSON(have)) != string(rawJSON(wanted)) || hasHalfPair(got) {
			t.Errorf("%s becomes %s, want %s: %v", raw, got, want, err)
		}
		if raw == want && string(got) != `{"x":`+raw+`}` {
			t.Errorf("%s becomes %s", raw, got)
		}
	}
}
