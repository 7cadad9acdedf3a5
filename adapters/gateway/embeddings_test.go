package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// vectors makes embeddings, or fails.
type vectors struct {
	recorder
	mu    sync.Mutex
	asked []string
	fails []error // of the next calls
}

func (v *vectors) Embed(_ context.Context, request json.RawMessage) (json.RawMessage, sdk.Usage, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked = append(v.asked, string(request))
	if len(v.fails) > 0 {
		err := v.fails[0]
		v.fails = v.fails[1:]
		return nil, sdk.Usage{}, err
	}
	return json.RawMessage(`{"object":"list","model":"served","data":[{"object":"embedding","index":0,"embedding":[0.25]}],"usage":{"prompt_tokens":10,"total_tokens":10}}`), sdk.Usage{InputTokens: 10}, nil
}

// withVectors returns a gateway whose model "vectors" makes embeddings, under a cap on runs.
func withVectors(t *testing.T, v *vectors, traces step.Sink) *gateway.Gateway {
	t.Helper()
	model, err := middleware.New(middleware.Config{
		Models:    []middleware.Candidate{{Model: sdk.Model{Name: "small", MaxOutputTokens: 10, Price: sdk.Price{Input: 1, Output: 1}}, LLM: says(llms.ContentChoice{Content: "yes"})}},
		Embedders: []middleware.Candidate{{Model: sdk.Model{Name: "vectors", Price: sdk.Price{Input: 100}}, LLM: v}},
		Step:      step.Config{Ledger: step.NewMemory(step.Caps{RunUSD: 0.01}), Traces: traces, Retry: step.Retry{BaseDelay: 1}},
		Lambda:    1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return newGateway(t, gateway.Options{Model: model, Models: named("small", "vectors")})
}

func TestEmbeddings(t *testing.T) {
	v := &vectors{}
	var traces []*sdk.Trace
	g := withVectors(t, v, func(_ context.Context, tr *sdk.Trace) { traces = append(traces, tr) })
	const request = `{"model": "vectors", "input": ["a"], "novel": 1}`
	w := post(g, "/v1/embeddings", request, gateway.HeaderRun, "r1")
	body := gjson.Parse(w.Body.String())
	if w.Code != http.StatusOK || body.Get("model").Str != "vectors" || body.Get("data.0.embedding.0").Num != 0.25 || body.Get("usage.total_tokens").Num != 10 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if len(v.asked) != 1 || v.asked[0] != `{"input":["a"],"model":"vectors"}` || !strings.Contains(w.Header().Get("X-Stepfall-Not-Sent"), "novel") {
		t.Errorf("under a cap the model was asked %q, not sent %q", v.asked, w.Header().Get("X-Stepfall-Not-Sent"))
	}
	for name, want := range map[string]string{gateway.HeaderCostUSD: "0.001", gateway.HeaderModel: "vectors", gateway.HeaderModels: "vectors"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if w.Header().Get(gateway.HeaderTraceID) == "" || w.Header().Get("X-Request-ID") == "" {
		t.Errorf("headers: %v", w.Header())
	}
	if len(traces) != 1 || traces[0].Mode != sdk.ModeEmbeddings || traces[0].CostUSD != 0.001 || len(traces[0].Decisions) != 0 || traces[0].Usage.InputTokens != 10 {
		t.Errorf("traces: %+v", traces)
	}

	// A transient failure is retried, and the caller does not see it.
	v.fails = []error{&middleware.ProviderError{Status: 503, Code: llms.ErrCodeProviderUnavailable, Retry: true}}
	if w := post(g, "/v1/embeddings", request); w.Code != http.StatusOK || len(v.asked) != 3 {
		t.Errorf("after a failure: %d, %d calls", w.Code, len(v.asked))
	}
	// A permanent failure is reported, with its field and message.
	v.fails = []error{&middleware.ProviderError{Provider: "p", Status: 400, Code: llms.ErrCodeInvalidRequest, Param: "dimensions", Message: "too many"}}
	w = post(g, "/v1/embeddings", request)
	if w.Code != http.StatusBadRequest || gjson.Get(w.Body.String(), "error.param").Str != "dimensions" || w.Header().Get(gateway.HeaderTraceID) == "" {
		t.Errorf("refused: %d %s", w.Code, w.Body)
	}
	v.fails = []error{&middleware.ProviderError{Status: 401, Code: llms.ErrCodeAuthentication, Message: "bad key sk-abcdefghijklmnop"}}
	if w = post(g, "/v1/embeddings", request); w.Code != http.StatusBadGateway || strings.Contains(w.Body.String(), "sk-abc") {
		t.Errorf("a bad key: %d %s", w.Code, w.Body)
	}

	// The cap holds: each call can cost its bytes, some 0.005 USD, and costs 0.001.
	spent := 0
	for range 20 {
		if w = post(g, "/v1/embeddings", request, gateway.HeaderRun, "r1"); w.Code == http.StatusOK {
			spent++
			continue
		}
		if w.Code != http.StatusTooManyRequests || gjson.Get(w.Body.String(), "error.code").Str != "insufficient_quota" {
			t.Errorf("at the cap: %d %s", w.Code, w.Body)
		}
	}
	if spent == 0 || spent > 9 {
		t.Errorf("%d calls of 0.001 USD under what was left of a cap of 0.01", spent)
	}

	for model, why := range map[string]string{"small": "small does not support embeddings; there are: vectors", "stepfall": "stepfall does not support embeddings"} {
		w := post(g, "/v1/embeddings", `{"model": "`+model+`", "input": "a"}`)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), why) || gjson.Get(w.Body.String(), "error.param").Str != "model" {
			t.Errorf("%s: %d %s", model, w.Code, w.Body)
		}
	}
	if w := post(g, chatPath, `{"model": "vectors", "messages": [{"role": "user", "content": "hi"}]}`); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "only makes embeddings") {
		t.Errorf("an answer of an embedder: %d %s", w.Code, w.Body)
	}
	if w := post(g, chatPath, hello); w.Code != http.StatusOK {
		t.Errorf("an answer: %d %s", w.Code, w.Body)
	}
}

func TestEmbeddersWantEmbeddings(t *testing.T) {
	one := middleware.Candidate{Model: sdk.Model{Name: "a"}, LLM: says(llms.ContentChoice{})}
	for name, c := range map[string]middleware.Config{
		"does not support embeddings": {Models: []middleware.Candidate{one}, Embedders: []middleware.Candidate{{Model: sdk.Model{Name: "b"}, LLM: one.LLM}}},
		"already has that name":       {Models: []middleware.Candidate{one}, Embedders: []middleware.Candidate{{Model: sdk.Model{Name: "a"}, LLM: &vectors{}}}},
		"has no LLM":                  {Models: []middleware.Candidate{one}, Embedders: []middleware.Candidate{{Model: sdk.Model{Name: "b"}}}},
	} {
		if _, err := middleware.New(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want %q, got %v", name, err)
		}
	}
	m, err := middleware.New(middleware.Config{Models: []middleware.Candidate{one}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Embed(t.Context(), "b", nil); err == nil || errors.Is(err, sdk.ErrBudgetExhausted) {
		t.Error(err)
	}
}
