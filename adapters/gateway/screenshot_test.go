package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// A screenshot is sent to models of other APIs that accept images. A user's item that has no counterpart in another
// API excludes the models of that API, with that reason.
func TestUserItemsOfOtherAPIs(t *testing.T) {
	const (
		call       = `{"role":"user","content":"look"},{"type":"computer_call","call_id":"c1","action":{"type":"screenshot"}},`
		screenshot = call + `{"type":"computer_call_output","call_id":"c1","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,UE5H"}}`
		approval   = `{"role":"user","content":"look"},{"type":"mcp_approval_request","id":"mr_1","name":"f","arguments":"{}"},{"type":"mcp_approval_response","approval_request_id":"mr_1","approve":true}`
	)
	for name, tt := range map[string]struct {
		api, input string
		hasImages  bool
		want       string
	}{
		"an image":              {"Messages", screenshot, true, "UE5H"},
		"a model without":       {"Messages", screenshot, false, "reads no images"},
		"an approval":           {"Messages", approval, true, "rejects mcp_approval_response of another API"},
		"an approval at OpenAI": {"Responses", approval, true, `"approval_request_id":"mr_1"`},
	} {
		api := exampleAPIs[tt.api]
		up := &seen{upstream: upstream{whole: api.answer}}
		llm, err := api.open(up)
		if err != nil {
			t.Fatal(err)
		}
		m, err := middleware.New(middleware.Config{Lambda: 1, Models: []middleware.Candidate{{Model: sdk.Model{Name: "m", Capabilities: sdk.Capabilities{Tools: true, Images: tt.hasImages}}, LLM: llm}}})
		if err != nil {
			t.Fatal(err)
		}
		w := post(newGateway(t, gateway.Options{Model: m, Models: named("m")}), responsesPath, `{"input":[`+tt.input+`]}`)
		m.Close()
		if got := up.body + w.Body.String(); !strings.Contains(got, tt.want) || (w.Code == http.StatusOK) != (up.body != "") {
			t.Errorf("%s: status %d: %s", name, w.Code, got)
		}
	}
}
