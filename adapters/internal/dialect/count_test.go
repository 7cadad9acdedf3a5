package dialect_test

import (
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
)

// Some servers write 12.0, 1.2e1 or "12"; other values are recognized as invalid.
func TestTokens(t *testing.T) {
	for text, want := range map[string]int{
		"12": 12, "12.0": 12, "1.2e1": 12, `"12"`: 12, "11.5": -1, "-3": -1, "null": 0, "0": 0, "true": -1, `"many"`: -1, `""`: -1, "{}": -1, "[1]": -1, `"NaN"`: -1,
		"1e18": 1 << 50, "1e999": 1 << 50, "-1e999": -1, "99999999999999999999": 1 << 50,
	} {
		if got := dialect.EmbeddingUsage(middleware.DialectOllama, []byte(`{"prompt_eval_count":`+text+`}`)); got.InputTokens != want {
			t.Errorf("%s: %d; want %d", text, got.InputTokens, want)
		}
	}
}
