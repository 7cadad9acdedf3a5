package dialect_test

import (
	"encoding/json"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
)

// Seeds have 64 bits: they are sent exactly, or rejected, or reported as not sent.
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

// Whatever names a client gives its members, the header that lists them is readable.
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

// A request can have hundreds of thousands of members that no model is sent. Their cost grows linearly with their
// number.
func TestTimeOfManyNames(t *testing.T) {
	names := func(n int) (list []string) {
		for i := range n {
			list = append(list, "member"+strconv.Itoa(i))
		}
		return list
	}
	members := func(n int) (list []llms.MessageContent) {
		for _, name := range names(n) {
			list = append(list, llms.MessageContent{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{
				middleware.RawPart{Dialect: middleware.DialectChat, Raw: json.RawMessage(`{"members_of_message":{"` + name + `":1}}`)}, llms.TextPart("x"),
			}})
		}
		return list
	}
	for what, run := range map[string]func(n int) func(){
		"names in a header": func(n int) func() {
			list := slices.Concat(names(n), names(n))
			return func() { dialect.SpellNotSent(middleware.DialectChat, list) }
		},
		"members of messages": func(n int) func() {
			list := members(n)
			return func() { dialect.Own(list, middleware.DialectAnthropic) }
		},
	} {
		const n, times, tries, limit = 1000, 10, 30, 40 // in proportion it would be 10 times as long, and 100 by the square
		few, many := run(n), run(times*n)
		least, most := time.Hour, time.Hour
		for i := 0; i < tries && most > limit*least || i == 0; i++ { // others use the machine too
			least, most = min(least, timeOf(few)), min(most, timeOf(many))
		}
		if most > limit*least {
			t.Errorf("%s: %d times as many take %.1f times as long", what, times, float64(most)/float64(least))
		}
	}
}

func timeOf(run func()) time.Duration {
	begun := time.Now()
	run()
	return time.Since(begun)
}

// Joining the texts of a message does not copy all previous texts for each one.
func TestMemoryOfManyTexts(t *testing.T) {
	bytesFor := func(n int) uint64 {
		parts := slices.Repeat([]llms.ContentPart{llms.TextPart(strings.Repeat("x", 100))}, n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		(&dialect.Limits{NoBlank: true}).Exclude([]llms.MessageContent{{Role: llms.ChatMessageTypeHuman, Parts: parts}}, &llms.CallOptions{}, &middleware.Params{})
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := bytesFor(1500), bytesFor(6000); many > 8*few {
		t.Errorf("1500 texts take %d bytes, four times as many %d", few, many)
	}
}
