package dialect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
)

// Pieces of calls and texts that servers mix are sent as whole blocks, each as soon as the call before it is complete.
func TestMixedPiecesBecomeBlocks(t *testing.T) {
	call := func(i int, id, name, arguments string) middleware.Delta {
		return middleware.Delta{Tool: &middleware.ToolDelta{Index: i, ID: id, Name: name, Arguments: arguments}}
	}
	root, refused := dialect.Parse([]byte(`{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"go"}]}`))
	if refused != nil {
		t.Fatal(refused)
	}
	a, refused := dialect.Messages.Read(root, nil)
	if refused != nil {
		t.Fatal(refused)
	}
	var sent strings.Builder
	stream := dialect.Messages.Stream(a, &dialect.Events{ID: "1", Write: func(data []byte) { sent.Write(data) }})
	for _, d := range []middleware.Delta{
		call(0, "c0", "first", ""), call(1, "c1", "second", `{"b"`), call(0, "", "", `{"a":`), {Text: "between"}, call(0, "", "", `1}`), call(0, "", "", ""), call(0, "", "", "\n"), call(1, "", "", `:2}`),
	} {
		stream.Delta(&d)
	}
	if !strings.Contains(sent.String(), "between") {
		t.Error("pieces that waited for a complete call wait for the end of the answer")
	}
	stream.Finish(&dialect.Answer{ID: "1", Choices: []*llms.ContentChoice{{StopReason: "tool_calls"}}})
	texts, kinds := map[int64]string{}, map[int64]string{}
	for line := range strings.Lines(sent.String()) {
		e := gjson.Parse(strings.TrimPrefix(line, "data: "))
		at := e.Get("index").Int()
		if block := e.Get("content_block"); block.Exists() {
			kinds[at] = block.Get("type").Str + " " + block.Get("name").Str
		}
		texts[at] += e.Get("delta.text").Str + e.Get("delta.partial_json").Str
	}
	for i, want := range []string{`tool_use first {"a":1}`, `tool_use second {"b":2}`, "text  between"} {
		if got := kinds[int64(i)] + " " + texts[int64(i)]; got != want {
			t.Errorf("block %d is %q, want %q", i, got, want)
		}
	}
	if len(kinds) != 3 {
		t.Errorf("blocks %v, want 3", kinds)
	}
}

// Pieces of text are written without the allocations of a JSON encoder: they are most of a stream.
func TestTextPiecesAllocateLittle(t *testing.T) {
	root, refused := dialect.Parse([]byte(`{"model":"m","max_tokens":9,"stream":true,"input":"go","messages":[{"role":"user","content":"go"}]}`))
	if refused != nil {
		t.Fatal(refused)
	}
	for name, api := range map[string]dialect.API{"messages": dialect.Messages, "responses": dialect.Responses} {
		a, refused := api.Read(root, nil)
		if refused != nil {
			t.Fatal(refused)
		}
		stream := api.Stream(a, &dialect.Events{ID: "1", Write: func([]byte) {}})
		if n := testing.AllocsPerRun(100, func() { stream.Delta(&middleware.Delta{Text: "word "}) }); n > 5 {
			t.Errorf("%s: %v allocations for a piece of text", name, n)
		}
	}
}

// The time of a call of many pieces does not grow with the square of its length while pieces of another call wait.
func TestManyPiecesOfACallTakeLinearTime(t *testing.T) {
	root, refused := dialect.Parse([]byte(`{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"go"}]}`))
	if refused != nil {
		t.Fatal(refused)
	}
	a, refused := dialect.Messages.Read(root, nil)
	if refused != nil {
		t.Fatal(refused)
	}
	stream := dialect.Messages.Stream(a, &dialect.Events{ID: "1", Write: func([]byte) {}})
	stream.Delta(&middleware.Delta{Tool: &middleware.ToolDelta{ID: "c0", Name: "first", Arguments: `{"a":"`}})
	stream.Delta(&middleware.Delta{Tool: &middleware.ToolDelta{Index: 1, ID: "c1", Name: "second", Arguments: "{}"}})
	begun := time.Now()
	for range 100_000 {
		stream.Delta(&middleware.Delta{Tool: &middleware.ToolDelta{Arguments: "words "}})
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("100,000 pieces took %v", took)
	}
}
