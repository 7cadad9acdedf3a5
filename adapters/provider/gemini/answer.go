package gemini

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tmc/langchaingo/llms"
	"google.golang.org/genai"

	"github.com/stepfall/stepfall/adapters/provider/internal/wire"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// madeUp begins the ids of calls to which the API gave none.
const madeUp = "stepfall_call_"

// stops are the API's words for the end of an answer, in those of the others.
var stops = map[genai.FinishReason]string{
	genai.FinishReasonStop: "stop", genai.FinishReasonMaxTokens: "length", genai.FinishReasonSafety: "content_filter",
	genai.FinishReasonRecitation: "content_filter", genai.FinishReasonBlocklist: "content_filter", genai.FinishReasonProhibitedContent: "content_filter",
	genai.FinishReasonSPII: "content_filter", genai.FinishReasonImageSafety: "content_filter",
}

type spoken struct {
	content, reasoning strings.Builder
	finish             genai.FinishReason
	calls              []llms.ToolCall
	logProbs           []sdk.TokenLogProb
	parts              []llms.ContentPart
	special            bool // parts say more than content, reasoning and calls do
}

// answer is one on its way.
type answer struct {
	x       *wire.Exchange
	emit    wire.Emit
	origin  string
	extra   middleware.Extra
	choices []*spoken
	blocked bool
}

func (a *answer) blame(err error) error {
	if e, ok := errors.AsType[*middleware.ProviderError](err); ok {
		e.Usage = a.extra.Usage
	}
	return err
}

// ended reports whether every choice of a stream has its end.
func (a *answer) ended() bool {
	for _, c := range a.choices {
		if c.finish == "" {
			return false
		}
	}
	return len(a.choices) > 0 || a.blocked
}

// take takes in an answer, or a piece of one.
func (a *answer) take(in *genai.GenerateContentResponse) error {
	x := &a.extra
	x.ID, x.Served = cmp.Or(in.ResponseID, x.ID), cmp.Or(in.ModelVersion, x.Served)
	if !in.CreateTime.IsZero() {
		x.Created = in.CreateTime.Unix()
	}
	if u := in.UsageMetadata; u != nil {
		cached := int(u.CachedContentTokenCount)
		x.Usage = sdk.Usage{
			InputTokens: int(u.PromptTokenCount+u.ToolUsePromptTokenCount) - cached, CachedInputTokens: cached,
			OutputTokens: int(u.CandidatesTokenCount), ReasoningTokens: int(u.ThoughtsTokenCount),
		}
	}
	if f := in.PromptFeedback; f != nil && f.BlockReason != "" {
		a.blocked = true
		x.Blocked = strings.TrimSpace(string(f.BlockReason) + " " + f.BlockReasonMessage)
	}
	for _, c := range in.Candidates {
		if c.Index < 0 || c.Index > 128 {
			continue
		}
		for len(a.choices) <= int(c.Index) {
			a.choices = append(a.choices, &spoken{})
		}
		if err := a.candidate(a.choices[c.Index], c); err != nil {
			return err
		}
	}
	return nil
}

