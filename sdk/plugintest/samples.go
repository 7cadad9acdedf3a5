package plugintest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// sample is the input of one call, for any role.
type sample struct {
	what     string
	query    *sdk.Query
	models   []string
	answer   *sdk.Answer
	attempts []sdk.Attempt
}

// plainSample returns the nth ordinary sample. Consecutive samples have different numbers of models.
func plainSample(n int) sample {
	s := sample{
		what: "an ordinary query",
		query: &sdk.Query{
			ID: fmt.Sprintf("q%d", n), Group: "conformance", InputTokens: 40 + n,
			Messages: []sdk.Message{{Role: sdk.RoleUser, Parts: []sdk.Part{sdk.TextPart(fmt.Sprintf("What is %d times %d?", n, n+1))}}},
		},
		answer: &sdk.Answer{
			Model: "model-0", Text: fmt.Sprintf("%d", n*(n+1)), StopReason: "stop",
			Usage: sdk.Usage{InputTokens: 40, OutputTokens: 3}, CostUSD: 0.0001, Latency: time.Second,
			LogProbs: []sdk.TokenLogProb{{Token: "4", LogProb: -0.1, Top: []sdk.TopLogProb{{Token: "4", LogProb: -0.1}, {Token: "5", LogProb: -2.5}}}},
		},
	}
	const most = 5
	for m := range n%most + 1 {
		s.models = append(s.models, fmt.Sprintf("model-%d", m))
	}
	if n%2 == 1 {
		s.attempts = []sdk.Attempt{{Answer: *s.answer}}
	}
	return s
}

func plainSamples(n int) []sample {
	out := make([]sample, n)
	for i := range out {
		out[i] = plainSample(i)
	}
	return out
}

// oddSamples returns unusual inputs that plugins must handle.
func oddSamples() []sample {
	empty := sample{what: "an empty query", query: &sdk.Query{}, models: []string{"m"}, answer: &sdk.Answer{}}
	none := plainSample(0)
	none.what, none.models = "no models", nil
	parts := plainSample(1)
	parts.what = "every kind of part"
	parts.query.Messages = append(parts.query.Messages, sdk.Message{Role: sdk.RoleAssistant, Parts: []sdk.Part{
		{Kind: sdk.PartImageURL, URL: "https://example.org/a.png"},
		{Kind: sdk.PartBinary, MIMEType: "image/png", Data: []byte{0x89, 0, 0xff}},
		{Kind: sdk.PartToolCall, ToolCall: &sdk.ToolCall{ID: "1", Name: "search", Arguments: `{"q": "unfinished`}},
		{},
	}}, sdk.Message{Role: sdk.RoleTool, Parts: []sdk.Part{
		{Kind: sdk.PartToolResult, ToolResult: &sdk.ToolResult{CallID: "1", Name: "search", Content: "\xff\xfe not UTF-8", IsError: true}},
	}})
	parts.query.Tools = []sdk.Tool{{Name: "search", Parameters: []byte(`not a schema`)}}
	parts.answer = &sdk.Answer{ToolCalls: []sdk.ToolCall{{Name: "unknown", Arguments: "["}}}
	probs := plainSample(1)
	probs.what = "strange log-probabilities"
	probs.answer.LogProbs = []sdk.TokenLogProb{{Token: "\xf0\x9f", LogProb: math.Inf(-1)}, {LogProb: math.NaN()}, {Token: "x", LogProb: 3}}
	probs.attempts = []sdk.Attempt{{Answer: *probs.answer}, {Answer: *probs.answer, Verdict: &sdk.Verdict{Outcome: sdk.Failed}}}
	text := plainSample(0)
	text.what = "an answer that is no plain text"
	text.answer.Text = "\x00\x1b[31m" + strings.Repeat("{", 10000) + "\xff"
	missing := plainSample(0)
	missing.what = "a work tree that does not exist"
	missing.query.WorkDir, missing.query.Checks = "/nonexistent/tree", sdk.Checks{FailToPass: []string{"TestNothing"}}
	return []sample{empty, none, parts, probs, text, missing}
}

func call(ctx context.Context, c *wire.Client, role wire.Role, samples []sample) error {
	for _, s := range samples {
		var err error
		if role == wire.Verifier {
			_, err = c.Verify(ctx, &sdk.VerifyRequest{Query: s.query, Answer: s.answer, Earlier: s.attempts})
		} else {
			_, err = estimate(ctx, c, role, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) ask(ctx context.Context, samples ...sample) error {
	ctx, cancel := context.WithTimeout(ctx, t.CallTimeout)
	defer cancel()
	return call(ctx, t.p.Client(), t.role.Role, samples)
}

func estimate(ctx context.Context, c *wire.Client, role wire.Role, s sample) ([]sdk.Estimate, error) {
	if role == wire.CostEstimator {
		req := &sdk.CostRequest{Query: s.query, Attempts: s.attempts}
		for _, name := range s.models {
			req.Models = append(req.Models, sdk.Model{Name: name, Price: sdk.Price{Input: 1, Output: 2}})
		}
		reply, err := c.EstimateCost(ctx, req)
		if err != nil {
			return nil, err
		}
		return reply.Estimates, nil
	}
	reply, err := c.EstimateQuality(ctx, &sdk.QualityRequest{Query: s.query, Models: s.models, Attempts: s.attempts})
	if err != nil {
		return nil, err
	}
	return reply.Estimates, nil
}

// isDefect reports whether err is a defect of the plugin rather than a call that it rejected.
func isDefect(err error) bool {
	if err == nil {
		return false
	}
	if _, ok := errors.AsType[*wire.MalformedError](err); ok {
		return true
	}
	switch status.Code(err) {
	case codes.InvalidArgument, codes.Unknown, codes.FailedPrecondition:
		return false
	}
	return true
}

func sameEstimates(a, b []sdk.Estimate) bool {
	return slices.EqualFunc(a, b, func(x, y sdk.Estimate) bool {
		return x.Abstains() && y.Abstains() || math.Abs(x.Mean-y.Mean) <= 1e-12 && math.Abs(x.StdDev-y.StdDev) <= 1e-12
	})
}
