package dialect_test

import (
	"encoding/json"
	"testing"

	"github.com/stepfall/stepfall/adapters/dialect"
)

func TestCount(t *testing.T) {
	for text, want := range map[string]dialect.Count{
		"12": 12, "12.0": 12, "1.2e1": 12, `"12"`: 12, "11.5": -1, "-3": -1, "null": 0, "0": 0, "true": -1, `"many"`: -1, `""`: -1, "{}": -1, "[1]": -1, `"NaN"`: -1,
		"1e18": 1 << 50, "1e999": 1 << 50, "-1e999": -1, "99999999999999999999": 1 << 50,
	} {
		var got struct{ N dialect.Count }
		if err := json.Unmarshal([]byte(`{"n":`+text+`}`), &got); err != nil || got.N != want {
			t.Errorf("%s: %d, %v; want %d", text, got.N, err, want)
		}
	}
}
