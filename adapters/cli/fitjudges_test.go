package cli

import (
	"testing"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// The recorded truth is a verifier's verdict only where the policy has one that judges:
// what is a signal, or bought, or finds faults alone, passes nothing.
func TestWhoseVerdictTheTruthIs(t *testing.T) {
	for want, verifiers := range map[bool][]policies.Verifier{
		true:  {{Name: "tests", Plugin: "verifier-tests"}, {Name: "judge", Plugin: "verifier-judge", As: "bought"}},
		false: {{Name: "judge", Plugin: "verifier-judge", As: "bought"}, {Name: "score", Plugin: "verifier-judge", As: "signal"}, {Name: "form", Plugin: "verifier-schema"}},
	} {
		own := judgesOf(&policies.Policy{Verifiers: verifiers}, &outcome.Table{}, &fit.Options{})
		if own.Verified != want {
			t.Errorf("with %+v the truth counts as a verdict: %t", verifiers, own.Verified)
		}
	}
}
