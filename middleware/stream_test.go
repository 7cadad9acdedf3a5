package middleware_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/redact"
	"github.com/stepfall/stepfall/sdk/step"
)

// chunks collects what a streaming caller is shown.
type chunks struct{ list []string }

func (c *chunks) option() llms.CallOption {
	return llms.WithStreamingFunc(func(_ context.Context, chunk []byte) error {
		c.list = append(c.list, string(chunk))
		clear(chunk)
		return nil
	})
}

func cutOff(content string) *fake {
	return &fake{say: func(context.Context, []llms.MessageContent, *llms.CallOptions) (*llms.ContentResponse, error) {
		resp := text(content)
		resp.Choices[0].StopReason = "length"
		return resp, nil
	}}
}

func TestNoTokenOfARejectedDraftIsShown(t *testing.T) {
	for _, mode := range []middleware.StreamMode{"", middleware.Buffer, middleware.Commit, middleware.Passthrough} {
		draft := cutOff("draft")
		if mode == middleware.Commit {
			draft = says("I'm sorry, but I can't do that.") // what is cut off, nobody knows before it has been shown
		}
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(draft), large(says("final"))}, Stream: mode})
		var seen chunks
		resp, err := m.GenerateContent(t.Context(), human("q"), seen.option())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(seen.list, ""); got != "final" || resp.Choices[0].Content != "final" {
			t.Errorf("%s: saw %q, got %q", mode, got, resp.Choices[0].Content)
		}
		if live := len(seen.list) > 1; live != (mode == middleware.Commit) {
			t.Errorf("%s: %d chunks", mode, len(seen.list))
		}
	}
}

func TestPassthroughStreamsASingleCandidateLive(t *testing.T) {
	for _, models := range [][]middleware.Candidate{{small(says("hello"))}, {small(says("hello")), large(says("other"))}} {
		m := wrap(t, middleware.Config{Models: models, Stream: middleware.Passthrough})
		var seen chunks
		if _, err := m.GenerateContent(t.Context(), human("q"), seen.option()); err != nil {
			t.Fatal(err)
		}
		want := []string{"hello"}
		if len(models) == 1 {
			want = strings.Split("hello", "")
		}
		if !slices.Equal(seen.list, want) {
			t.Errorf("%d candidates: chunks %q", len(models), seen.list)
		}
	}
}

func TestCommitStreamsRoutedAnswersLive(t *testing.T) {
	route, err := cascade.New(cascade.NameRoute, cascade.Params{})
	if err != nil {
		t.Fatal(err)
	}
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(says("no")), large(cutOff("live"))}, Stream: middleware.Commit, Step: step.Config{Strategy: route}})
	var seen chunks
	resp, err := m.GenerateContent(t.Context(), human("q"), seen.option())
	if err != nil || resp.Choices[0].Content != "live" || len(seen.list) != 4 {
		t.Errorf("%v, %v, chunks %q: the answer that was shown must be the step's", resp, err, seen.list)
	}
}

func TestStreamThatBreaksAfterTokensWereShownEndsTheStep(t *testing.T) {
	broken := errors.New("API returned unexpected status code: 500")
	half := &fake{say: func(ctx context.Context, _ []llms.MessageContent, o *llms.CallOptions) (*llms.ContentResponse, error) {
		if o.StreamingFunc != nil {
			if err := o.StreamingFunc(ctx, []byte("half an ans")); err != nil {
				return nil, err
			}
		}
		return nil, broken
	}}
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(half)}, Stream: middleware.Passthrough})
	var seen chunks
	ctx, rep := middleware.WithReport(t.Context())
	_, err := m.GenerateContent(ctx, human("q"), seen.option())
	if !errors.Is(err, broken) || half.calls.Load() != 1 || len(seen.list) != 1 {
		t.Errorf("%v, %d calls, chunks %q", err, half.calls.Load(), seen.list)
	}
	if u := rep.Usage(); u.OutputTokens == 0 || !u.Estimated {
		t.Errorf("the tokens that came were not counted: %+v", u)
	}
}

