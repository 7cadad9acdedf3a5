// Package gateway serves a cascade to programs that speak OpenAI's
// chat completions, in whatever language they are written.
//
//	model, err := router.Open(ctx, "policy.hcl", router.Options{})
//	if err != nil { ... }
//	defer model.Close()
//	handler, err := gateway.New(gateway.Options{Model: model})
//	if err != nil { ... }
//	http.ListenAndServe("127.0.0.1:8080", handler)
//
// It answers POST /v1/chat/completions (plain and streamed, tools, images, JSON
// mode and JSON schemas, several choices), GET /v1/models and GET /healthz. The
// command for it is "stepfall serve".
//
// # What a client asks for
//
// The model "stepfall" ([Options.Name]) lets the policy choose; the name of a
// candidate pins the step to it. What cannot be honoured is refused with 400
// instead of being dropped: log-probabilities, audio, files, the deprecated functions.
//
// OpenAI has no place for some of what a policy decides by. It is sent in headers:
// X-Stepfall-Run (whose cap is run_usd), X-Stepfall-Session, X-Stepfall-Group,
// X-Stepfall-Query and, on a gateway without keys, X-Stepfall-Tenant. With
// [Options.Keys], the key says who the tenant is. The request's metadata are the
// labels of the query.
//
// # What it gets
//
// One completion, however many models were asked. Its usage counts all calls of
// the step, its member "stepfall" says which model answered, what the step cost
// and under which trace it was recorded; without streaming, headers say the same.
//
// A stream begins when the policy's stream mode lets the first text out. Until
// then comments keep the connection open, which clients ignore.
//
// # Errors
//
// They have OpenAI's form. A spent cap is 429 insufficient_quota; a provider's
// refusal of the gateway's own key is 502, since the client's key is not at fault.
package gateway
