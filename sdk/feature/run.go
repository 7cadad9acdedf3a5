package feature

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
)

// Setbacks sums up what a query's features tell of its run: each disputed step is a
// setback; an error of a tool and a repeated call, which have other reasons as well, are
// half of one.
func Setbacks(features map[string]float64) float64 {
	return features[DisputedSteps] + (features[ToolErrors]+features[RepeatedCalls])/2
}