func TestCallerStopsTheStream(t *testing.T) {
	enough := errors.New("enough")
	for _, mode := range []middleware.StreamMode{middleware.Buffer, middleware.Passthrough} {
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(says("hello"))}, Stream: mode})
		_, err := m.GenerateContent(t.Context(), human("q"), llms.WithStreamingFunc(func(context.Context, []byte) error { return enough }))
		if !errors.Is(err, enough) {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

func TestTruncatedLiveStreamIsAnError(t *testing.T) {
	cut := &fake{say: func(context.Context, []llms.MessageContent, *llms.CallOptions) (*llms.ContentResponse, error) {
		resp := text("half")
		resp.Choices[0].StopReason = ""
		return resp, nil
	}}
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{as(small(cut), "openai")}, Stream: middleware.Passthrough})
	var seen chunks
	if _, err := m.GenerateContent(t.Context(), human("q"), seen.option()); !errors.Is(err, middleware.ErrTruncatedStream) {
		t.Errorf("error %v", err)
	}
}

func TestReasoningIsReplayed(t *testing.T) {
	thinks := text("answer")
	thinks.Choices[0].ReasoningContent = "thought"
	m := one(t, small(keeps(thinks)))
	var got []string
	_, err := m.GenerateContent(t.Context(), human("q"), llms.WithStreamingReasoningFunc(func(_ context.Context, reasoning, chunk []byte) error {
		got = append(got, string(reasoning), string(chunk))
		return nil
	}))
	if err != nil || !slices.Equal(got, []string{"thought", "answer"}) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestToolCallsOnlyStreamNothing(t *testing.T) {
	call := text("")
	call.Choices[0].ToolCalls = []llms.ToolCall{{ID: "1", FunctionCall: &llms.FunctionCall{Name: "a", Arguments: "{}"}}}
	var seen chunks
	_, err := one(t, small(keeps(call))).GenerateContent(t.Context(), human("q"), seen.option(),
		llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "a"}}}))
	if err != nil || len(seen.list) != 0 {
		t.Errorf("chunks %q, %v", seen.list, err)
	}
}

// routed is a cascade whose answers are not judged: small is worth its price.
func routed(t *testing.T, smallModel, largeModel *fake, mode middleware.StreamMode) *middleware.Model {
	t.Helper()
	s, err := cascade.New(cascade.NameCascadeRoute, cascade.Params{Lambdas: []float64{50}})
	if err != nil {
		t.Fatal(err)
	}
	return wrap(t, middleware.Config{Models: []middleware.Candidate{small(smallModel), large(largeModel)}, Step: step.Config{Strategy: s}, Stream: mode})
}

// If only free checks judge an answer, it is streamed live, with any strategy; a refusal is held back, and another
// model's answer is shown in its place.
func TestCommitStreamsWhatNobodyLooksAt(t *testing.T) {
	for _, tt := range []struct {
		small, want string
		live        bool
	}{
		{"a long answer that takes its time", "a long answer that takes its time", true},
		{"I'm sorry, but I cannot help you with that.", "from large", true},
		{"I'm sorry to hear it. Here is what to do.", "I'm sorry to hear it. Here is what to do.", true},
		{"I", "I", false}, // too short to tell from the beginning of a refusal
	} {
		var seen chunks
		resp, err := routed(t, says(tt.small), says("from large"), middleware.Commit).GenerateContent(t.Context(), human("q"), seen.option())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(seen.list, ""); got != tt.want || resp.Choices[0].Content != tt.want {
			t.Errorf("%q: saw %q, got %q, want %q", tt.small, got, resp.Choices[0].Content, tt.want)
		}
		if live := len(seen.list) > 1; live != tt.live {
			t.Errorf("%q came in %d pieces", tt.small, len(seen.list))
		}
	}
}

// With tools on offer, a check may still reject the complete answer.
func TestCommitHoldsBackWhatChecksMayReject(t *testing.T) {
	var seen chunks
	_, err := routed(t, says("no JSON at all"), says(`{"a": 1}`), middleware.Commit).GenerateContent(t.Context(), human("q"), seen.option(), llms.WithJSONMode())
	if got := strings.Join(seen.list, ""); err != nil || got != `{"a": 1}` {
		t.Errorf("saw %q, %v", got, err)
	}
}

// A reader that has disconnected does not get another model's answer, and none is paid for.
func TestReaderWhoHasGoneEndsTheStep(t *testing.T) {
	gone := errors.New("connection reset by the reader")
	second := says("from large")
	_, err := routed(t, says("an answer"), second, middleware.Commit).GenerateContent(t.Context(), human("q"),
		llms.WithStreamingFunc(func(context.Context, []byte) error { return gone }))
	if !errors.Is(err, gone) || second.calls.Load() != 0 {
		t.Errorf("%v; the second model was asked %d times", err, second.calls.Load())
	}
	// Buffer also calls only one model, and the error states the reason.
	_, err = routed(t, says("an answer"), second, middleware.Buffer).GenerateContent(t.Context(), human("q"),
		llms.WithStreamingFunc(func(context.Context, []byte) error { return gone }))
	if !errors.Is(err, gone) || second.calls.Load() != 0 {
		t.Errorf("%v; the second model was asked %d times", err, second.calls.Load())
	}
}

