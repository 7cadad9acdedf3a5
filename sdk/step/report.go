package step

import (
	"errors"
	"fmt"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// VerdictTrace returns the trace that reports the verdict v on a tenant's run; see [sdk.ModeVerdict].
func VerdictTrace(run, tenant string, v *sdk.Verdict) (*sdk.Trace, error) {
	if run == "" {
		return nil, errors.New("reporting a verdict: the run has no name")
	}
	if v.Outcome == sdk.Inconclusive && v.Evidence == "" && v.Verifier == "" {
		return nil, fmt.Errorf("reporting a verdict on run %s: it has no outcome; one that is inconclusive, which takes back an earlier one, says why in its evidence", run)
	}
	for name, x := range map[string]float64{"confidence": v.Confidence, "score": v.Score} {
		if !(x >= 0 && x <= 1) {
			return nil, fmt.Errorf("reporting a verdict on run %s: a %s of %v, want one in [0, 1]", run, name, x)
		}
	}
	return &sdk.Trace{ID: newID(), Start: time.Now(), Run: run, Tenant: tenant, Mode: sdk.ModeVerdict, Verdict: v, Decisions: []sdk.Decision{}, Calls: []sdk.Call{}}, nil
}
