package dialect_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
)

var (
	ours   = dialect.Origin("api.example", "m")
	others = dialect.Origin("api.example", "n")
)

// Signed state returns from a client unchanged and with its origin, through any client. A text that only resembles a
// tagged one matches no model.
func TestSealAndOpen(t *testing.T) {
	for _, object := range []string{
		`{"type":"thinking","thinking":"hm","signature":"sig"}`, `{"type":"redacted_thinking","data":"x","novel":{"deep":1.0}}`,
		`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"}`, `{"type":"compaction","id":"cmp_1","encrypted_content":"gAAA"}`, `{"type":"reasoning","id":"rs_1","summary":[]}`,
		`{"type":"reasoning.text","text":"hm","signature":null,"id":null,"index":0}`,
	} {
		sealed := dialect.Seal(ours, json.RawMessage(object))
		if string(sealed) == object || !json.Valid(sealed) {
			t.Errorf("%s was sealed as %s", object, sealed)
		}
		p, state := dialect.Open(middleware.DialectAnthropic, sealed)
		if !state || p.Model != ours || string(p.Raw) != object {
			t.Errorf("%s came back as %+v, %s", object, p, p.Raw)
		}
		if p, state = dialect.Open(middleware.DialectAnthropic, json.RawMessage(object)); !state || p.Model != dialect.Unknown {
			t.Errorf("%s is %q's", object, p.Model)
		}
	}
	whole := middleware.RawPart{Dialect: middleware.DialectGemini, Model: ours, Raw: json.RawMessage(`{"thoughtSignature":"c2ln"}`)}
	carried, err := json.Marshal(map[string]string{"type": "redacted_thinking", "data": dialect.Wrap(whole)})
	if err != nil {
		t.Fatal(err)
	}
	if p, _ := dialect.Open(middleware.DialectAnthropic, carried); !cmp.Equal(p, whole) {
		t.Errorf("carried: %+v", p)
	}
	for _, odd := range []string{"stepfall1", "stepfall1aaaaaaaaaaaa", "stepfall1aaaaaaaaaaaax", "stepfall1aaaaaaaaaaaawgemini.%%", " stepfall1aaaaaaaaaaaaosig", "\nstepfall1aaaaaaaaaaaaosig", "stepfall2aaaaaaaaaaaaosig", "stepfall10", "stepfall1aaaaaaaaaaaawgemini.W10"} {
		if origin, rest, part := dialect.Untag(odd); origin != "!" || rest != odd || part != nil {
			t.Errorf("%s is %q's: %q, %v", odd, origin, rest, part)
		}
	}
}

// Only a text that begins with a tag is tagged.
func TestTextsWithoutATag(t *testing.T) {
	for _, text := range []string{"", "sig", "stepfall_call_1", "stepfall", "EqQBstepfall1aaaaaaaaaaaaosig"} {
		if origin, rest, part := dialect.Untag(text); origin != dialect.Unknown || rest != text || part != nil {
			t.Errorf("%q is %q's: %q, %v", text, origin, rest, part)
		}
	}
}

// A model gets its own state and no other's. Of a part with text the text remains, and the caller's messages are not
// modified.
func TestOwn(t *testing.T) {
	raw := func(model, text string) llms.ContentPart {
		return middleware.RawPart{TextContent: llms.TextContent{Text: text}, Dialect: middleware.DialectChat, Model: model, Raw: json.RawMessage(`{}`)}
	}
	given := []llms.MessageContent{
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{raw(ours, ""), raw(others, ""), raw(others, "said"), raw("", "")}},
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{raw(dialect.Unknown, "")}},
	}
	own, lost := dialect.Own(given, middleware.DialectChat, ours, "m")
	want := []llms.MessageContent{{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{raw(ours, ""), llms.TextContent{Text: "said"}, raw("", "")}}}
	if !cmp.Equal(lost, []string{dialect.NotSentState}) || !cmp.Equal(own, want) {
		t.Errorf("%v: %s", lost, cmp.Diff(want, own))
	}
	if len(given) != 2 || len(given[0].Parts) != 4 {
		t.Errorf("the caller's messages are %v", given)
	}
	if own, lost := dialect.Own(given[:1], middleware.DialectChat, others, ours); lost != nil || len(own[0].Parts) != 4 {
		t.Errorf("%v, %v", lost, own)
	}
}

// Lost citations are named if only the text remains.
func TestOwnNamesCitations(t *testing.T) {
	cited := middleware.RawPart{TextContent: llms.TextContent{Text: "so"}, Dialect: middleware.DialectAnthropic, Raw: json.RawMessage(`{"type":"text","text":"so","citations":[{"cited_text":"said"}]}`)}
	own, lost := dialect.Own([]llms.MessageContent{{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{cited}}}, middleware.DialectChat)
	if want := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeAI, "so")}; !cmp.Equal(own, want) || !cmp.Equal(lost, []string{"citations"}) {
		t.Errorf("%v, not sent %q", own, lost)
	}
}

// A conversation that a model compacted is only for that model. Parts of a vendor's own tools can be
// left out.
func TestForeign(t *testing.T) {
	item := func(kind, model string) []llms.MessageContent {
		return []llms.MessageContent{{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{middleware.RawPart{Dialect: middleware.DialectResponses, Model: model, Raw: json.RawMessage(`{"type":"` + kind + `"}`)}}}}
	}
	for _, tt := range []struct {
		messages []llms.MessageContent
		d        middleware.Dialect
		want     string
	}{
		{item("compaction", ours), middleware.DialectResponses, ""}, {item("compaction", ""), middleware.DialectResponses, ""},
		{item("compaction", others), middleware.DialectResponses, "compaction"}, {item("compaction", ours), middleware.DialectChat, "compaction"},
		{item("reasoning", others), middleware.DialectResponses, ""}, {item("web_search_call", ""), middleware.DialectChat, ""},
	} {
		if got := dialect.Foreign(tt.messages, tt.d, ours); got != tt.want {
			t.Errorf("%v for %s: %q, want %q", tt.messages, tt.d, got, tt.want)
		}
	}
}
