package middleware_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

func TestRejectedDraftEscalates(t *testing.T) {
	a, b := says(""), says("the answer")
	a.say = func(context.Context, []llms.MessageContent, *llms.CallOptions) (*llms.ContentResponse, error) {
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{{StopReason: "length", GenerationInfo: map[string]any{"PromptTokens": 50, "CompletionTokens": 1000}}}}, nil
	}
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(a), large(b)}})
	ctx, rep := middleware.WithReport(t.Context())
	resp, err := m.GenerateContent(ctx, human("question"))
	if err != nil {
		t.Fatal(err)
	}
	choice := resp.Choices[0]
	if choice.Content != "the answer" {
		t.Errorf("content %q", choice.Content)
	}
	info := choice.GenerationInfo
	if info["PromptTokens"] != 100 || info["stepfall.model"] != "large" || info["stepfall.calls"] != 2 ||
		info["stepfall.input_tokens"] != 150 || info["stepfall.output_tokens"] != 1010 {
		t.Errorf("info %v", info)
	}
	want := (50*1+1000*2+100*10+10*20)/1e6 + 0.0
	if totals := middleware.TotalsOf(resp.Choices[0]); totals.Model != "large" || totals.Calls != 2 || totals.InputTokens != 150 || totals.OutputTokens != 1010 ||
		totals.CostUSD != info["stepfall.cost_usd"] || totals.TraceID != info["stepfall.trace_id"] || totals.Quality != info["stepfall.quality"] || string(totals.Stop) != info["stepfall.stop"] {
		t.Errorf("totals %+v of %v", totals, info)
	}
	if got := info["stepfall.cost_usd"].(float64); got < want*0.999999 || got > want*1.000001 {
		t.Errorf("cost %v, want %v", got, want)
	}
	if rep.CostUSD() != info["stepfall.cost_usd"] || len(rep.Steps()) != 1 || rep.Steps()[0].ID != info["stepfall.trace_id"] {
		t.Errorf("report %+v", rep)
	}
}

func TestErrorsAreTyped(t *testing.T) {
	for _, tt := range []struct {
		err  error
		code llms.ErrorCode
	}{
		{errors.New("API returned unexpected status code: 429: Rate limit reached"), llms.ErrCodeRateLimit},
		{errors.New("API returned unexpected status code: 429: insufficient_quota"), llms.ErrCodeQuotaExceeded},
		{errors.New("API returned unexpected status code: 500: used 4000 tokens"), llms.ErrCodeProviderUnavailable},
		{errors.New("API returned unexpected status code: 529: Overloaded"), llms.ErrCodeProviderUnavailable},
		{errors.New("API returned unexpected status code: 403"), llms.ErrCodeAuthentication},
		{errors.New("API returned unexpected status code: 400: maximum context length is 8192 tokens"), llms.ErrCodeTokenLimit},
	} {
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(fails(tt.err))}})
		resp, err := m.GenerateContent(t.Context(), human("question"))
		typed, ok := errors.AsType[*llms.Error](err)
		if resp != nil || !ok || typed.Code != tt.code || !errors.Is(err, tt.err) {
			t.Errorf("%v: got %v (%#v)", tt.err, err, typed)
		}
	}
}

func TestNewNamesEveryFault(t *testing.T) {
	_, err := middleware.New(middleware.Config{Mode: "sometimes", Stream: "drip", Baseline: "huge", Models: []middleware.Candidate{{Model: sdk.Model{Name: "small"}}}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`unknown mode "sometimes"`, `unknown stream mode "drip"`, "baseline huge", "small: has no LLM"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
}
