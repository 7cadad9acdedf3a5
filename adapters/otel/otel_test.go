package otel_test

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/stepfall/stepfall/adapters/otel"
	"github.com/stepfall/stepfall/sdk"
)

func escalated(start time.Time) *sdk.Trace {
	return &sdk.Trace{
		ID: "t1", Start: start, Duration: 3 * time.Second, Strategy: "cascade_route", Stop: sdk.StopNotWorth, Chosen: "large",
		Session: "s1", CostUSD: 0.012, Prompt: "the secret prompt",
		Calls: []sdk.Call{
			{
				Model: "small", Served: "gpt-4o-mini", Provider: "openai", Attempt: 1, Start: start, Latency: time.Second,
				Usage: sdk.Usage{InputTokens: 90, CachedInputTokens: 10, OutputTokens: 5}, CostUSD: 0.002,
				Verdict: &sdk.Verdict{Verifier: "tests", Outcome: sdk.Failed},
			},
			{Model: "large", Attempt: 1, Start: start.Add(time.Second), Latency: time.Second, Error: "429"},
			{Model: "large", Attempt: 2, Start: start.Add(2 * time.Second), Latency: time.Second, StopReason: "stop",
				Usage: sdk.Usage{InputTokens: 100, OutputTokens: 7}, CostUSD: 0.01, Answer: "the secret answer"},
		},
	}
}

func attributesOf(s sdktrace.ReadOnlySpan) map[attribute.Key]attribute.Value {
	found := map[attribute.Key]attribute.Value{}
	for _, a := range s.Attributes() {
		found[a.Key] = a.Value
	}
	return found
}

func TestAStepBecomesASpanWithACallEach(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	recorder, err := otel.New(otel.Config{TracerProvider: provider, MeterProvider: sdkmetric.NewMeterProvider()})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
	ctx, caller := provider.Tracer("app").Start(context.Background(), "agent")
	recorder.Record(ctx, escalated(start))
	caller.End()

	ended := spans.Ended()
	if len(ended) != 5 {
		t.Fatalf("%d spans, want three calls, the step and the caller", len(ended))
	}
	step := ended[3]
	if step.Name() != "stepfall.step" || step.Parent().SpanID() != caller.SpanContext().SpanID() {
		t.Errorf("the step's span is %q under %v", step.Name(), step.Parent().SpanID())
	}
	if !step.StartTime().Equal(start) || !step.EndTime().Equal(start.Add(3*time.Second)) {
		t.Errorf("the step lasts from %v to %v", step.StartTime(), step.EndTime())
	}
	for i, want := range []string{"chat gpt-4o-mini", "chat large", "chat large"} {
		if ended[i].Name() != want || ended[i].Parent().SpanID() != step.SpanContext().SpanID() {
			t.Errorf("call %d is %q", i, ended[i].Name())
		}
	}
	small := attributesOf(ended[0])
	if small["gen_ai.provider.name"].AsString() != "openai" || small["gen_ai.usage.input_tokens"].AsInt64() != 100 ||
		small["stepfall.verdict"].AsString() != "failed" {
		t.Errorf("attributes of the first call: %v", small)
	}
	if ended[1].Status().Code != codes.Error || ended[2].Status().Code == codes.Error {
		t.Error("the failed call is not the one marked as failed")
	}
	for _, s := range ended {
		for _, a := range s.Attributes() {
			if v := a.Value.String(); v == "the secret prompt" || v == "the secret answer" {
				t.Errorf("span %q exports %s", s.Name(), v)
			}
		}
	}
}

