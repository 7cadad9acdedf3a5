package gateway_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/middleware"
)

// Old, minimal and broken clients: unusual but valid HTTP, byte by byte.
func TestOddConnections(t *testing.T) {
	addr := listen(t, gateway.Options{Model: says(llms.ContentChoice{Content: "hi there", StopReason: "stop"})})
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, hello)
	_ = z.Close()
	streamed := `{"stream": true, "messages": [{"role": "user", "content": "hi"}]}`
	chunked := func(chunks string) string {
		return "POST " + chatPath + " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunks
	}
	old := func(body string) string {
		return fmt.Sprintf("POST %s HTTP/1.0\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", chatPath, len(body), body)
	}
	type want struct {
		status int
		text   string
	}
	for name, tt := range map[string]struct {
		send string
		want []want
	}{
		"HTTP/1.0":             {old(hello), []want{{200, "hi there"}}},
		"a stream by HTTP/1.0": {old(streamed), []want{{200, "data: [DONE]"}}},
		"two at once":          {request(chatPath, hello) + request(chatPath, streamed), []want{{200, "hi there"}, {200, "data: [DONE]"}}},
		"one after a refusal":  {request(chatPath, "{") + request(chatPath, hello), []want{{400, "not JSON"}, {200, "hi there"}}},
		"chunks":               {chunked(fmt.Sprintf("5\r\n%s\r\n%x;x=y\r\n%s\r\n0\r\n\r\n", hello[:5], len(hello)-5, hello[5:])), []want{{200, "hi there"}}},
		"chunks of no size":    {chunked("zz\r\n" + hello + "\r\n0\r\n\r\n"), []want{{400, `"error"`}}},
		"a chunk too short":    {chunked("fffffffffffffffff\r\n" + hello), []want{{400, `"error"`}}},
		"expects 100":          {request(chatPath, hello, "Expect: 100-continue"), []want{{100, ""}, {200, "hi there"}}},
		"expects more":         {request(chatPath, hello, "Expect: a miracle"), []want{{417, ""}}},
		"gzip":                 {request(chatPath, packed.String(), "Content-Encoding: gzip"), []want{{415, "Content-Encoding"}}},
		"identity":             {request(chatPath, hello, "Content-Encoding: identity"), []want{{200, "hi there"}}},
		"another method":       {"DELETE " + chatPath + " HTTP/1.1\r\nHost: localhost\r\n\r\n", []want{{405, `"error"`}}},
		"GET":                  {"GET " + chatPath + " HTTP/1.1\r\nHost: localhost\r\n\r\n", []want{{405, `"error"`}}},
		"an absolute address":  {strings.Replace(request(chatPath, hello), chatPath, "http://localhost"+chatPath, 1), []want{{200, "hi there"}}},
		"a slash too many":     {strings.Replace(request(chatPath, hello), chatPath, "/"+chatPath, 1), []want{{404, `"error"`}}},
		"two lengths":          {strings.Replace(request(chatPath, hello), "Host:", "Content-Length: 3\r\nHost:", 1), []want{{400, ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			list, bodies := speak(t, addr, tt.send, len(tt.want))
			for i, w := range tt.want {
				if list[i].StatusCode != w.status || !strings.Contains(bodies[i], w.text) {
					t.Errorf("answer %d: %d %s, want %+v", i, list[i].StatusCode, bodies[i], w)
				}
			}
		})
	}
	for method, path := range map[string]string{http.MethodHead: "/v1/models", http.MethodOptions: chatPath} {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode >= 500 || resp.StatusCode == http.StatusNotFound {
			t.Errorf("%s %s: %d", method, path, resp.StatusCode)
		}
	}
}

// Every field of chat completions in OpenAI's reference of 2026 reaches a model of the same API unchanged, except
// modalities, because answers are always text.
func TestEveryFieldReachesTheModel(t *testing.T) {
	var got map[string]json.RawMessage
	models := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"c","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}))
	defer models.Close()
	path := filepath.Join(t.TempDir(), "policy.hcl")
	text := fmt.Sprintf("model \"m\" {\n  provider = \"openai\"\n  base_url = %q\n  capabilities = [\"tools\", \"json_mode\", \"json_schema\", \"log_probs\", \"reasoning\"]\n  price { free = true }\n}\nstrategy \"route\" { lambda = 1 }\n", models.URL+"/v1")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := full.Open(context.Background(), path, full.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	g, err := gateway.New(gateway.Options{Model: r})
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{
		"frequency_penalty": "0.5", "presence_penalty": "-0.5", "temperature": "0", "top_p": "0.9", "seed": "0", "n": "1", "logprobs": "true", "top_logprobs": "0",
		"logit_bias": `{"50256":-100}`, "stop": `["a","b"]`, "max_completion_tokens": "7", "user": `"u"`, "safety_identifier": `"s"`, "prompt_cache_key": `"k"`,
		"prompt_cache_retention": `"24h"`, "prompt_cache_options": `{"mode":"x"}`, "service_tier": `"flex"`, "store": "false", "metadata": `{"a":"b"}`, "verbosity": `"low"`,
		"reasoning_effort": `"minimal"`, "parallel_tool_calls": "false", "prediction": `{"type":"content","content":"x"}`,
		"web_search_options": `{"search_context_size":"low"}`, "moderation": `{"mode":"x"}`, "tool_choice": `"auto"`,
		"tools":           `[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{}},"strict":true}}]`,
		"response_format": `{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"},"strict":true}}`,
		"field_of_2027":   `{"x":[1,2,{"y":null}]}`,
	}
	body := `{"model":"stepfall","messages":[{"role":"developer","content":"be brief"},{"role":"user","name":"ann","content":"hi"}]`
	for name, value := range fields {
		body += fmt.Sprintf(",%q:%s", name, value)
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, chatPath, strings.NewReader(body+"}")))
	if got == nil {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for name, value := range fields {
		if name == "max_completion_tokens" { // servers like OpenAI's know the older name
			name = "max_tokens"
		}
		var sent, arrived any
		if err := json.Unmarshal([]byte(value), &sent); err != nil {
			t.Fatal(name, err)
		}
		if err := json.Unmarshal(got[name], &arrived); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(sent, arrived); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// An unknown resource of the client's own at the provider is the request's fault, an unknown model
// is not.
func TestItemsThatAreNotFound(t *testing.T) {
	for param, want := range map[string]int{"input": http.StatusNotFound, "model": http.StatusBadGateway, "": http.StatusBadGateway} {
		h := newGateway(t, gateway.Options{Model: fails(&llms.Error{Code: llms.ErrCodeResourceNotFound,
			Cause: middleware.NewProviderError("openai", http.StatusNotFound, nil, []byte(`{"error":{"message":"Item with id 'rs_1' not found.","param":"`+param+`","code":null}}`), nil)})})
		if w := post(h, responsesPath, `{"input":"hi"}`); w.Code != want || (w.Header().Get("X-Should-Retry") != "false") {
			t.Errorf("%q: status %d: %s", param, w.Code, w.Body)
		}
	}
}
