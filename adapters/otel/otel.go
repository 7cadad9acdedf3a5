package otel

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/semconv/v1.40.0/genaiconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

const scope = "github.com/stepfall/stepfall/adapters/otel"

// Config sets the destinations of spans and metrics. The zero value uses the global providers.
type Config struct {
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
}

// Recorder writes traces as spans and metrics. It is safe for concurrent use.
type Recorder struct {
	tracer trace.Tracer

	callDuration genaiconv.ClientOperationDuration
	callTokens   genaiconv.ClientTokenUsage
	stepDuration metric.Float64Histogram
	stepCost     metric.Float64Histogram
	stepCalls    metric.Int64Histogram
	verdicts     metric.Int64Counter
	sums
}

// New returns a recorder that writes to the providers of the configuration.
func New(c Config) (*Recorder, error) {
	if c.TracerProvider == nil {
		c.TracerProvider = otel.GetTracerProvider()
	}
	if c.MeterProvider == nil {
		c.MeterProvider = otel.GetMeterProvider()
	}
	meter := c.MeterProvider.Meter(scope)
	r := &Recorder{tracer: c.TracerProvider.Tracer(scope)}
	var errs [7]error
	r.callDuration, errs[0] = genaiconv.NewClientOperationDuration(meter, metric.WithExplicitBucketBoundaries(secondBuckets...))
	r.callTokens, errs[1] = genaiconv.NewClientTokenUsage(meter, metric.WithExplicitBucketBoundaries(tokenBuckets...))
	r.stepDuration, errs[2] = meter.Float64Histogram("stepfall.step.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the query to the answer of a step"), metric.WithExplicitBucketBoundaries(secondBuckets...))
	r.stepCost, errs[3] = meter.Float64Histogram("stepfall.step.cost", metric.WithUnit("{USD}"),
		metric.WithDescription("Money spent on a step, failed calls and verification included"),
		metric.WithExplicitBucketBoundaries(costBuckets...))
	r.stepCalls, errs[4] = meter.Int64Histogram("stepfall.step.calls", metric.WithUnit("{call}"),
		metric.WithDescription("Calls of models in a step"), metric.WithExplicitBucketBoundaries(1, 2, 3, 4, 5, 8, 12, 24))
	r.sums, errs[5] = newSums(meter)
	r.verdicts, errs[6] = meter.Int64Counter("stepfall.verdicts", metric.WithUnit("{verdict}"),
		metric.WithDescription("Verdicts on answers"))
	if err := cmp.Or(errs[:]...); err != nil {
		return nil, fmt.Errorf("making an instrument: %w", err)
	}
	return r, nil
}

