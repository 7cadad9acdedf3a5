// Package otel turns stepfall's traces into OpenTelemetry spans and metrics,
// named by the gen_ai semantic conventions.
//
// A step becomes a span "stepfall.step" under the caller's span, and each model call a child span
// "chat MODEL" with its tokens, cost and verdict. The spans carry the original times, so they can be
// written after the step has ended: recording adds nothing to the step's duration.
//
//	recorder, err := otel.New(otel.Config{})
//	model, err := middleware.New(middleware.Config{..., Step: step.Config{Traces: step.Redact(recorder.Record, nil)}})
//
// step.Redact removes credentials, which errors can contain: the recorder exports the names and errors of
// a trace unchanged. Package router redacts traces before it passes them to its sinks.
//
// # Metrics
//
//   - gen_ai.client.operation.duration and gen_ai.client.token.usage, for each call
//   - stepfall.step.duration in seconds, stepfall.step.cost in US dollars and
//     stepfall.step.calls, by strategy, chosen model and stop reason
//   - stepfall.verdicts, by verifier and outcome
//   - stepfall.steps, calls, tokens, spent, saved and escalations, by model and tenant; after the
//     first hundred of each, further ones are reported as "other"
//   - stepfall.requests.refused, by reason, if a gateway reports refusals: [Recorder.CountRefusal]
//
// `stepfall serve` and `stepfall worker` export them at /metrics for Prometheus, together with gauges of
// the store, circuits and queue.
//
// Prompts and answers are never exported.
package otel
