package router_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// usurer is an upstream of every API that bills the longest permitted answers, and reports the usage that the test
// sets.
type usurer struct {
	mu       sync.Mutex
	report   string  // in place of the number of output tokens; "" reports none
	input    int     // tokens of input that are reported; 0 is 1
	more     string  // further members of the usage
	billed   float64 // US dollars
	calls    int
	longest  int // unlimited where it was not told a limit
	embedded int
}

const (
	unlimited   = 100_000
	usdPerToken = 1e-4 // of output; input is free but for embeddings
)

func (u *usurer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	var asked struct {
		MaxTokens     int  `json:"max_tokens"`
		MaxCompletion int  `json:"max_completion_tokens"`
		MaxOutput     int  `json:"max_output_tokens"`
		N             int  `json:"n"`
		Stream        bool `json:"stream"`
		Options       struct {
			NumPredict int `json:"num_predict"`
		} `json:"options"`
		Config struct {
			MaxOutput int `json:"maxOutputTokens"`
			N         int `json:"candidateCount"`
		} `json:"generationConfig"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls++
	usage := func(input, output string) string {
		if u.report == "" {
			return "null"
		}
		return fmt.Sprintf(`{%q: %d, %q: %s%s}`, input, max(u.input, 1), output, u.report, u.more)
	}
	if strings.HasSuffix(req.URL.Path, "/embeddings") {
		u.embedded += len(body)
		fmt.Fprintf(w, `{"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [1]}], "usage": %s}`, strings.Replace(usage("prompt_tokens", "total_tokens"), "1", cmp.Or(u.report, "1"), 1))
		return
	}
	limit := cmp.Or(max(asked.MaxTokens, asked.MaxCompletion, asked.MaxOutput, asked.Options.NumPredict, asked.Config.MaxOutput), unlimited)
	u.longest = max(u.longest, limit)
	if u.report == "5" { // the truth, for once
		limit = 5
	}
	u.billed += float64(limit*max(asked.N, asked.Config.N, 1)) * usdPerToken
	event := func(format string, args ...any) { fmt.Fprintf(w, "data: "+format+"\n\n", args...) }
	stream := asked.Stream || strings.Contains(req.URL.Path, ":stream")
	if stream && !strings.HasSuffix(req.URL.Path, "/api/chat") {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	switch {
	case strings.HasSuffix(req.URL.Path, "/chat/completions"):
		used := usage("prompt_tokens", "completion_tokens")
		if !stream {
			fmt.Fprintf(w, `{"id": "1", "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}], "usage": %s}`, used)
			return
		}
		event(`{"id": "1", "choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}`)
		event(`{"id": "1", "choices": [], "usage": %s}`, used)
		event("[DONE]")
	case strings.HasSuffix(req.URL.Path, "/responses"):
		whole := fmt.Sprintf(`{"id": "1", "object": "response", "status": "completed", "output": [{"type": "message", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "ok"}]}], "usage": %s}`,
			usage("input_tokens", "output_tokens"))
		if !stream {
			io.WriteString(w, whole)
			return
		}
		event(`{"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "ok"}`)
		event(`{"type": "response.completed", "response": %s}`, whole)
	case strings.HasSuffix(req.URL.Path, "/messages"):
		used := usage("input_tokens", "output_tokens")
		if !stream {
			fmt.Fprintf(w, `{"id": "1", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn", "usage": %s}`, used)
			return
		}
		event(`{"type": "message_start", "message": {"id": "1", "type": "message", "role": "assistant", "content": []}}`)
		event(`{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}`)
		event(`{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}}`)
		event(`{"type": "content_block_stop", "index": 0}`)
		event(`{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": %s}`, used)
		event(`{"type": "message_stop"}`)
	case strings.HasSuffix(req.URL.Path, "/api/chat"):
		counts := ""
		if u.report != "" {
			counts = fmt.Sprintf(`, "prompt_eval_count": %d, "eval_count": %s`, max(u.input, 1), u.report)
		}
		fmt.Fprintf(w, `{"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": {"role": "assistant", "content": "ok"}, "done": true, "done_reason": "stop"%s}`+"\n", counts)
	default:
		whole := fmt.Sprintf(`{"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}], "usageMetadata": %s}`,
			usage("promptTokenCount", "candidatesTokenCount"))
		if stream {
			event("%s", whole)
			return
		}
		io.WriteString(w, whole)
	}
}

// The upstream's bill stays within every cap, whatever the client requests and whatever usage the upstream
// reports.
func TestCapsHoldInEveryDialect(t *testing.T) {
	const usdCap, longest = 0.25, 1000 // one call of the longest answer is 0.1 USD
	t.Setenv("NO_KEY", "none")
	for _, dialect := range []string{"openai", "openai responses", "anthropic", "gemini", "ollama"} {
		for _, level := range []string{"step", "run", "tenant"} {
			t.Run(dialect+" "+level, func(t *testing.T) {
				t.Parallel()
				u := &usurer{}
				server := httptest.NewServer(u)
				defer server.Close()
				provider, api, _ := strings.Cut(dialect, " ")
				if api != "" {
					api = "api = \"responses\"\n"
				}
				r := open(t, fmt.Sprintf(`
model "m" {
  provider          = %q
  base_url          = %q
  api_key           = env("NO_KEY")
  max_output_tokens = %d
  %s
  price {
    input_usd_per_million  = 0.0001
    output_usd_per_million = %g
  }
}
strategy "route" { lambda = 1 }
budget { %s_usd = %g }
retry { max_attempts = 1 }
`, provider, server.URL, longest, api, usdPerToken*1e6, level, usdCap))
				for _, report := range []string{"", "0", "-1000", "0.5", "5", "1e6", "4e18"} {
					if provider == "gemini" && (report == "0.5" || report == "4e18") {
						continue // its SDK reads no answer with such a number
					}
					for _, limit := range []int{0, 40, 1_000_000, 2_000_000_000, -7} {
						for _, stream := range []bool{false, true} {
							for _, n := range []int{1, 2} {
								if n > 1 && (provider == "anthropic" || provider == "ollama") {
									continue // their APIs give one answer, so that the model is not asked for two
								}
								name := fmt.Sprintf("%s reported, limit %d, streamed %v, %d choices", cmp.Or(report, "nothing"), limit, stream, n)
								u.report, u.billed, u.calls, u.longest = report, 0, 0, 0
								options := []llms.CallOption{llms.WithN(n), middleware.WithParams(middleware.Params{
									Dialect: map[string]middleware.Dialect{"openai": middleware.DialectChat, "anthropic": middleware.DialectAnthropic, "gemini": middleware.DialectGemini, "ollama": middleware.DialectOllama}[dialect],
									Extra:   map[string]json.RawMessage{"max_tokens": []byte("99999"), "generationConfig": []byte(`{"maxOutputTokens": 99999}`), "options": []byte(`{"num_predict": 99999}`), "unknown": []byte("1")},
								})}
								if limit != 0 {
									options = append(options, llms.WithMaxTokens(limit))
								}
								if stream {
									options = append(options, llms.WithStreamingFunc(func(context.Context, []byte) error { return nil }))
								}
								ctx := middleware.WithInfo(t.Context(), middleware.Info{Run: name, Tenant: name})
								excluded := false // a model that gives one answer is not asked for two
								for range 4 {
									before := u.billed
									_, err := r.GenerateContent(ctx, []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "hello")}, options...)
									if level == "step" && u.billed-before > usdCap {
										t.Fatalf("%s: %v USD in a step", name, u.billed-before)
									}
									excluded = n > 1 && err != nil && strings.Contains(err.Error(), "rejects n above 1")
									if err != nil && !excluded && !strings.Contains(err.Error(), "budget exhausted") {
										t.Fatalf("%s: %v", name, err)
									}
								}
								if excluded && u.calls == 0 {
									continue
								}
								if level != "step" && u.billed > usdCap || u.calls == 0 {
									t.Errorf("%s: %v USD in %d calls", name, u.billed, u.calls)
								}
								want := longest
								if limit == 40 {
									want = 40
								}
								if u.longest != want {
									t.Errorf("%s: asked for %d tokens, want %d", name, u.longest, want)
								}
							}
						}
					}
				}
			})
		}
	}
}

