package feature

import (
	"slices"

	"github.com/stepfall/stepfall/sdk"
)

// The names of a query's features about its run so far. The middleware measures them.
const (
	// DisputedSteps counts the earlier steps whose answers differed or that had a rejected
	// answer.
	DisputedSteps = "disputed_steps"
	// ToolErrors counts the tool results that look failed.
	ToolErrors = "tool_errors"
	// RepeatedCalls counts the tool calls that repeat an earlier one word for word.
	RepeatedCalls = "repeated_calls"
	// Doubt is the prefix of a tool's name: the share of steps on which two answers that call the
	// tool differ. Without a name it is about answers that call no tool.
	Doubt = "doubt:"
	// HeldBack is the share by which disputes and doubts count less, because reacting to them has
	// become expensive.
	HeldBack = "held_back"
	// Overspent is 1 once steps have cost more than the most expensive model alone would have.
	Overspent = "overspent"
)

// Setbacks returns the number of setbacks of a run from a query's features. Each disputed
// step counts 1, less HeldBack. A tool error and a repeated call, which can have other
// reasons, count one half each, and Overspent counts 1.
func Setbacks(features map[string]float64) float64 {
	return features[DisputedSteps]*(1-features[HeldBack]) + (features[ToolErrors]+features[RepeatedCalls])/2 + features[Overspent]
}

// ToolTroubles counts the signs in a query's features of an agent that is stuck: failed tool
// results and repeated calls.
func ToolTroubles(features map[string]float64) float64 {
	return features[ToolErrors] + features[RepeatedCalls]
}

// ToolsOf returns the sorted names of the tools that an answer calls, without duplicates, or
// one empty name if it calls none.
func ToolsOf(a *sdk.Answer) []string {
	if len(a.ToolCalls) == 0 {
		return []string{""}
	}
	names := make([]string, len(a.ToolCalls))
	for i := range a.ToolCalls {
		names[i] = a.ToolCalls[i].Name
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// AnswerDoubt returns the greatest [Doubt] among the tools that an answer calls, reduced by
// [HeldBack].
func AnswerDoubt(features map[string]float64, a *sdk.Answer) (doubt float64) {
	for _, name := range ToolsOf(a) {
		doubt = max(doubt, features[Doubt+name])
	}
	return doubt * (1 - features[HeldBack])
}
