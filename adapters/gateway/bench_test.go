package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/gateway"
)

// canned is an upstream without a network, so that only our own code is measured.
type canned struct{ kind, answer string }

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {c.kind}},
		Body: io.NopCloser(strings.NewReader(c.answer)), ContentLength: -1, Request: r,
	}, err
}

// BenchmarkGateway measures a request between the client's socket and the model's.
func BenchmarkGateway(b *testing.B) {
	const (
		head  = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":`
		piece = "data: " + head + `[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}` + "\n\n"
		end   = "data: " + head + `[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: " + head + `[],"usage":{"prompt_tokens":20,"completion_tokens":20,"total_tokens":40}}` + "\n\ndata: [DONE]\n\n"
	)
	const chat, messages = "/v1/chat/completions", "/v1/messages"
	streamed := canned{"text/event-stream", strings.Repeat(piece, 20) + end}
	for name, c := range map[string]struct {
		path     string
		upstream canned
	}{
		"buffered": {chat, canned{"application/json", `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Forty-two."}}],"usage":{"prompt_tokens":20,"completion_tokens":8,"total_tokens":28}}`}},
		"streamed": {chat, streamed}, "messages streamed": {messages, streamed},
	} {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "policy.hcl")
			text := "model \"m\" {\n  provider = \"openai\"\n  base_url = \"http://upstream/v1\"\n  max_output_tokens = 100\n  price {\n    input_usd_per_million = 1\n    output_usd_per_million = 1\n  }\n}\n" +
				"strategy \"route\" { lambda = 1 }\nstream { mode = \"passthrough\" }\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				b.Fatal(err)
			}
			r, err := full.Open(b.Context(), path, full.Options{Transport: c.upstream})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			g, err := gateway.New(gateway.Options{Model: r})
			if err != nil {
				b.Fatal(err)
			}
			body := fmt.Appendf(nil, `{"stream":%t,"model":"stepfall","max_tokens":100,"messages":[{"role":"user","content":"What is the answer?"}]}`, name != "buffered")
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				g.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodPost, c.path, bytes.NewReader(body)))
				if w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body.String())
				}
			}
		})
	}
}
