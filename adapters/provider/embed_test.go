package provider_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// embedders are the providers with embeddings, each with a server that answers by answer.
func embedders(t *testing.T, answer func(w http.ResponseWriter, path string, asked map[string]any)) map[string]middleware.Embedder {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked map[string]any
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		if got := r.Header.Get("Authorization"); got != "Bearer k" {
			t.Errorf("Authorization is %q", got)
		}
		w.Header().Set("X-Request-ID", "req-1")
		answer(w, r.URL.Path, asked)
	}))
	t.Cleanup(server.Close)
	one, err := provider.New(provider.Options{Model: "m", APIKey: "k", BaseURL: server.URL + "/v1"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := provider.New(provider.Options{API: middleware.DialectOllama, Model: "m", APIKey: "k", BaseURL: server.URL, ContextTokens: 99})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]middleware.Embedder{"openai": one.(middleware.Embedder), "ollama": other.(middleware.Embedder)}
}

func TestEmbeddingsArriveWhole(t *testing.T) {
	var path string
	var asked map[string]any
	list := embedders(t, func(w http.ResponseWriter, p string, a map[string]any) {
		path, asked = p, a
		if p == "/api/embed" {
			fmt.Fprint(w, `{"model":"m","embeddings":[[0.5,-1],[2,0]],"total_duration":9,"prompt_eval_count":7}`)
			return
		}
		fmt.Fprint(w, `{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":"AAAAPwAAgL8="}],"usage":{"prompt_tokens":7,"total_tokens":7},"own":1}`)
	})
	const request = `{"model": "x", "input": ["a", "b"], "dimensions": 2, "encoding_format": "base64", "user": "u", "novel": {"a": 1}}`

	response, usage, err := list["openai"].Embed(t.Context(), json.RawMessage(request))
	if err != nil || path != "/v1/embeddings" || usage != (sdk.Usage{InputTokens: 7}) {
		t.Fatalf("%v %s %+v", err, path, usage)
	}
	want := map[string]any{"model": "m", "input": []any{"a", "b"}, "dimensions": 2.0, "encoding_format": "base64", "user": "u", "novel": map[string]any{"a": 1.0}}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
	if got := string(response); got != `{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":"AAAAPwAAgL8="}],"usage":{"prompt_tokens":7,"total_tokens":7},"own":1}` {
		t.Error("the server's own words were changed:", got)
	}

	response, usage, err = list["ollama"].Embed(t.Context(), json.RawMessage(request))
	if err != nil || path != "/api/embed" || usage != (sdk.Usage{InputTokens: 7}) {
		t.Fatalf("%v %s %+v", err, path, usage)
	}
	want = map[string]any{"model": "m", "input": []any{"a", "b"}, "dimensions": 2.0, "truncate": false, "options": map[string]any{"num_ctx": 99.0}}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
	var got map[string]any
	if err := json.Unmarshal(response, &got); err != nil {
		t.Fatal(err)
	}
	vectors := []any{
		map[string]any{"object": "embedding", "index": 0.0, "embedding": "AAAAPwAAgL8="}, // 0.5 and -1 by Python's struct.pack("<2f")
		map[string]any{"object": "embedding", "index": 1.0, "embedding": "AAAAQAAAAAA="},
	}
	whole := map[string]any{"object": "list", "model": "m", "data": vectors, "usage": map[string]any{"prompt_tokens": 7.0, "total_tokens": 7.0}}
	if diff := cmp.Diff(whole, got); diff != "" {
		t.Error(diff)
	}
}

func TestEmbeddingsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		body    string
		code    llms.ErrorCode
		request string
		billed  bool
	}{
		"key":          {http.StatusUnauthorized, `{"error":{"message":"no such key"}}`, llms.ErrCodeAuthentication, "", false},
		"gateway":      {http.StatusGatewayTimeout, `<html>timed out</html>`, llms.ErrCodeTimeout, "", true},
		"busy":         {http.StatusTooManyRequests, `{"error":{"message":"slow down"}}`, llms.ErrCodeRateLimit, "", false},
		"cut off":      {http.StatusOK, `{"object":"list","data":[{"emb`, llms.ErrCodeProviderUnavailable, "", true},
		"garbage":      {http.StatusOK, `<html>`, llms.ErrCodeProviderUnavailable, "", true},
		"error inside": {http.StatusOK, `{"error":"model is overloaded"}`, llms.ErrCodeProviderUnavailable, "", true},
		"no request":   {http.StatusOK, `{}`, llms.ErrCodeInvalidRequest, `[]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			for maker, e := range embedders(t, func(w http.ResponseWriter, _ string, _ map[string]any) {
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			}) {
				request := `{"input": "a"}`
				if c.request != "" {
					request = c.request
				}
				_, _, err := e.Embed(t.Context(), json.RawMessage(request))
				told, ok := errors.AsType[*middleware.ProviderError](err)
				if !ok || told.Code != c.code || told.Provider != maker || told.Billed != c.billed {
					t.Errorf("%s: got %+v", maker, err)
				}
			}
		})
	}
	_, _, err := embedders(t, func(http.ResponseWriter, string, map[string]any) { t.Error("the server was asked") })["ollama"].Embed(t.Context(), json.RawMessage(`{"input": [1, 2]}`))
	if told, ok := errors.AsType[*middleware.ProviderError](err); !ok || told.Param != "input" {
		t.Errorf("tokens: %v", err)
	}
}
