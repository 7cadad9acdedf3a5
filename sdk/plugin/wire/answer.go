package wire

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stepfall/stepfall/sdk"
	pb "github.com/stepfall/stepfall/sdk/plugin/internal/pluginv1"
)

func durationToWire(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func answerToWire(a *sdk.Answer) *pb.Answer {
	if a == nil {
		return nil
	}
	out := &pb.Answer{
		Model: utf8(a.Model), Text: utf8(a.Text), Reasoning: utf8(a.Reasoning), StopReason: utf8(a.StopReason),
		Usage: usageToWire(a.Usage), CostUsd: a.CostUSD, Latency: durationToWire(a.Latency),
		Signals: floatsMap(a.Signals),
	}
	for i := range a.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, toolCallToWire(&a.ToolCalls[i]))
	}
	out.LogProbs = logProbsToWire(a.LogProbs)
	return out
}

func answerFromWire(a *pb.Answer) sdk.Answer {
	out := sdk.Answer{
		Model: a.GetModel(), Text: a.GetText(), Reasoning: a.GetReasoning(), StopReason: a.GetStopReason(),
		Usage: usageFromWire(a.GetUsage()), CostUSD: a.GetCostUsd(), Latency: a.GetLatency().AsDuration(),
		Signals: a.GetSignals(),
	}
	for _, c := range a.GetToolCalls() {
		out.ToolCalls = append(out.ToolCalls, toolCallFromWire(c))
	}
	out.LogProbs = logProbsFromWire(a.GetLogProbs())
	return out
}

// logProbsToWire takes its memory in one piece for each type: an answer has
// hundreds of tokens with several alternatives each.
func logProbsToWire(in []sdk.TokenLogProb) []*pb.TokenLogProb {
	if len(in) == 0 {
		return nil
	}
	alternatives := 0
	for i := range in {
		alternatives += len(in[i].Top)
	}
	tokens, tops := make([]pb.TokenLogProb, len(in)), make([]pb.TopLogProb, alternatives)
	out, refs := make([]*pb.TokenLogProb, len(in)), make([]*pb.TopLogProb, alternatives)
	next := 0
	for i := range in {
		t := &tokens[i]
		t.Token, t.LogProb = []byte(in[i].Token), in[i].LogProb
		first := next
		for _, alt := range in[i].Top {
			top := &tops[next]
			top.Token, top.LogProb = []byte(alt.Token), alt.LogProb
			refs[next] = top
			next++
		}
		if next > first {
			t.Top = refs[first:next:next]
		}
		out[i] = t
	}
	return out
}

func logProbsFromWire(in []*pb.TokenLogProb) []sdk.TokenLogProb {
	if len(in) == 0 {
		return nil
	}
	out := make([]sdk.TokenLogProb, len(in))
	for i, t := range in {
		out[i] = sdk.TokenLogProb{Token: string(t.GetToken()), LogProb: t.GetLogProb()}
		if len(t.GetTop()) > 0 {
			out[i].Top = make([]sdk.TopLogProb, len(t.GetTop()))
			for j, alt := range t.GetTop() {
				out[i].Top[j] = sdk.TopLogProb{Token: string(alt.GetToken()), LogProb: alt.GetLogProb()}
			}
		}
	}
	return out
}

func usageToWire(u sdk.Usage) *pb.Usage {
	if u == (sdk.Usage{}) {
		return nil
	}
	return &pb.Usage{
		InputTokens: int64(u.InputTokens), CachedInputTokens: int64(u.CachedInputTokens),
		CacheWriteTokens: int64(u.CacheWriteTokens), OutputTokens: int64(u.OutputTokens),
		ReasoningTokens: int64(u.ReasoningTokens), Estimated: u.Estimated,
	}
}

func usageFromWire(u *pb.Usage) sdk.Usage {
	return sdk.Usage{
		InputTokens: int(u.GetInputTokens()), CachedInputTokens: int(u.GetCachedInputTokens()),
		CacheWriteTokens: int(u.GetCacheWriteTokens()), OutputTokens: int(u.GetOutputTokens()),
		ReasoningTokens: int(u.GetReasoningTokens()), Estimated: u.GetEstimated(),
	}
}

func attemptsToWire(in []sdk.Attempt) []*pb.Attempt {
	if len(in) == 0 {
		return nil
	}
	out := make([]*pb.Attempt, len(in))
	for i := range in {
		out[i] = &pb.Attempt{Answer: answerToWire(&in[i].Answer), Verdict: verdictToWire(in[i].Verdict)}
	}
	return out
}

func attemptsFromWire(in []*pb.Attempt) []sdk.Attempt {
	if len(in) == 0 {
		return nil
	}
	out := make([]sdk.Attempt, len(in))
	for i, a := range in {
		out[i].Answer = answerFromWire(a.GetAnswer())
		if a.GetVerdict() != nil {
			out[i].Verdict = verdictFromWire(a.GetVerdict())
		}
	}
	return out
}
