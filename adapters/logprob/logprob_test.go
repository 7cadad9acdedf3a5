package logprob_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"

	"github.com/stepfall/stepfall/adapters/logprob"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// request is what the test servers read of a request.
type request struct {
	Model       string   `json:"model"`
	Stream      bool     `json:"stream"`
	LogProbs    bool     `json:"logprobs"`
	TopLogProbs int      `json:"top_logprobs"`
	TopP        *float64 `json:"top_p"`
	Temperature *float64 `json:"temperature"`
	Messages    []struct {
		Content any `json:"content"`
	} `json:"messages"`
}

// serve starts a server and returns an OpenAI model behind the tap.
func serve(t *testing.T, handle func(w http.ResponseWriter, r request)) *openai.LLM {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in request
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Errorf("the request is not JSON: %v", err)
		}
		handle(w, in)
	}))
	t.Cleanup(server.Close)
	model, err := openai.New(openai.WithBaseURL(server.URL), openai.WithToken("none"), openai.WithModel("m"),
		openai.WithHTTPClient(&http.Client{Transport: &logprob.Transport{}}))
	if err != nil {
		t.Fatal(err)
	}
	return model
}

func say(text string) []llms.MessageContent {
	return []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, text)}
}

func tokenJSON(word string) string {
	return fmt.Sprintf(`{"token":%q,"logprob":-0.5,"top_logprobs":[{"token":%q,"logprob":-0.5},{"token":"no","logprob":-1.5}]}`, word, word)
}