// Accepted usage stays within every cap, for prompts of every kind: the largest bill that a step accepts is the one
// that it reserved.
func TestCapsHoldAtTheEdgeOfTheBelievable(t *testing.T) {
	const usdCap = 1.5
	t.Setenv("NO_KEY", "none")
	say := llms.TextParts(llms.ChatMessageTypeHuman, "hello")
	picture := llms.MessageContent{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.TextContent{Text: "what is it?"}, llms.BinaryContent{MIMEType: "image/png", Data: []byte("png")}}}
	document := llms.MessageContent{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.TextContent{Text: "what is it?"}, middleware.FilePart{MIMEType: "application/pdf", Data: []byte("pdf")}}}
	hour := llms.MessageContent{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.CachedContent{ContentPart: llms.TextContent{Text: "hello"}, CacheControl: &llms.CacheControl{Type: "ephemeral", Duration: time.Hour}}}}
	find := llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "find", Parameters: map[string]any{"type": "object"}}}})
	prompts := map[string]struct {
		message llms.MessageContent
		options []llms.CallOption
	}{
		"short": {say, nil}, "tools": {say, []llms.CallOption{find}}, "a picture": {picture, nil}, "a document": {document, nil}, "kept for an hour": {hour, nil},
		"a search": {say, []llms.CallOption{middleware.WithParams(middleware.Params{Dialect: middleware.DialectAnthropic, RawTools: []json.RawMessage{[]byte(`{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}`)}})}},
		"priority": {say, []llms.CallOption{middleware.WithParams(middleware.Params{ServiceTier: "priority"})}},
	}
	// All combinations need thousands of calls: the sample sends each prompt either whole or streamed, alternating with
	// the dialect.
	all := os.Getenv("STEPFALL_ATTACKS") == "all"
	for d, dialect := range []string{"openai", "openai responses", "anthropic", "gemini", "ollama"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			u := &usurer{report: "5"}
			server := httptest.NewServer(u)
			defer server.Close()
			provider, api, _ := strings.Cut(dialect, " ")
			if api != "" {
				api = "api = \"responses\"\n"
			}
			r := open(t, fmt.Sprintf(`
model "m" {
  provider          = %q
  base_url          = %q
  api_key           = env("NO_KEY")
  max_output_tokens = 100
  context_tokens    = 30000
  capabilities      = ["tools", "images"]
  %s
  price {
    input_usd_per_million        = 10
    cached_input_usd_per_million = 10
    cache_write_usd_per_million  = 12.5
    output_usd_per_million       = 100
  }
}
strategy "route" { lambda = 1 }
budget { run_usd = %g }
retry { max_attempts = 1 }
`, provider, server.URL, api, usdCap))
			believed := map[string]int{}
			for name, prompt := range prompts {
				for _, stream := range []bool{false, true} {
					if !all && stream != ((d+len(name))%2 == 0) {
						continue
					}
					for _, more := range []string{"", "written", "cached"} {
						for _, input := range []int{1900, 2013, 2900, 3020, 12_000, 31_000, 61_000, 92_000} {
							u.input, u.more = input, ""
							price := 10.0
							switch {
							case more == "written" && provider == "anthropic":
								u.input, u.more, price = 1, fmt.Sprintf(`, "cache_creation_input_tokens": %d`, input), 12.5
							case more == "cached" && provider == "anthropic":
								u.input, u.more = 1, fmt.Sprintf(`, "cache_read_input_tokens": %d`, input)
							case more == "cached" && dialect == "openai":
								u.more = fmt.Sprintf(`, "prompt_tokens_details": {"cached_tokens": %d}`, input)
							case more != "":
								continue
							}
							if name == "kept for an hour" && more == "written" {
								price = 20
							}
							if name == "priority" && provider != "anthropic" && provider != "ollama" { // they are not sent it
								price *= 2
							}
							options := slices.Clone(prompt.options)
							if stream {
								options = append(options, llms.WithStreamingFunc(func(context.Context, []byte) error { return nil }))
							}
							run := fmt.Sprint(name, stream, more, input)
							ctx, rep := middleware.WithReport(middleware.WithInfo(t.Context(), middleware.Info{Run: run}))
							for range 2 + min(60, int(2*usdCap*1e6/price)/input) {
								if _, err := r.GenerateContent(ctx, []llms.MessageContent{prompt.message}, options...); err != nil {
									break
								}
							}
							bill := 0.0
							for _, step := range rep.Steps() {
								for _, c := range step.Calls {
									if c.Error == "" && c.UsageDoubt == "" {
										bill += float64(input) * price / 1e6
										believed[name] = max(believed[name], input)
									}
								}
							}
							if bill > usdCap+1e-9 {
								t.Errorf("%s: the upstream bills %v USD", run, bill)
							}
						}
					}
				}
			}
			for name, least := range map[string]int{"short": 1900, "tools": 2900, "kept for an hour": 1900} {
				if believed[name] < least {
					t.Errorf("%s: at most %d tokens are believed, want %d", name, believed[name], least)
				}
			}
			if provider == "anthropic" && (believed["a picture"] < 12_000 || believed["a document"] < 31_000 || believed["a search"] < 61_000) {
				t.Errorf("at most %v tokens are believed", believed)
			}
		})
	}
}

