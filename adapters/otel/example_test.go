package otel_test

import (
	"context"
	"fmt"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/stepfall/stepfall/adapters/otel"
)

// A step becomes a span, and each of its calls a child span. In a program, step.Redact(recorder.Record, nil) is the
// middleware's Traces.
func Example() {
	spans := tracetest.NewSpanRecorder()
	recorder, err := otel.New(otel.Config{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
		MeterProvider:  sdkmetric.NewMeterProvider(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	recorder.Record(context.Background(), escalated(time.Now()))
	for _, span := range spans.Ended() {
		fmt.Println(span.Status().Code, span.Name())
	}
	// Output:
	// Unset chat gpt-4o-mini
	// Error chat large
	// Unset chat large
	// Unset stepfall.step
}
