package savings_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/sdk"
)

// For answers passed by a judge with known error rates, the posterior counts and not the pass.
func TestVerdictsThatErrCountAsBelieved(t *testing.T) {
	account := &savings.Account{}
	for _, believed := range []float64{0.95, 0.85} {
		account.Record(t.Context(), &sdk.Trace{Chosen: "small", Calls: []sdk.Call{{
			Model: "small", Quality: sdk.Estimate{Mean: believed}, Verdict: &sdk.Verdict{Verifier: "judge", Outcome: sdk.Passed, IfRight: 0.9, IfWrong: 0.1},
		}}})
	}
	q := account.Result().Quality
	if math.Abs(q.Mean-0.9) > 1e-12 || q.Passed != 1 || q.N != 2 || !strings.Contains(q.String(), "90 % of 2 judged answers right") || !strings.Contains(q.String(), "passed 100 %") {
		t.Errorf("%+v: %s", q, q.String())
	}
}

// A strategy that buys verdicts has none on answers that it would return in any case: the judged answers alone are
// not representative.
func TestAnswersThatWereNotJudgedCountAsBelieved(t *testing.T) {
	account := &savings.Account{}
	for _, call := range []sdk.Call{
		{Quality: sdk.Estimate{Mean: 1}, Verdict: &sdk.Verdict{Verifier: "tests", Outcome: sdk.Passed}},
		{Quality: sdk.Estimate{Mean: 0.5}},
		{Quality: sdk.Estimate{Mean: 0.3}},
	} {
		call.Model = "small"
		account.Record(t.Context(), &sdk.Trace{Chosen: "small", Calls: []sdk.Call{call}})
	}
	q := account.Result().Quality
	if q.Mean != 1 || q.N != 1 || q.Unjudged != 2 || math.Abs(q.Overall-0.6) > 1e-12 || !strings.HasSuffix(q.String(), "with estimates for the 2 not judged, 60 % of all") {
		t.Errorf("%+v: %s", q, q.String())
	}
}
