package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// A client of Responses can send the id of an item in its place, as the npm package ai does, whether the answer was
// streamed or not. The id of another client's item, or an unknown one, is rejected with
// instructions.
func TestReferencesToItems(t *testing.T) {
	up := &seen{upstream: upstream{whole: `{"id":"a","object":"response","status":"completed","model":"m","output":[{"type":"reasoning","id":"r1","summary":[],"encrypted_content":"e1"},
		{"type":"function_call","call_id":"t1","name":"look","arguments":"{\"at\":1}"}],"usage":{"input_tokens":3,"output_tokens":4}}`}}
	llm, err := exampleAPIs["Responses"].open(up)
	if err != nil {
		t.Fatal(err)
	}
	m, err := middleware.New(middleware.Config{Lambda: 1, Models: []middleware.Candidate{{Model: sdk.Model{Name: "m", Capabilities: sdk.Capabilities{Tools: true}}, LLM: llm}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	keys, err := gateway.Keys(map[string]string{"k-one": "one", "k-two": "two"})
	if err != nil {
		t.Fatal(err)
	}
	g := newGateway(t, gateway.Options{Model: m, Models: named("m"), Authenticate: keys})
	const tools = `"tools":[{"type":"function","name":"look","parameters":{"type":"object","properties":{}}}]`
	for _, stream := range []string{"false", "true"} {
		w := post(g, responsesPath, `{"stream":`+stream+`,"input":"hi",`+tools+`}`, "Authorization", "Bearer k-one")
		answer := w.Body.String()
		if stream == "true" {
			_, completed, _ := strings.Cut(answer, "event: response.completed\ndata: ")
			answer = gjson.Get(completed, "response").Raw
		}
		var references []string
		for _, id := range gjson.Get(answer, "output.#.id").Array() {
			references = append(references, `{"type":"item_reference","id":"`+id.Str+`"}`)
		}
		next := `{"input":[{"role":"user","content":"hi"},` + strings.Join(references, ",") + `,{"type":"function_call_output","call_id":"t1","output":"done"}],` + tools + `}`
		if w = post(g, responsesPath, next, "Authorization", "Bearer k-one"); w.Code != http.StatusOK {
			t.Fatalf("stream %s: status %d: %s", stream, w.Code, w.Body)
		}
		if got := gjson.Get(up.body, "input.1.encrypted_content").Str + gjson.Get(up.body, "input.2.arguments").Str; len(references) != 2 || got != `e1{"at":1}` {
			t.Errorf("stream %s: upstream is sent %s", stream, up.body)
		}
		if w = post(g, responsesPath, next, "Authorization", "Bearer k-two"); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "providerOptions.openai.store") || gjson.Get(w.Body.String(), "error.param").Str != "input[1]" {
			t.Errorf("another client: status %d: %s", w.Code, w.Body)
		}
	}
}
