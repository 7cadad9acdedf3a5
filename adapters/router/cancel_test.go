package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// verbose is a provider that streams an answer of 400 words and records its bill: a word is a token, and words after
// the client disconnected are not generated.
type verbose struct {
	*httptest.Server

	down bool // the model "large" is
	hold bool // "small" says no more than a part until the client has gone

	// breaks makes "small" break off in the middle of the answer.
	breaks bool

	mu     sync.Mutex
	billed map[string]int
	asked  map[string]int
	left   map[string]chan struct{} // closed when the client hung up
}

const words, part = 400, 150

func newVerbose(t *testing.T) *verbose {
	t.Helper()
	s := &verbose{billed: map[string]int{}, asked: map[string]int{}, left: map[string]chan struct{}{"small": make(chan struct{}), "large": make(chan struct{})}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *verbose) count(to map[string]int, model string, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	to[model] += n
	return to[model]
}

func (s *verbose) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Model    string
		Stream   bool
		Messages []struct{ Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.count(s.asked, req.Model, 1)
	if req.Model == "large" && s.down {
		http.Error(w, `{"error":{"message":"overloaded"}}`, http.StatusInternalServerError)
		return
	}
	answer, logProb := strings.Repeat("word ", words), -0.1
	switch question := req.Messages[len(req.Messages)-1].Content; {
	case strings.Contains(question, "JSON") && req.Model == "large":
		answer = `{"ok": true}`
	case req.Model == "large":
	case strings.Contains(question, "refuse"):
		answer = "I'm sorry, but I can't do " + strings.Repeat("that ", words)
		if !req.Stream { // a check takes long answers for answers
			answer = "I'm sorry, but I can't do that."
		}
	case strings.Contains(question, "unsure"):
		logProb = -2.5
	}
	if !req.Stream {
		n := s.count(s.billed, req.Model, len(strings.Fields(answer)))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":%d}}`, answer, n)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	for i, word := range strings.SplitAfter(answer, " ") {
		wait := time.Millisecond
		if s.hold && req.Model == "small" && i == part {
			wait = time.Minute
		}
		if s.breaks && req.Model == "small" && i == part {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"logprobs\":{\"content\":[{\"token\":%q,\"logprob\":%g}]}}]}\n\n", word, word, logProb)
		_ = flush.Flush()
		s.count(s.billed, req.Model, 1)
		select {
		case <-r.Context().Done():
			close(s.left[req.Model])
			return
		case <-time.After(wait):
		}
	}
	fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", words)
}

func (s *verbose) router(t *testing.T, more string) (*router.Router, *[]*sdk.Trace) {
	t.Helper()
	text := more
	for i, name := range []string{"small", "large"} {
		text += fmt.Sprintf(`
model %q {
  provider          = "openai"
  base_url          = %q
  max_output_tokens = 1000
  capabilities      = ["json_mode", "log_probs", "tools"]
  quality {
    mean = %g
  }
  price {
    input_usd_per_million  = %d
    output_usd_per_million = %d
  }
}
`, name, s.URL+"/v1", 0.8+0.1*float64(i), 1+9*i, 1+9*i)
	}
	path := filepath.Join(t.TempDir(), "policy.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var traces []*sdk.Trace
	r, err := full.Open(t.Context(), path, router.Options{Traces: func(_ context.Context, tr *sdk.Trace) { traces = append(traces, tr) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, &traces
}

func question(text string) []llms.MessageContent {
	return []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, text)}
}

// A draft that checks are certain to reject is not paid to its end.
func TestHopelessDraftsAreCancelled(t *testing.T) {
	const cancels = "stream {\n  mode = %q\n  cancel_drafts = true\n  min_token_probability = 0.3\n}\nretry { max_attempts = 1 }\n"
	for _, strategy := range []string{`strategy "cascade_route" { lambda = 100 }`, `strategy "route" { lambda = 100 }`} {
		for _, mode := range []string{"buffer", "commit"} {
			for _, tt := range []struct {
				ask, check string
				options    []llms.CallOption
			}{
				{"refuse", "check:refusal", nil},
				{"give me JSON", "check:json", []llms.CallOption{llms.WithJSONMode()}},
				{"unsure", "check:token_probability", nil},
			} {
				s := newVerbose(t)
				s.hold = true
				r, traces := s.router(t, strategy+"\n"+fmt.Sprintf(cancels, mode))
				var shown strings.Builder
				options := append(tt.options, llms.WithStreamingFunc(func(_ context.Context, piece []byte) error {
					shown.Write(piece)
					return nil
				}))
				resp, err := r.GenerateContent(t.Context(), question(tt.ask), options...)
				if err != nil {
					t.Fatal(err)
				}
				if got := resp.Choices[0].Content; got != shown.String() || strings.Contains(got, "sorry") || got == "" {
					t.Errorf("%s %s %s: got %q, shown %q", strategy, mode, tt.ask, got, &shown)
				}
				select {
				case <-s.left["small"]:
				case <-t.Context().Done():
				case <-time.After(time.Minute):
					t.Fatal("the provider was not left")
				}
				call := (*traces)[0].Calls[0]
				if call.Model != "small" || call.StopReason != sdk.StopReasonCancelled || call.Verdict == nil || call.Verdict.Verifier != tt.check || call.Verdict.Outcome != sdk.Failed || call.Error != "" {
					t.Errorf("%s %s %s: the trace has %+v", strategy, mode, tt.ask, call)
				}
				billed := s.count(s.billed, "small", 0)
				if billed > part+1 {
					t.Errorf("%s %s %s: %d tokens of %d were made", strategy, mode, tt.ask, billed, words)
				}
				if got := call.Usage.OutputTokens; got < 1 || got > 2*billed+2 || !call.Usage.Estimated || call.CostUSD <= 0 {
					t.Errorf("%s %s %s: booked %+v for a bill of %d tokens", strategy, mode, tt.ask, call.Usage, billed)
				}
				if len((*traces)[0].Calls) != 2 || (*traces)[0].Chosen != "large" {
					t.Errorf("%s %s %s: %+v", strategy, mode, tt.ask, (*traces)[0])
				}
			}
		}
	}
}

// An answer with high token probabilities is still streamed live, once that is known.
func TestSureAnswersStillComeLive(t *testing.T) {
	s := newVerbose(t)
	r, traces := s.router(t, "strategy \"cascade_route\" { lambda = 100 }\nstream {\n  mode = \"commit\"\n  cancel_drafts = true\n  min_token_probability = 0.3\n}\n")
	pieces, shown := 0, ""
	resp, err := r.GenerateContent(t.Context(), question("tell me"), llms.WithStreamingFunc(func(_ context.Context, piece []byte) error {
		pieces, shown = pieces+1, shown+string(piece)
		return nil
	}))
	if err != nil || shown != resp.Choices[0].Content || pieces < words-1 || len((*traces)[0].Calls) != 1 {
		t.Errorf("%d pieces, %d calls, %v", pieces, len((*traces)[0].Calls), err)
	}
}

// A draft that its server breaks off is booked with the part that arrived, whether it was shown or not.
func TestBrokenDraftCostsWhatArrived(t *testing.T) {
	for _, mode := range []string{"buffer", "commit"} {
		s := newVerbose(t)
		s.breaks = true
		r, traces := s.router(t, fmt.Sprintf("strategy \"cascade_route\" { lambda = 100 }\nstream {\n  mode = %q\n  cancel_drafts = true\n}\nretry { max_attempts = 1 }\n", mode))
		_, _ = r.GenerateContent(t.Context(), question("tell"), llms.WithStreamingFunc(func(context.Context, []byte) error { return nil })) // an error if it was shown
		got := (*traces)[0].Calls[0].Usage
		if want := (len("word ")*part + 3) / 4; got.OutputTokens != want || !got.Estimated {
			t.Errorf("%s: %+v, want %d tokens", mode, got, want)
		}
	}
}

// A draft is only cancelled if another model is called next, and is never returned.
func TestDraftsThatAreNeeded(t *testing.T) {
	t.Run("the others fail", func(t *testing.T) {
		s := newVerbose(t)
		s.down = true
		r, traces := s.router(t, "strategy \"cascade_route\" { lambda = 100 }\nstream { cancel_drafts = true }\nretry { max_attempts = 1 }\n")
		resp, err := r.GenerateContent(t.Context(), question("refuse"))
		if err != nil || resp.Choices[0].Content != "I'm sorry, but I can't do that." {
			t.Fatalf("%+v, %v", resp, err)
		}
		tr := (*traces)[0]
		if s.count(s.asked, "small", 0) != 2 || tr.Chosen != "small" || len(tr.Calls) != 3 || tr.Calls[2].Verdict == nil || tr.Calls[2].StopReason != "stop" {
			t.Errorf("%+v", tr)
		}
	})
	t.Run("all fail", func(t *testing.T) {
		s := newVerbose(t)
		s.down = true
		r, _ := s.router(t, "strategy \"cascade_route\" { lambda = 100 }\nbudget { step_usd = 0.0131 }\nstream { cancel_drafts = true }\nretry { max_attempts = 1 }\n")
		if resp, err := r.GenerateContent(t.Context(), question("refuse")); err == nil && resp.Choices[0].Content != "I'm sorry, but I can't do that." {
			t.Errorf("a part of an answer: %+v", resp.Choices[0])
		}
	})
	for name, tt := range map[string]struct {
		policy, ask string
		options     []llms.CallOption
	}{
		"not asked for":         {"strategy \"cascade_route\" { lambda = 100 }\n", "refuse", nil},
		"no room for the other": {"strategy \"cascade_route\" { lambda = 100 }\nbudget { step_usd = 0.0105 }\nstream { cancel_drafts = true }\n", "refuse", nil},
		"pinned":                {"strategy \"cascade_route\" { lambda = 100 }\nstream { cancel_drafts = true }\n", "refuse", []llms.CallOption{llms.WithModel("small")}},
		"tools on offer": {"strategy \"cascade_route\" { lambda = 100 }\nstream { cancel_drafts = true }\n", "refuse", []llms.CallOption{
			llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "f"}}})}},
		"several choices": {"strategy \"cascade_route\" { lambda = 100 }\nstream { cancel_drafts = true }\n", "refuse", []llms.CallOption{middleware.WithParams(middleware.Params{N: new(2)})}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newVerbose(t)
			r, traces := s.router(t, tt.policy)
			if _, err := r.GenerateContent(t.Context(), question(tt.ask), tt.options...); err != nil {
				t.Fatal(err)
			}
			if call := (*traces)[0].Calls[0]; call.StopReason == sdk.StopReasonCancelled || call.Usage.Estimated {
				t.Errorf("%+v", call)
			}
		})
	}
}
