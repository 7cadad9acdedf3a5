package provider_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"
	old "github.com/tmc/langchaingo/llms/openai"

	"github.com/stepfall/stepfall/adapters/provider"
)

// BenchmarkCall compares our client with langchaingo's, calling the same loopback server, with answers of 100 bytes
// and of 100 KB.
func BenchmarkCall(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"100B", 100}, {"100KB", 100_000}} {
		answer := `{"id":"c","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"` +
			strings.Repeat("x", size.bytes) + `"}}],"usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}}`
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // the client's fault, and its benchmark's
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		}))
		b.Cleanup(server.Close)
		ours, err := provider.New(provider.Options{Model: "m", APIKey: "k", BaseURL: server.URL})
		if err != nil {
			b.Fatal(err)
		}
		theirs, err := old.New(old.WithModel("m"), old.WithToken("k"), old.WithBaseURL(server.URL))
		if err != nil {
			b.Fatal(err)
		}
		for name, m := range map[string]llms.Model{"ours": ours, "langchaingo": theirs} {
			b.Run(size.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := m.GenerateContent(b.Context(), human("hi")); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