func (a *answer) candidate(s *spoken, c *genai.Candidate) error {
	if c.FinishReason != "" && c.FinishReason != genai.FinishReasonUnspecified {
		s.finish = c.FinishReason
	}
	tokens := tokensOf(c.LogprobsResult)
	s.logProbs = append(s.logProbs, tokens...)
	if c.Content == nil {
		return nil
	}
	for _, p := range c.Content.Parts {
		d := middleware.Delta{Choice: int(c.Index), LogProbs: tokens}
		tokens = nil
		own := middleware.RawPart{Dialect: middleware.DialectGemini, Model: a.origin}
		if len(p.ThoughtSignature) > 0 {
			raw, err := json.Marshal(genai.Part{ThoughtSignature: p.ThoughtSignature})
			if err != nil {
				return a.x.Garbled(provider, err)
			}
			own.Raw, s.special = raw, true
			s.parts = append(s.parts, own)
			if err := a.emit(&middleware.Delta{Choice: int(c.Index), Raw: &own}); err != nil {
				return err
			}
		}
		switch {
		case p.FunctionCall != nil:
			call, err := a.call(s, p.FunctionCall)
			if err != nil {
				return err
			}
			d.Tool = &middleware.ToolDelta{Index: len(s.calls) - 1, ID: call.ID, Name: call.FunctionCall.Name, Arguments: call.FunctionCall.Arguments}
			s.parts = append(s.parts, *call)
		case p.Thought:
			s.reasoning.WriteString(p.Text)
			d.Reasoning = p.Text
		case p.Text != "":
			s.content.WriteString(p.Text)
			d.Text = p.Text
			s.parts = append(s.parts, llms.TextContent{Text: p.Text})
		case *(&written{p}).withoutSignature() != bare{}:
			raw, err := json.Marshal(p)
			if err != nil {
				return a.x.Garbled(provider, err)
			}
			s.special = true
			s.parts = append(s.parts, middleware.RawPart{Dialect: middleware.DialectGemini, Raw: raw})
		}
		if err := a.emit(&d); err != nil {
			return err
		}
	}
	return nil
}

func (a *answer) call(s *spoken, f *genai.FunctionCall) (*llms.ToolCall, error) {
	arguments := []byte("{}")
	if f.Args != nil {
		var err error
		if arguments, err = json.Marshal(f.Args); err != nil {
			return nil, a.x.Garbled(provider, err)
		}
	}
	id := cmp.Or(f.ID, fmt.Sprintf("%s%s_%d", madeUp, a.extra.ID, len(s.calls)))
	s.calls = append(s.calls, llms.ToolCall{ID: id, Type: "function", FunctionCall: &llms.FunctionCall{Name: f.Name, Arguments: string(arguments)}})
	return &s.calls[len(s.calls)-1], nil
}

func tokensOf(r *genai.LogprobsResult) []sdk.TokenLogProb {
	if r == nil {
		return nil
	}
	list := make([]sdk.TokenLogProb, len(r.ChosenCandidates))
	for i, c := range r.ChosenCandidates {
		list[i] = sdk.TokenLogProb{Token: c.Token, LogProb: float64(c.LogProbability)}
		if i < len(r.TopCandidates) && r.TopCandidates[i] != nil {
			for _, alt := range r.TopCandidates[i].Candidates {
				list[i].Top = append(list[i].Top, sdk.TopLogProb{Token: alt.Token, LogProb: float64(alt.LogProbability)})
			}
		}
	}
	return list
}

func (a *answer) response() (*llms.ContentResponse, error) {
	if a.blocked && len(a.choices) == 0 {
		a.choices = []*spoken{{finish: genai.FinishReasonSafety}}
	}
	if len(a.choices) == 0 {
		return nil, a.blame(a.x.Garbled(provider, middleware.ErrEmptyResponse))
	}
	out := &llms.ContentResponse{}
	a.extra.RequestID = a.x.RequestID()
	for _, s := range a.choices {
		x := a.extra
		x.StopReason, x.LogProbs = string(s.finish), s.logProbs
		if s.special {
			x.Parts = s.parts
		}
		own := &llms.ContentChoice{Content: s.content.String(), ReasoningContent: s.reasoning.String(), ToolCalls: s.calls}
		own.StopReason = cmp.Or(stops[s.finish], strings.ToLower(string(s.finish)))
		if own.StopReason == "content_filter" && x.Blocked == "" {
			x.Blocked = string(s.finish)
		}
		if len(s.calls) > 0 {
			own.FuncCall = s.calls[0].FunctionCall
			if own.StopReason == "stop" {
				own.StopReason = "tool_calls"
			}
		}
		own.GenerationInfo = wire.Info(&x, own.ReasoningContent)
		out.Choices = append(out.Choices, own)
	}
	return out, nil
}