// A verdict on a run is not a step: it creates no span and is not counted by any instrument for
// steps.
func TestAVerdictOnARunIsNoStep(t *testing.T) {
	spans, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	recorder, err := otel.New(otel.Config{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
	})
	if err != nil {
		t.Fatal(err)
	}
	recorder.Record(t.Context(), escalated(time.Now()))
	was := len(spans.Ended())
	recorder.Record(t.Context(), &sdk.Trace{ID: "v", Run: "r", Mode: sdk.ModeVerdict, Verdict: &sdk.Verdict{Outcome: sdk.Failed}})
	if now := len(spans.Ended()); now != was {
		t.Errorf("a verdict on a run left %d spans", now-was)
	}
	var out metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, s := range out.ScopeMetrics {
		for _, m := range s.Metrics {
			var n int64
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					n += int64(p.Count)
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					n += int64(p.Count)
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					n += p.Value
				}
			}
			switch m.Name {
			case "stepfall.steps", "stepfall.step.cost", "stepfall.step.calls", "stepfall.step.duration", "stepfall.decision.duration":
				if seen++; n != 1 {
					t.Errorf("%s counts %d steps, want 1", m.Name, n)
				}
			}
		}
	}
	if seen != 5 {
		t.Errorf("%d of 5 instruments of steps", seen)
	}
}

func TestMetricsCountCallsAndMoney(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	recorder, err := otel.New(otel.Config{
		TracerProvider: sdktrace.NewTracerProvider(), MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
	})
	if err != nil {
		t.Fatal(err)
	}
	recorder.Record(t.Context(), escalated(time.Now()))
	// The calls of an attempt have their own traces: the attempt only adds its step and its verdicts.
	attempt := escalated(time.Now())
	attempt.Mode = sdk.ModeAttempt
	recorder.Record(t.Context(), attempt)
	var out metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	for _, s := range out.ScopeMetrics {
		for _, m := range s.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					sums[m.Name] += p.Sum
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					sums[m.Name] += float64(p.Sum)
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					sums[m.Name] += float64(p.Value)
				}
			}
		}
	}
	for name, want := range map[string]float64{
		"gen_ai.client.operation.duration": 3, "gen_ai.client.token.usage": 212,
		"stepfall.step.duration": 6, "stepfall.step.cost": 0.012, "stepfall.step.calls": 6, "stepfall.verdicts": 2,
		"stepfall.calls": 3, "stepfall.tokens": 212, "stepfall.escalations": 2,
	} {
		if got := sums[name]; got != want {
			t.Errorf("%s sums to %v, want %v", name, got, want)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	recorder, err := otel.New(otel.Config{
		TracerProvider: sdktrace.NewTracerProvider(), MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
	})
	if err != nil {
		b.Fatal(err)
	}
	t := escalated(time.Now())
	b.ReportAllocs()
	for b.Loop() {
		recorder.Record(b.Context(), t)
	}
}

// A call stopped by an open circuit was not sent: its span says so, and no metric counts it.
func TestCallsThatWereNotSentDoNotCount(t *testing.T) {
	spans, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	recorder, err := otel.New(otel.Config{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
	})
	if err != nil {
		t.Fatal(err)
	}
	step := escalated(time.Now())
	step.Calls = append([]sdk.Call{{Model: "small", Attempt: 1, Error: "small: provider_unavailable: circuit open after repeated failures"}}, step.Calls[1:]...)
	recorder.Record(t.Context(), step)
	if ended := spans.Ended(); len(ended) != 4 || attributesOf(ended[0])["error.type"].AsString() != "circuit_open" || attributesOf(ended[3])["stepfall.calls"].AsInt64() != 2 {
		t.Errorf("spans: %+v", ended)
	}
	var out metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for _, m := range out.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				found[m.Name] += int64(p.Count)
			}
		case metricdata.Histogram[int64]:
			for _, p := range data.DataPoints {
				found[m.Name] += p.Sum
			}
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				found[m.Name] += p.Value
			}
		}
	}
	for name, want := range map[string]int64{"stepfall.calls": 2, "stepfall.step.calls": 2, "gen_ai.client.operation.duration": 2, "stepfall.escalations": 0} {
		if found[name] != want {
			t.Errorf("%s is %d, want %d", name, found[name], want)
		}
	}
}