// An error of the caller's function, and the end of the call that it causes, are not failures of the model.
func TestStreamThatItsReaderEndsIsNoFailureOfTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var call sdk.Call
		answer := func() (*llms.ContentResponse, error) {
			return nil, errors.New("API returned unexpected status code: 500")
		}
		model := &fake{say: func(context.Context, []llms.MessageContent, *llms.CallOptions) (*llms.ContentResponse, error) {
			return answer()
		}}
		m := wrap(t, middleware.Config{
			Models: []middleware.Candidate{small(model)}, Stream: middleware.Passthrough,
			Breaker: middleware.BreakerConfig{Failures: 1, Delay: time.Minute},
			Step: step.Config{Retry: step.Retry{MaxAttempts: 1}, Traces: func(_ context.Context, t *sdk.Trace) {
				if len(t.Calls) > 0 {
					call = t.Calls[0]
				}
			}},
		})
		if _, err := m.GenerateContent(t.Context(), human("q")); err == nil {
			t.Fatal("no failure to begin with")
		}
		time.Sleep(time.Minute) // the circuit lets one call through
		answer = func() (*llms.ContentResponse, error) { return text("an answer"), nil }
		gone := errors.New("write: unexpected EOF")
		_, err := m.GenerateContent(t.Context(), human("q"), llms.WithStreamingFunc(func(context.Context, []byte) error { return gone }))
		if typed, ok := errors.AsType[*llms.Error](err); !errors.Is(err, gone) || !ok || typed.Code != llms.ErrCodeUnknown {
			t.Errorf("%v (%+v)", err, typed)
		}
		if call.Failed() {
			t.Errorf("the trace has a failure of the model: %+v", call)
		}
		if _, err := m.GenerateContent(t.Context(), human("q")); err != nil {
			t.Errorf("the circuit was opened by the reader: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		answer = func() (*llms.ContentResponse, error) { cancel(); return nil, ctx.Err() }
		if _, err := m.GenerateContent(ctx, human("q")); !errors.Is(err, context.Canceled) || call.Failed() {
			t.Errorf("%v, and the trace has a failure of the model: %+v", err, call)
		}
	})
}

// Some clients continue and return the answer although the caller's function returned an error.
func TestErrorOfTheReaderIsReturnedThoughAClientGoesOn(t *testing.T) {
	enough := errors.New("enough")
	deaf := &fake{say: func(ctx context.Context, _ []llms.MessageContent, o *llms.CallOptions) (*llms.ContentResponse, error) {
		_ = o.StreamingFunc(ctx, []byte("an answer"))
		o.StreamingFunc = nil
		return text("an answer"), nil
	}}
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(deaf)}, Stream: middleware.Passthrough})
	if _, err := m.GenerateContent(t.Context(), human("q"), llms.WithStreamingFunc(func(context.Context, []byte) error { return enough })); !errors.Is(err, enough) {
		t.Error(err)
	}
}

func TestSchemaThatIsNotJSONIsTheCallersError(t *testing.T) {
	model := says("{}")
	_, err := wrap(t, middleware.Config{Models: []middleware.Candidate{small(model)}}).GenerateContent(t.Context(), human("q"),
		middleware.WithParams(middleware.Params{Schema: &middleware.Schema{Name: "s", Schema: []byte(`{"type":`)}}))
	if typed, ok := errors.AsType[*llms.Error](err); !ok || typed.Code != llms.ErrCodeInvalidRequest || model.calls.Load() != 0 {
		t.Errorf("%v after %d calls", err, model.calls.Load())
	}
}

