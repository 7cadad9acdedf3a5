package middleware

import (
	"context"
	"strings"
	"sync"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// Info describes the origin of a step and the requirements on its answer. The application passes it in
// the context, because langchaingo has no place for it.
type Info struct {
	QueryID, Group       string
	Run, Session, Tenant string
	Labels               map[string]string
	// Format is the required format of the answer, beyond llms.WithJSONMode.
	Format sdk.ResponseFormat
	// WorkDir and Checks are for verifiers that run tests.
	WorkDir string
	Checks  sdk.Checks
	// NoRetry limits each deployment of a model to one attempt, for a caller that retries failed steps
	// itself: otherwise the retries would multiply.
	NoRetry bool
	// Mode, if set, is the mode in the step's trace, such as [sdk.ModeAttemptCall].
	Mode string
}

type infoKey struct{}

// WithInfo returns a context whose steps carry the information. It replaces that of an outer WithInfo;
// see [InfoFrom]. In its names, bytes that are not UTF-8 are replaced by U+FFFD, because exporters and
// databases reject them.
func WithInfo(ctx context.Context, info Info) context.Context {
	for _, name := range [...]*string{&info.QueryID, &info.Group, &info.Run, &info.Session, &info.Tenant} {
		*name = strings.ToValidUTF8(*name, "\uFFFD")
	}
	return context.WithValue(ctx, infoKey{}, &info)
}

// InfoFrom returns the information in ctx, or the zero Info.
func InfoFrom(ctx context.Context) Info {
	if info, ok := ctx.Value(infoKey{}).(*Info); ok {
		return *info
	}
	return Info{}
}

// Report collects the results of the steps under one context, because an agent hides its model's
// responses from its caller. It is safe for concurrent use.
type Report struct {
	mu    sync.Mutex
	outer *Report
	steps []*sdk.Trace
	usage sdk.Usage
	cost  float64
}

type reportKey struct{}

// WithReport returns a context whose steps are collected in the report, and in those of outer contexts.
func WithReport(ctx context.Context) (context.Context, *Report) {
	outer, _ := ctx.Value(reportKey{}).(*Report)
	r := &Report{outer: outer}
	return context.WithValue(ctx, reportKey{}, r), r
}

// Steps returns the traces of the completed steps in the order of completion, redacted like those for trace
// sinks: without the secrets of [Config.Redact] and anything that looks like a credential.
func (r *Report) Steps() []*sdk.Trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*sdk.Trace(nil), r.steps...)
}

// Usage returns the tokens of all calls in all steps.
func (r *Report) Usage() sdk.Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usage
}

// CostUSD returns the cost of all steps in US dollars, including failed ones and verification. Steps that
// the shadow mode runs in addition are not counted: they have their own cap and traces.
func (r *Report) CostUSD() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cost
}

func (m *Model) report(ctx context.Context, result *step.Result) {
	r, _ := ctx.Value(reportKey{}).(*Report)
	if r == nil {
		return
	}
	clean := step.RedactTrace(result.Trace, m.c.Redact)
	for ; r != nil; r = r.outer {
		r.mu.Lock()
		r.steps = append(r.steps, clean)
		r.usage = r.usage.Add(result.Trace.Usage)
		r.cost += result.Trace.CostUSD
		r.mu.Unlock()
	}
}
