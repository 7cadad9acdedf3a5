package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

type stepInfo struct {
	Model   string  `json:"model"`
	TraceID string  `json:"trace_id"`
	CostUSD float64 `json:"cost_usd"`
	Calls   int     `json:"calls"`
	Quality float64 `json:"quality"`
	Stop    string  `json:"stop"`
	// Usage is the usage of all calls of the step; the answer's own usage is that of the call that gave it.
	Usage   sdk.Usage `json:"usage"`
	NotSent string    `json:"not_sent,omitempty"` // as in headerNotSent, which streaming clients cannot read
}

func (g *Gateway) step(x *exchange) *Refusal {
	body, root, refused := x.parse()
	if refused == nil {
		root, refused = g.withItems(x, root)
	}
	if refused != nil {
		return refused
	}
	a, refused := x.api.Read(root, x.r.Header)
	if refused != nil {
		return refused
	}
	x.digest = g.retries.digest(&x.Client, x.Path, body)
	again, early := g.retries.find(x.digest)
	if early != nil {
		x.digest = 0 // it is remembered already
		return early
	}
	x.Model, x.Stream = a.Model, a.Stream
	if x.api == dialect.Responses {
		a.OnItem = x.keepItem
	}
	if refused := g.choose(x, a); refused != nil {
		return refused
	}
	a.Settle(a.Model != g.o.Name && slices.Contains(g.o.Models(), a.Model))
	ctx, report := middleware.WithReport(x.context(a, again || isRetry(x.r.Header)))
	var s *streaming
	if a.Stream {
		out := newEvents(x)
		s = &streaming{x: x, a: a, out: out, to: x.api.Stream(a, &dialect.Events{ID: x.answerID, RequestID: x.ID, Created: x.Start.Unix(), Write: out.append})}
		a.Params.OnDelta = s.delta
	}
	if len(a.Tools) > 0 {
		a.Options = append(a.Options, llms.WithTools(a.Tools))
	}
	a.Options = append(a.Options, middleware.WithParams(a.Params))
	resp, err := g.o.Model.GenerateContent(ctx, a.Messages, a.Options...)
	x.Steps = report.Steps()
	if s != nil {
		return s.end(ctx, resp, err)
	}
	x.describe()
	if err != nil {
		return refusalOf(ctx, err)
	}
	x.json(http.StatusOK, x.api.Answer(a, x.outcome(a, resp)))
	return nil
}

// choose pins the request to the requested model, unless the policy is to choose.
func (g *Gateway) choose(x *exchange, a *dialect.Request) *Refusal {
	if a.Model == "" {
		a.Model = g.o.Name
	}
	if x.Client.Models != nil && !slices.Contains(x.Client.Models, a.Model) {
		return notFound(a.Model, x.Client.Models, "")
	}
	switch {
	case a.Model == g.o.Name:
	case slices.Contains(g.o.Models(), a.Model):
		a.Options = append(a.Options, llms.WithModel(a.Model))
	case !g.o.AnyModel:
		return notFound(a.Model, append([]string{g.o.Name}, g.o.Models()...), " (stepfall serve --any-model lets the policy choose, whatever name a client sends)")
	}
	return nil
}

func notFound(model string, have []string, hint string) *Refusal {
	r := dialect.Refuse(http.StatusNotFound, "model_not_found", "no model %q here; there are: %s%s", model, strings.Join(have, ", "), hint)
	r.Param = "model"
	return r
}

// context returns the context of a step, with its origin. If the client is retrying, the step's own retries are
// disabled.
func (x *exchange) context(a *dialect.Request, again bool) context.Context {
	x.info.Tenant, x.info.Labels, x.info.NoRetry = x.Client.Tenant, a.Labels, again
	return middleware.WithInfo(x.r.Context(), x.info)
}

func (x *exchange) outcome(a *dialect.Request, resp *llms.ContentResponse) *dialect.Answer {
	o := &dialect.Answer{ID: x.answerID, Created: x.Start.Unix(), Model: a.Model, Choices: resp.Choices}
	if len(x.Steps) == 0 {
		if e := middleware.ExtraOf(resp.Choices[0]); e != nil {
			o.Usage = e.Usage
		}
		return o
	}
	t := x.Steps[len(x.Steps)-1]
	o.Model, o.Usage = t.Chosen, answerUsage(t)
	o.Step = &stepInfo{Model: t.Chosen, TraceID: t.ID, CostUSD: t.CostUSD, Calls: middleware.CallsSent(t), Quality: middleware.TotalsOf(resp.Choices[0]).Quality, Stop: string(t.Stop), Usage: t.Usage, NotSent: x.notSentOf(t)}
	return o
}

// answerUsage returns the usage of the call whose answer was chosen: agents use it as the length of their conversation,
// to decide when to compact it.
func answerUsage(t *sdk.Trace) sdk.Usage {
	for i := range slices.Backward(t.Calls) {
		if c := &t.Calls[i]; c.Model == t.Chosen && !c.Failed() {
			return c.Usage
		}
	}
	return t.Usage
}
