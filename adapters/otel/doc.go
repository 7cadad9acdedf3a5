// Package otel turns stepfall's traces into OpenTelemetry spans and metrics,
// named by the gen_ai semantic conventions.
//
// A step becomes a span "stepfall.step" under the caller's span, and each call of
// a model a child span "chat MODEL" with its tokens, cost and verdict. The spans
// carry the times at which things happened, so that they can be written when the
// step has ended: recording costs the step nothing while it runs.
//
//	recorder, err := otel.New(otel.Config{})
//	model, err := middleware.New(middleware.Config{..., Step: step.Config{Traces: step.Redact(recorder.Record, nil)}})
//
// step.Redact takes out credentials, which errors may hold: the recorder writes the names and
// errors of a trace as they are. Package router hands traces to its sinks without credentials.
//
// # Metrics
//
//   - gen_ai.client.operation.duration and gen_ai.client.token.usage, for each call
//   - stepfall.step.duration in seconds, stepfall.step.cost in US dollars and
//     stepfall.step.calls, by strategy, chosen model and reason to stop
//   - stepfall.verdicts, by verifier and outcome
//   - stepfall.steps, calls, tokens, spent, saved and escalations, by model and tenant, of
//     which the first hundred have names of their own
//   - stepfall.requests.refused, by reason, where a gateway says so: [Recorder.CountRefusal]
//
// `stepfall serve` and `stepfall worker` have them at /metrics for Prometheus, and gauges of
// the store, circuits and queue beside them.
//
// Prompts and answers are never exported.
package otel
