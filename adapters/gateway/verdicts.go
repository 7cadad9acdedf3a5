package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// runReporter is an Options.Model that accepts verdicts on whole runs, such as a *router.Router.
type runReporter interface {
	Report(ctx context.Context, run string, v sdk.Verdict) error
}

// runFinder is a runReporter that knows whether a run of the context's tenant has had a step.
type runFinder interface {
	HasRun(ctx context.Context, run string) bool
}

type runVerdict struct {
	Run        string      `json:"run"`
	Outcome    sdk.Outcome `json:"outcome"`
	Score      float64     `json:"score"`
	Confidence float64     `json:"confidence,omitempty"`
	Verifier   string      `json:"verifier,omitempty"`
	Evidence   string      `json:"evidence,omitempty"`
}

func (g *Gateway) reportVerdict(x *exchange) *Refusal {
	reporter, ok := g.o.Model.(runReporter)
	if !ok {
		return dialect.Refuse(http.StatusNotFound, "not_found", "the model behind this gateway does not accept verdicts")
	}
	var v runVerdict
	body, refused := x.body()
	if refused != nil {
		return refused
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return dialect.Invalid("", "the body is not a verdict: %v; want {\"run\": NAME, \"outcome\": \"passed\", \"failed\" or \"inconclusive\"}", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return dialect.Invalid("", "the body has more than one verdict")
	}
	for param, name := range map[string]string{"run": v.Run, "verifier": v.Verifier} {
		if len(name) > maxNameBytes {
			return dialect.Invalid(param, "the name has %d bytes: want at most %d", len(name), maxNameBytes)
		}
	}
	ctx := middleware.WithInfo(x.r.Context(), middleware.Info{Tenant: x.Client.Tenant})
	err := reporter.Report(ctx, v.Run, sdk.Verdict{Outcome: v.Outcome, Score: v.Score, Confidence: v.Confidence, Verifier: v.Verifier, Evidence: v.Evidence})
	if err != nil {
		return dialect.Invalid("", "%v", err)
	}
	if runs, ok := reporter.(runFinder); ok && !runs.HasRun(ctx, v.Run) {
		x.json(http.StatusAccepted, struct {
			runVerdict
			Note string `json:"note"`
		}{v, "the run has no known steps: the verdict counts once there is one"})
		return nil
	}
	x.json(http.StatusOK, v)
	return nil
}
