package wire

import (
	"fmt"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	pb "github.com/stepfall/stepfall/sdk/plugin/internal/pluginv1"
	"github.com/stepfall/stepfall/sdk/redact"
)

// verdictFromWire converts a plugin's verdict, cleaning its texts to a length.
func verdictFromWire(v *pb.Verdict, clean func(text string, limit int) string) *sdk.Verdict {
	out := fromWire[sdk.Verdict](v, func(text string) string { return clean(text, maxEvidence) })
	out.Verifier, out.Way = clean(v.GetVerifier(), maxName), clean(v.GetWay(), maxName)
	out.LeftOut = cleanNames(v.GetLeftOut(), clean)
	out.Isolation, out.IsolationMissing = cleanNames(v.GetIsolation(), clean), nil
	for layer, reason := range v.GetIsolationMissing() {
		if out.IsolationMissing == nil {
			out.IsolationMissing = map[string]string{}
		}
		if len(out.IsolationMissing) < maxNames {
			out.IsolationMissing[clean(layer, maxName)] = clean(reason, maxMessage)
		}
	}
	return out
}

// checkVerdict returns an error if the verdict is invalid.
func checkVerdict(v *pb.Verdict) error {
	switch {
	case v.GetOutcome() == pb.Outcome_OUTCOME_UNSPECIFIED:
		return malformedf("a verdict without an outcome")
	case v.GetOutcome() < 0 || v.GetOutcome() > pb.Outcome_OUTCOME_INCONCLUSIVE:
		return malformedf("a verdict with the unknown outcome %d", v.GetOutcome())
	case !isUnit(v.GetScore()):
		return malformedf("a verdict with the score %v, which is not in [0, 1]", v.GetScore())
	case !isUnit(v.GetConfidence()):
		return malformedf("a verdict with the confidence %v, which is not in [0, 1]", v.GetConfidence())
	case v.GetAltered() < 0 || v.GetNoticed() < 0 || v.GetNoticed() > v.GetAltered():
		return malformedf("a verdict with %d of %d altered tests", v.GetNoticed(), v.GetAltered())
	case !(v.GetCostUsd() >= 0 && v.GetCostUsd() <= maxUSD):
		return malformedf("a verdict with the cost %v", v.GetCostUsd())
	}
	return nil
}

// maxUSD is the largest plausible cost of one call or verdict. Sums of much larger values would lose
// precision or overflow.
const maxUSD = 1e6

// isUnit reports whether x lies in [0, 1]; NaN does not.
func isUnit(x float64) bool { return x >= 0 && x <= 1 }

func estimateToWire(e sdk.Estimate) *pb.Estimate {
	if e.Abstains() {
		return &pb.Estimate{}
	}
	return &pb.Estimate{Mean: &e.Mean, StdDev: e.StdDev}
}

// estimatesFromWire checks that there is one estimate per model and that every number is in range.
func estimatesFromWire(in []*pb.Estimate, models int, upper float64) ([]sdk.Estimate, error) {
	if got := len(in); got != models {
		return nil, malformedf("%d estimates for %d models", got, models)
	}
	out := make([]sdk.Estimate, models)
	for i, e := range in {
		if e.Mean == nil {
			out[i] = sdk.Abstain()
			continue
		}
		if !(*e.Mean >= 0 && *e.Mean <= upper) {
			return nil, malformedf("the mean %v, which is not in [0, %v]", *e.Mean, upper)
		}
		if !(e.StdDev >= 0 && e.StdDev <= upper) {
			return nil, malformedf("the standard deviation %v", e.StdDev)
		}
		out[i] = sdk.Estimate{Mean: *e.Mean, StdDev: e.StdDev}
	}
	return out, nil
}

// MalformedError is the error of a plugin that violated the protocol.
type MalformedError struct{ What string }

// Error returns the message.
func (e *MalformedError) Error() string { return "the plugin returned " + e.What }

func malformedf(format string, args ...any) error {
	return &MalformedError{What: fmt.Sprintf(format, args...)}
}

// Limits on the texts of a plugin. Longer texts are truncated.
const (
	maxName        = 256
	maxMessage     = 4 << 10
	maxEvidence    = 64 << 10
	maxDiagnostics = 50
	maxNames       = 100
	maxFields      = 2000 // of all roles together
)

// cleanText removes secrets from a plugin's text, escapes control characters and truncates the result to limit bytes.
func cleanText(text string, limit int, secrets *redact.Redactor) string {
	isLong := len(text) > limit
	if isLong {
		text = secrets.Cut(text[:limit])
	} else {
		text = secrets.Known(text)
	}
	shown := redact.Visible(strings.ToValidUTF8(text, ""))
	if !isLong && len(shown) <= limit {
		return shown
	}
	return strings.ToValidUTF8(shown[:min(len(shown), limit)], "") + "..."
}

func cleanNames(names []string, clean func(text string, limit int) string) []string {
	var out []string
	for _, name := range names[:min(len(names), maxNames)] {
		out = append(out, clean(name, maxName))
	}
	return out
}
