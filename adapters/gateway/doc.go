// Package gateway lets programs that speak OpenAI's or Anthropic's API ask a cascade,
// in whatever language they are written.
//
//	model, err := full.Open(ctx, "policy.hcl", full.Options{})
//	if err != nil { ... }
//	defer model.Close()
//	g, err := gateway.New(gateway.Options{Model: model})
//	if err != nil { ... }
//	http.ListenAndServe("127.0.0.1:8080", g) // or g.Serve, which drains
//
// It answers chat completions, Responses and Messages, plain and streamed, and
// embeddings, models and token counts. The command for it is "stepfall serve".
//
// # In a Go program
//
// A [Gateway] is an http.RoundTripper as well. A program that uses one of the official
// clients gets the cascade by the client's HTTP option, without a server:
//
//	client := openai.NewClient(option.WithAPIKey("none"), option.WithHTTPClient(&http.Client{Transport: g}))
//
// # What a client asks for
//
// The model "stepfall" ([Options.Name]) lets the policy choose; the name of a
// candidate pins the step to it. Fields that the gateway has no name for go to models
// of the same API. What no model could honour is refused with 400 and the name of the
// field.
//
// The APIs have no place for some of what a policy decides by. It is sent in headers:
// X-Stepfall-Run (whose cap is run_usd), X-Stepfall-Session, X-Stepfall-Group,
// X-Stepfall-Query and, on a gateway without keys, X-Stepfall-Tenant. With
// [Options.Authenticate], the key says who the tenant is. The request's metadata are the
// labels of the query.
//
// # What it gets
//
// One answer, however many models were asked. Its usage counts all calls of the step,
// its member "stepfall" says which model answered, what the step cost and under which
// trace it was recorded. Headers say the same on every answer, errors included; on a
// stream they are trailers.
//
// A stream begins when the policy's stream mode lets the first text out. Until
// then comments keep the connection open, which clients ignore.
//
// # Errors
//
// They have the form of the dialect, and a [Refusal] is what they say. A spent cap is
// 429 insufficient_quota, which official clients are told not to try again; an outage is
// 503 with Retry-After; a provider's refusal of the gateway's own key is 502, since the
// client's key is not at fault. No text of them holds a secret.
package gateway