func answer(w http.ResponseWriter, word string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"model":"m-2026","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%q},
		"logprobs":{"content":[%s]}}],
		"usage":{"prompt_tokens":10,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}}`,
		word, tokenJSON(word))
}

func stream(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		fmt.Fprintf(w, "data: %s\n\n", e)
		w.(http.Flusher).Flush()
	}
}

func wordEvent(word string) string {
	return fmt.Sprintf(`{"model":"m-2026","choices":[{"index":0,"delta":{"content":%q},"logprobs":{"content":[%s]}}]}`, word, tokenJSON(word))
}

func wantTokens(words ...string) []sdk.TokenLogProb {
	var out []sdk.TokenLogProb
	for _, w := range words {
		out = append(out, sdk.TokenLogProb{Token: w, LogProb: -0.5, Top: []sdk.TopLogProb{{Token: w, LogProb: -0.5}, {Token: "no", LogProb: -1.5}}})
	}
	return out
}

func TestAnAnswerIsCaptured(t *testing.T) {
	model := serve(t, func(w http.ResponseWriter, r request) {
		if !r.LogProbs || r.TopLogProbs != 2 || r.TopP == nil || *r.TopP != 0.25 || r.Temperature != nil {
			t.Errorf("the request was not changed as asked: %+v", r)
		}
		answer(w, "yes")
	})
	ctx, capture := logprob.WithCapture(t.Context(), logprob.Options{TopLogProbs: 2, TopP: 0.25, DropTemperature: true})
	resp, err := model.GenerateContent(ctx, say("?"))
	if err != nil {
		t.Fatal(err)
	}
	if resp.Choices[0].Content != "yes" {
		t.Errorf("the client read %q", resp.Choices[0].Content)
	}
	if diff := cmp.Diff([]logprob.Choice{{LogProbs: wantTokens("yes"), FinishReason: "stop"}}, capture.Choices()); diff != "" {
		t.Error(diff)
	}
	usage, ok := capture.Usage()
	if want := (sdk.Usage{InputTokens: 6, CachedInputTokens: 4, OutputTokens: 5, ReasoningTokens: 2}); !ok || usage != want {
		t.Errorf("usage %+v, want %+v", usage, want)
	}
	if capture.Status() != 200 || capture.ServedModel() != "m-2026" || capture.Truncated() {
		t.Errorf("status %d, served %q, truncated %v", capture.Status(), capture.ServedModel(), capture.Truncated())
	}
}

func TestACallWithoutACaptureIsUntouched(t *testing.T) {
	model := serve(t, func(w http.ResponseWriter, r request) {
		if r.LogProbs || r.Temperature == nil {
			t.Errorf("the request was changed: %+v", r)
		}
		answer(w, "yes")
	})
	if _, err := model.GenerateContent(t.Context(), say("?")); err != nil {
		t.Fatal(err)
	}
}

func TestAStreamIsCapturedAsItIsRead(t *testing.T) {
	model := serve(t, func(w http.ResponseWriter, _ request) {
		stream(w, wordEvent("a"), wordEvent("b"), `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, "[DONE]")
	})
	ctx, capture := logprob.WithCapture(t.Context(), logprob.Options{TopLogProbs: 2})
	var streamed strings.Builder
	_, err := model.GenerateContent(ctx, say("?"), llms.WithStreamingFunc(func(_ context.Context, chunk []byte) error {
		streamed.Write(chunk)
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if streamed.String() != "ab" {
		t.Errorf("the client streamed %q", streamed.String())
	}
	if diff := cmp.Diff([]logprob.Choice{{LogProbs: wantTokens("a", "b"), FinishReason: "stop"}}, capture.Choices()); diff != "" {
		t.Error(diff)
	}
	if capture.Truncated() {
		t.Error("a whole stream counts as truncated")
	}
	if usage, ok := capture.Usage(); !ok || usage.OutputTokens != 2 {
		t.Errorf("usage %+v %v", usage, ok)
	}
}

func TestACutStreamIsTruncated(t *testing.T) {
	model := serve(t, func(w http.ResponseWriter, _ request) {
		stream(w, wordEvent("a"), `{"error":{"message":"overloaded"}}`)
	})
	ctx, capture := logprob.WithCapture(t.Context(), logprob.Options{})
	// The client takes this for a success, which is why the tap watches.
	_, _ = model.GenerateContent(ctx, say("?"), llms.WithStreamingFunc(func(context.Context, []byte) error { return nil }))
	if !capture.Truncated() || capture.StreamError() != "overloaded" {
		t.Errorf("truncated %v, error %q", capture.Truncated(), capture.StreamError())
	}
}

func TestToolCallsStreamedInTurnsStayApart(t *testing.T) {
	piece := func(index int, id, name, args string) string {
		return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}]}}]}`, index, id, name, args)
	}
	model := serve(t, func(w http.ResponseWriter, _ request) {
		stream(w, piece(0, "c0", "add", `{"a":`), piece(1, "c1", "mul", `{"b":`), piece(0, "", "", "1}"), piece(1, "", "", "2}"), "[DONE]")
	})
	ctx, capture := logprob.WithCapture(t.Context(), logprob.Options{})
	_, _ = model.GenerateContent(ctx, say("?"), llms.WithStreamingFunc(func(context.Context, []byte) error { return nil }))
	want := []sdk.ToolCall{{ID: "c0", Name: "add", Arguments: `{"a":1}`}, {ID: "c1", Name: "mul", Arguments: `{"b":2}`}}
	if choices := capture.Choices(); len(choices) != 1 || cmp.Diff(want, choices[0].ToolCalls) != "" {
		t.Errorf("got %+v", choices)
	}
}

func TestAServerThatRefusesIsAskedPlainlyFromThenOn(t *testing.T) {
	var asked, plain atomic.Int32
	model := serve(t, func(w http.ResponseWriter, r request) {
		if r.LogProbs {
			asked.Add(1)
			http.Error(w, `{"error":{"message":"logprobs are not supported with this model"}}`, http.StatusBadRequest)
			return
		}
		plain.Add(1)
		answer(w, "yes")
	})
	for range 3 {
		ctx, capture := logprob.WithCapture(t.Context(), logprob.Options{TopLogProbs: 2})
		if _, err := model.GenerateContent(ctx, say("?")); err != nil {
			t.Fatal(err)
		}
		if !capture.Refused() || capture.Status() != 200 {
			t.Errorf("refused %v, status %d", capture.Refused(), capture.Status())
		}
	}
	if asked.Load() != 1 || plain.Load() != 3 {
		t.Errorf("asked %d times for log-probabilities and %d times without", asked.Load(), plain.Load())
	}
}

func TestAnotherBadRequestIsTheClientsToSee(t *testing.T) {
	var calls atomic.Int32
	model := serve(t, func(w http.ResponseWriter, _ request) {
		calls.Add(1)
		http.Error(w, `{"error":{"message":"messages must not be empty"}}`, http.StatusBadRequest)
	})
	ctx, _ := logprob.WithCapture(t.Context(), logprob.Options{TopLogProbs: 2})
	_, err := model.GenerateContent(ctx, say("?"))
	if err == nil || !strings.Contains(err.Error(), "messages must not be empty") || calls.Load() != 1 {
		t.Errorf("after %d calls: %v", calls.Load(), err)
	}
}

func TestStatusAndRetryAfterOfAnError(t *testing.T) {
	for _, test := range []struct {
		header, value string
		want          time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
		{"Retry-After", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), 0},
	} {
		model := serve(t, func(w http.ResponseWriter, _ request) {
			w.Header().Set(test.header, test.value)
			http.Error(w, "slow down", http.StatusTooManyRequests)
		})
		ctx, capture := logprob.WithCapture(t.Context(), logprob.Options{})
		if _, err := model.GenerateContent(ctx, say("?")); err == nil {
			t.Fatal("no error")
		}
		wait, ok := capture.RetryAfter()
		if capture.Status() != 429 || !ok || wait != test.want {
			t.Errorf("%s %s: status %d, wait %v %v", test.header, test.value, capture.Status(), wait, ok)
		}
	}
}

func TestCallsAtOnceNeverMix(t *testing.T) {
	model := serve(t, func(w http.ResponseWriter, r request) {
		word := fmt.Sprint(r.Messages[0].Content)
		if parts, ok := r.Messages[0].Content.([]any); ok {
			word = fmt.Sprint(parts[0].(map[string]any)["text"])
		}
		if r.Stream {
			stream(w, wordEvent(word), "[DONE]")
			return
		}
		answer(w, word)
	})
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			word := fmt.Sprint("w", i)
			ctx, capture := logprob.WithCapture(t.Context(), logprob.Options{TopLogProbs: 2})
			var options []llms.CallOption
			if i%2 == 0 {
				options = append(options, llms.WithStreamingFunc(func(context.Context, []byte) error { return nil }))
			}
			if _, err := model.GenerateContent(ctx, say(word), options...); err != nil {
				t.Error(err)
				return
			}
			if got := capture.Choices(); len(got) != 1 || cmp.Diff(wantTokens(word), got[0].LogProbs) != "" {
				t.Errorf("call %d captured %+v", i, got)
			}
		})
	}
	wg.Wait()
}

// FuzzAnswer feeds the tap with what a server might send and checks that the
// client reads exactly those bytes.
func FuzzAnswer(f *testing.F) {
	f.Add("text/event-stream", "data: "+wordEvent("a")+"\n\ndata: [DONE]\n")
	f.Add("application/json", `{"choices":[{"index":-1}]}`)
	f.Add("application/json", `{"choices":[{"index":99999999,"message":{"tool_calls":[{"index":99999999}]}}]}`)
	f.Fuzz(func(t *testing.T, contentType, body string) {
		tap := &logprob.Transport{Base: roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {contentType}},
				Body: io.NopCloser(strings.NewReader(body)),
			}, nil
		})}
		ctx, capture := logprob.WithCapture(t.Context(), logprob.Options{TopLogProbs: 1})
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://host/chat/completions", strings.NewReader(`{"model":"m"}`))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tap.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if string(got) != body {
			t.Errorf("the client read %q of %q", got, body)
		}
		capture.Choices()
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func BenchmarkTapStream(b *testing.B) {
	var body strings.Builder
	for range 500 {
		body.WriteString("data: " + wordEvent("token") + "\n\n")
	}
	body.WriteString("data: [DONE]\n\n")
	tap := &logprob.Transport{Base: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
			Body: io.NopCloser(strings.NewReader(body.String())),
		}, nil
	})}
	b.SetBytes(int64(body.Len()))
	b.ReportAllocs()
	for b.Loop() {
		ctx, _ := logprob.WithCapture(b.Context(), logprob.Options{TopLogProbs: 1})
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://host/chat/completions", strings.NewReader(`{"model":"m"}`))
		if err != nil {
			b.Fatal(err)
		}
		resp, err := tap.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTheMiddlewareReadsLogProbabilities(t *testing.T) {
	model := serve(t, func(w http.ResponseWriter, _ request) { answer(w, "yes") })
	var seen []sdk.TokenLogProb
	wrapped, err := middleware.New(middleware.Config{
		Models: []middleware.Candidate{{
			Model:       sdk.Model{Name: "m", Price: sdk.Price{Input: 1, Output: 1}},
			Deployments: []middleware.Deployment{{LLM: model, Tap: logprob.Tap{Options: logprob.Options{TopLogProbs: 2}}}},
		}},
		Step: step.Config{Estimators: []step.Estimator{{Estimator: sdk.QualityEstimatorFunc(func(_ context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
			for _, a := range req.Attempts {
				seen = a.Answer.LogProbs
			}
			return &sdk.QualityResponse{Estimates: []sdk.Estimate{sdk.Abstain()}}, nil
		})}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wrapped.GenerateContent(t.Context(), say("?")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantTokens("yes"), seen); diff != "" {
		t.Error(diff)
	}
}