// Fields that arrive in one piece within a stream contain no key either, even if the key could continue.
func TestStreamedPartsHaveNoSecrets(t *testing.T) {
	const key = "sk-proj-0123456789abcdef"
	lines := strings.Join(regexp.MustCompile(".{1,8}").FindAllString(base64.StdEncoding.EncodeToString([]byte(key)), -1), `\r\n`)
	part := middleware.RawPart{Dialect: middleware.DialectChat, Raw: json.RawMessage(`{"members":{"annotations":[{"url":"http://x/?q=` + lines + `"}]}}`)}
	llm := &nativeModel{deltas: []middleware.Delta{
		{Text: "ok", Extra: &middleware.Extra{Fingerprint: key, Raw: json.RawMessage("{}")}}, {Raw: &part}, {LogProbs: []sdk.TokenLogProb{{Token: key}}}, {Tool: &middleware.ToolDelta{ID: key, Name: "f" + key}},
	}, resp: text("ok")}
	llm.resp.Choices[0].ToolCalls = []llms.ToolCall{{ID: key, Type: "function", FunctionCall: &llms.FunctionCall{Name: "f" + key, Arguments: "{}"}}}
	llm.resp.Choices[0].FuncCall = &llms.FunctionCall{Name: "f", Arguments: `{"key":"` + key + `"}`}
	llm.resp.Choices[0].GenerationInfo = map[string]any{middleware.KeyExtra: &middleware.Extra{Fingerprint: key, Parts: []llms.ContentPart{part}, LogProbs: []sdk.TokenLogProb{{Token: key}}}}
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{large(llm)}, Stream: middleware.Passthrough, Redact: redact.New(key)})
	var seen []any
	resp, err := m.GenerateContent(t.Context(), human("q"), llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "f"}}}),
		middleware.WithParams(middleware.Params{OnDelta: func(_ context.Context, d *middleware.Delta) error {
			seen = append(seen, *d)
			return nil
		}}))
	if err != nil || len(seen) != len(llm.deltas)-1 { // of log-probabilities nothing is left
		t.Fatalf("%v, %v", seen, err)
	}
	all, err := json.Marshal(append(seen, resp.Choices[0], middleware.ExtraOf(resp.Choices[0])))
	if err != nil || strings.Contains(string(all), key) || strings.Contains(string(all), lines[:8]) {
		t.Errorf("%s, %v", all, err)
	}
}

// A key that an upstream repeats in pieces is not shown; other pieces are passed on unchanged.
func TestStreamsHaveNoSecrets(t *testing.T) {
	const key = "sk-proj-0123456789abcdef"
	for name, c := range map[string]struct {
		deltas []middleware.Delta
		want   string
	}{
		"nothing":            {[]middleware.Delta{{Text: "it "}, {Text: "is sk"}, {Text: "-"}, {Text: "ill"}}, "it |is sk|-|ill|"},
		"a key":              {[]middleware.Delta{{Text: "it is sk-proj-01"}, {Text: "23456789ab"}, {Text: "cdef, is it?"}}, "it is |" + redact.Mark + ", is it?|"},
		"escaped":            {[]middleware.Delta{{Text: `&#115;k-proj&#`}, {Text: `45;\x301234`}, {Text: "56789abcdef"}}, redact.Mark + "|"},
		"only its beginning": {[]middleware.Delta{{Text: "it is sk-proj-0123"}}, "it is |sk-proj-0123|"},
		"a tool's":           {[]middleware.Delta{{Tool: &middleware.ToolDelta{ID: "1", Name: "f", Arguments: `{"a":"sk-proj-`}}, {Tool: &middleware.ToolDelta{Arguments: `0123456789abcdef"}`}}}, `{"a":"|` + redact.Mark + `"}|`},
	} {
		whole := ""
		for _, d := range c.deltas {
			whole += d.Text
		}
		llm := &nativeModel{deltas: c.deltas, resp: text(whole)}
		if whole == "" {
			llm.resp.Choices[0].ToolCalls = []llms.ToolCall{{ID: "1", Type: "function", FunctionCall: &llms.FunctionCall{Name: "f", Arguments: `{"a":"` + key + `"}`}}}
		}
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{large(llm)}, Stream: middleware.Passthrough, Redact: redact.New(key, "sk-p")})
		got := ""
		offer := llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "f"}}})
		resp, err := m.GenerateContent(t.Context(), human("q"), offer, middleware.WithParams(middleware.Params{OnDelta: func(_ context.Context, d *middleware.Delta) error {
			piece := d.Text
			if d.Tool != nil {
				piece += d.Tool.Arguments
			}
			if piece != "" {
				got += piece + "|"
			}
			return nil
		}}))
		if err != nil || got != c.want {
			t.Errorf("%s: %q, want %q; %v", name, got, c.want, err)
			continue
		}
		answer, err := json.Marshal(resp.Choices[0])
		if err != nil || strings.Contains(string(answer), key) || strings.Contains(c.want, redact.Mark) != strings.Contains(string(answer), redact.Mark) {
			t.Errorf("%s: %s, %v", name, answer, err)
		}
	}
}