// secondBuckets and tokenBuckets are the buckets that the gen_ai semantic conventions recommend, with smaller
// ones added for answers within milliseconds.
var (
	secondBuckets = []float64{0.00125, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	tokenBuckets  = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
)

// costBuckets range from a hundredth of a cent to ten dollars, two per decade.
var costBuckets = []float64{0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10}

// Record writes one trace. The span of ctx, if any, becomes the parent. Record is a trace sink: it does not
// retain t, and exports its texts unchanged. A verdict on a run is not a step: it has no span, and only
// counts for the measurements of a holdout.
func (r *Recorder) Record(ctx context.Context, t *sdk.Trace) {
	if !sdk.IsStep(t.Mode) {
		r.accounts.record(ctx, r.tenants.label(t.Tenant), t)
		return
	}
	own, end := t.ForSums(), t.Start.Add(t.Duration)
	ctx, span := r.tracer.Start(ctx, "stepfall.step", trace.WithTimestamp(t.Start), trace.WithAttributes(
		attribute.String("stepfall.trace.id", t.ID),
		attribute.String("stepfall.strategy", t.Strategy),
		attribute.String("stepfall.stop", string(t.Stop)),
		attribute.String("stepfall.chosen", t.Chosen),
		attribute.Float64("stepfall.cost_usd", own.CostUSD),
		attribute.Int("stepfall.calls", middleware.CallsSent(t)),
		attribute.Float64("stepfall.overhead_s", t.Overhead.Seconds()),
	))
	span.SetAttributes(knownAttributes(
		attribute.String("stepfall.policy", t.Policy), attribute.String("stepfall.profile", t.Profile),
		attribute.String("stepfall.mode", t.Mode), attribute.String("stepfall.group", t.Group),
		attribute.String("stepfall.run", t.Run), attribute.String("stepfall.tenant", t.Tenant),
		semconv.GenAIConversationID(t.Session),
	)...)
	if t.Error != "" {
		span.SetStatus(codes.Error, t.Error)
	}
	for i := range own.Calls {
		r.call(ctx, &own.Calls[i], end, own == t)
	}
	span.End(trace.WithTimestamp(end))

	by := metric.WithAttributes(attribute.String("stepfall.strategy", t.Strategy),
		attribute.String("stepfall.chosen", t.Chosen), attribute.String("stepfall.stop", string(t.Stop)))
	r.stepDuration.Record(ctx, t.Duration.Seconds(), by)
	r.stepCost.Record(ctx, own.CostUSD, by)
	r.stepCalls.Record(ctx, int64(middleware.CallsSent(t)), by)
	r.add(ctx, t)
}

func (r *Recorder) call(ctx context.Context, c *sdk.Call, stepEnd time.Time, isCounted bool) {
	start := c.Start
	if start.IsZero() {
		start = stepEnd.Add(-c.Latency)
	}
	served, provider := cmp.Or(c.Served, c.Model), cmp.Or(c.Provider, "_OTHER")
	_, span := r.tracer.Start(ctx, "chat "+served, trace.WithTimestamp(start), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(
			semconv.GenAIOperationNameChat,
			semconv.GenAIProviderNameKey.String(provider),
			semconv.GenAIRequestModel(served),
			semconv.GenAIUsageInputTokens(c.Usage.InputTokens+c.Usage.CachedInputTokens+c.Usage.CacheWriteTokens),
			semconv.GenAIUsageOutputTokens(c.Usage.OutputTokens+c.Usage.ReasoningTokens),
			attribute.String("stepfall.model", c.Model),
			attribute.Int("stepfall.attempt", c.Attempt),
			attribute.Float64("stepfall.cost_usd", c.CostUSD),
		))
	span.SetAttributes(knownAttributes(attribute.String("stepfall.deployment", c.Deployment))...)
	if c.StopReason != "" {
		span.SetAttributes(semconv.GenAIResponseFinishReasons(c.StopReason))
	}
	var failure []attribute.KeyValue
	if c.Failed() {
		span.SetStatus(codes.Error, c.Error)
		failure = append(failure, errorType(c.Error))
		span.SetAttributes(failure...)
	}
	if v := c.Verdict; v != nil {
		span.SetAttributes(attribute.String("stepfall.verdict", v.Outcome.String()), attribute.String("stepfall.verifier", v.Verifier),
			attribute.Float64("stepfall.verdict.score", v.Score), attribute.StringSlice("stepfall.isolation", v.Isolation))
		r.verdicts.Add(ctx, 1, metric.WithAttributes(
			attribute.String("stepfall.verifier", v.Verifier), attribute.String("stepfall.outcome", v.Outcome.String())))
	}
	span.End(trace.WithTimestamp(start.Add(c.Latency)))
	if !isCounted || !middleware.IsSent(c) {
		return
	}

	chat, of := genaiconv.OperationNameChat, genaiconv.ProviderNameAttr(provider)
	model := r.callTokens.AttrRequestModel(served)
	r.callDuration.Record(ctx, c.Latency.Seconds(), chat, of, append(failure, model)...)
	if c.Error == "" {
		r.callTokens.Record(ctx, int64(c.Usage.InputTokens+c.Usage.CachedInputTokens+c.Usage.CacheWriteTokens), chat, of, genaiconv.TokenTypeInput, model)
		r.callTokens.Record(ctx, int64(c.Usage.OutputTokens+c.Usage.ReasoningTokens), chat, of, genaiconv.TokenTypeOutput, model)
	}
}

var statusText = regexp.MustCompile(`\bstatus (?:code: )?([45]\d\d)\b`)

// errorType returns the error.type of a failed call: a known HTTP status or the kind of error.
func errorType(text string) attribute.KeyValue {
	if m := statusText.FindStringSubmatch(text); m != nil {
		if code, err := strconv.Atoi(m[1]); err != nil || http.StatusText(code) == "" {
			return semconv.ErrorTypeOther // servers invent status codes
		}
		return semconv.ErrorTypeKey.String(m[1])
	}
	text = strings.ToLower(text)
	for _, kind := range [...]struct{ sign, name string }{
		{"timed out", "timeout"}, {"timeout", "timeout"}, {"deadline exceeded", "timeout"}, {"canceled", "canceled"}, {"circuit open", "circuit_open"},
		{"connection refused", "connection_error"}, {"connection reset", "connection_error"}, {"eof", "connection_error"}, {"no such host", "connection_error"}, {"truncated stream", "truncated_stream"}, {"empty response", "empty_response"},
	} {
		if strings.Contains(text, kind.sign) {
			return semconv.ErrorTypeKey.String(kind.name)
		}
	}
	return semconv.ErrorTypeOther
}

func knownAttributes(attributes ...attribute.KeyValue) []attribute.KeyValue {
	return slices.DeleteFunc(attributes, func(a attribute.KeyValue) bool { return a.Value.AsString() == "" })
}