// Embeddings also stay within a cap if the server reports no usage, or less than it bills.
func TestCapsHoldForEmbeddings(t *testing.T) {
	for _, report := range []string{"", "0", "-5", "1e12", "0.5"} {
		u := &usurer{report: report}
		server := httptest.NewServer(u)
		r := open(t, fmt.Sprintf(`
model "m" {
  provider          = "openai"
  base_url          = %[1]q
  max_output_tokens = 10
  price { free = true }
}
model "e" {
  provider     = "openai"
  base_url     = %[1]q
  capabilities = ["embeddings"]
  price {
    input_usd_per_million  = 1000
    output_usd_per_million = 0
  }
}
strategy "route" { lambda = 1 }
budget { run_usd = 0.25 }
`, server.URL))
		ctx := middleware.WithInfo(t.Context(), middleware.Info{Run: "r"})
		for range 30 {
			_, err := r.Embed(ctx, "e", []byte(`{"input": "`+strings.Repeat("word ", 10)+`"}`))
			if err != nil && !strings.Contains(err.Error(), "budget exhausted") {
				t.Fatalf("%q reported: %v", report, err)
			}
		}
		// One token per byte is more than any upstream bills.
		if usd := float64(u.embedded) / 1e3; usd/4 > 0.25 || u.calls == 0 || u.calls == 30 {
			t.Errorf("%q reported: %d calls of %v USD", report, u.calls, usd/4)
		}
		server.Close()
	}
}
