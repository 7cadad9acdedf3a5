package dialect_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
)

// Seeds have 64 bits: they go as they are, or are refused or named.
func TestSeeds(t *testing.T) {
	for text, want := range map[string]string{
		"7": "7", "7.0": "7", "-1": "-1", "9007199254740993": "9007199254740993", "9223372036854775807": "9223372036854775807", "-9223372036854775807": "-9223372036854775807",
		"-9223372036854775808": "seed: want a whole number", "7.5": "seed: want a whole number", "1e300": "seed: want a whole number",
	} {
		body, refusal := dialect.Parse([]byte(`{"messages":[{"role":"user","content":"hi"}],"seed":` + text + `}`))
		if refusal != nil {
			t.Fatal(refusal)
		}
		request, refusal := dialect.Chat.Read(body, http.Header{})
		got := ""
		if refusal != nil {
			got = refusal.Message
		} else {
			got = strconv.Itoa(*request.Params.Seed)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for seed, notSent := range map[int][]string{-1: {"Seed"}, 7: nil} {
		if _, got := sent(t, "api.mistral.ai", "mistral-small-latest", nil, llms.CallOptions{}, middleware.Params{Seed: &seed}); !slices.Equal(got, notSent) {
			t.Errorf("Mistral: %d: not sent %v", seed, got)
		}
	}
	gemini := dialect.LimitsOf(middleware.DialectGemini, "", "gemini-3-pro")
	for seed, notSent := range map[int][]string{1 << 31: {"Seed"}, -1 << 31: nil} {
		if _, got := gemini.Fit(nil, &llms.CallOptions{}, &middleware.Params{Seed: &seed}); !slices.Equal(got, notSent) {
			t.Errorf("Gemini: %d: not sent %v", seed, got)
		}
	}
}

// Whatever a client calls its members, it can read the header that names them.
func TestNamesOfWhatIsNotSent(t *testing.T) {
	var many []string
	for i := range 1500 {
		many = append(many, "member"+strconv.Itoa(i))
	}
	for _, names := range [][]string{many, {"a\x00b", "\x1b", "\x7f", "x\ny", "\u00e9"}, {strings.Repeat("x", 20_000)}} {
		got := dialect.SpellNotSent(middleware.DialectChat, names)
		if len(got) > 2100 || strings.Trim(got, " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_abcdefghijklmnopqrstuvwxyz{|}~") != "" {
			t.Errorf("%q", got)
		}
	}
	if got := dialect.SpellNotSent(middleware.DialectChat, []string{"MaxTokens above 5", "a.b", "a.b"}); got != "max_completion_tokens above 5, a.b" {
		t.Error(got)
	}
}
