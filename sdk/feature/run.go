package feature

import (
	"slices"

	"github.com/stepfall/stepfall/sdk"
)

// Names of the features of a query that tell how its run has gone so far. The middleware
// measures them.
const (
	// DisputedSteps counts the earlier steps whose answers differed, or of which one was
	// rejected.
	DisputedSteps = "disputed_steps"
	// ToolErrors counts the results of tools that look failed.
	ToolErrors = "tool_errors"
	// RepeatedCalls counts the calls of tools that were made before, word for word.
	RepeatedCalls = "repeated_calls"
	// Doubt begins the name of a tool: on which share of the steps two answers that call it
	// differ. With no name behind it, it is about answers that call none.
	Doubt = "doubt:"
	// HeldBack is the share by which disputes and doubts count less, since what is done about them
	// has become dear.
	HeldBack = "held_back"
	// Overspent is 1 once steps have cost more than the dearest model alone would have.
	Overspent = "overspent"
)

// Setbacks sums up what a query's features tell of its run: each disputed step is a
// setback; an error of a tool and a repeated call, which have other reasons as well, are
// half of one. Disputes count less where they are held back, and what was overspent is one as well.
func Setbacks(features map[string]float64) float64 {
	return features[DisputedSteps]*(1-features[HeldBack]) + (features[ToolErrors]+features[RepeatedCalls])/2 + features[Overspent]
}

// ToolTroubles counts what a query's features tell of an agent that is stuck: results of tools
// that look failed, and calls that were made before.
func ToolTroubles(features map[string]float64) float64 {
	return features[ToolErrors] + features[RepeatedCalls]
}

// ToolsOf returns the names of the tools that an answer calls, sorted and each once, or one
// empty name where it calls none.
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

// AnswerDoubt returns the greatest doubt of a query's features about the tools that an answer
// calls: on which share of the steps two such answers differ, less where that is held back.
func AnswerDoubt(features map[string]float64, a *sdk.Answer) (doubt float64) {
	for _, name := range ToolsOf(a) {
		doubt = max(doubt, features[Doubt+name])
	}
	return doubt * (1 - features[HeldBack])
}
