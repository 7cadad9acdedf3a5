package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// judged is a model that records the verdicts reported to it.
type judged struct {
	*recorder

	runs     []string
	verdicts []sdk.Verdict
	refuses  error
}

func (j *judged) Report(ctx context.Context, run string, v sdk.Verdict) error {
	j.runs, j.verdicts = append(j.runs, middleware.InfoFrom(ctx).Tenant+"/"+run), append(j.verdicts, v)
	return j.refuses
}

// HasRun knows the runs of orders.
func (j *judged) HasRun(_ context.Context, run string) bool { return strings.HasPrefix(run, "order") }

// A client reports the outcome of one of its runs, which is recorded for its own tenant.
func TestVerdictsOnRuns(t *testing.T) {
	const path = "/v1/verdicts"
	keys, err := gateway.Keys(map[string]string{"k-blue": "blue"})
	if err != nil {
		t.Fatal(err)
	}
	model := &judged{recorder: says(llms.ContentChoice{Content: "hi"})}
	h := newGateway(t, gateway.Options{Model: model, Authenticate: keys})
	w := post(h, path, `{"run": "order-1", "outcome": "failed", "evidence": "the wrong item", "verifier": "support", "confidence": 0.9}`, "X-Api-Key", "k-blue", gateway.HeaderTenant, "red")
	if w.Code != http.StatusOK || len(model.runs) != 1 || model.runs[0] != "blue/order-1" {
		t.Fatalf("%d %s: %v", w.Code, w.Body, model.runs)
	}
	if v := model.verdicts[0]; v.Outcome != sdk.Failed || v.Evidence != "the wrong item" || v.Verifier != "support" || v.Confidence != 0.9 {
		t.Errorf("the verdict is %+v", v)
	}
	if w := post(h, path, `{"run": "typo", "outcome": "failed"}`, "X-Api-Key", "k-blue"); w.Code != http.StatusAccepted || !strings.Contains(w.Body.String(), "no known steps") {
		t.Errorf("of a run that is not there: %d %s", w.Code, w.Body)
	}
	model.runs, model.verdicts = model.runs[:1], model.verdicts[:1]
	for _, body := range []string{``, `[]`, `{"run": "x", "outcome": "fine"}`, `{"run": "x", "outcome": "passed", "more": 1}`, `{"run": "x", "outcome": "passed"} {}`, `{"run": "` + strings.Repeat("x", 600) + `", "outcome": "passed"}`, `{"run": "x", "outcome": "passed", "verifier": "` + strings.Repeat("x", 600) + `"}`} {
		if w := post(h, path, body, "X-Api-Key", "k-blue"); w.Code != http.StatusBadRequest || len(model.runs) != 1 {
			t.Errorf("%.40q: %d %s", body, w.Code, w.Body)
		}
	}
	if w := post(h, path, `{"run": "x", "outcome": "passed"}`); w.Code != http.StatusUnauthorized {
		t.Errorf("without a key: %d", w.Code)
	}
	model.refuses = errors.New("the run has no name")
	if w := post(h, path, `{"run": "", "outcome": "passed"}`, "X-Api-Key", "k-blue"); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "no name") {
		t.Errorf("refused: %d %s", w.Code, w.Body)
	}
	if w := post(newGateway(t, gateway.Options{Model: model.recorder}), path, `{"run": "x", "outcome": "passed"}`); w.Code != http.StatusNotFound {
		t.Errorf("a model that takes none: %d", w.Code)
	}
}
