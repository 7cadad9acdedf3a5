// Package gateway serves a cascade through the APIs of OpenAI and Anthropic, for programs in any
// language.
//
//	model, err := full.Open(ctx, "policy.hcl", full.Options{})
//	if err != nil { ... }
//	defer model.Close()
//	g, err := gateway.New(gateway.Options{Model: model})
//	if err != nil { ... }
//	http.ListenAndServe("127.0.0.1:8080", g) // or g.Serve, which drains
//
// It serves chat completions, Responses and Messages, whole and streamed, and embeddings, models and
// token counts. The command "stepfall serve" runs it.
//
// # In a Go program
//
// A [Gateway] is an http.RoundTripper as well. A program that uses one of the official clients gets
// the cascade through the client's HTTP option, without a server:
//
//	client := openai.NewClient(option.WithAPIKey("none"), option.WithHTTPClient(&http.Client{Transport: g}))
//
// # Requests
//
// The model "stepfall" ([Options.Name]) lets the policy choose; the name of a candidate pins the step
// to it. Fields that the gateway does not recognize are passed to models of the same API. A field that no
// model could honour is rejected with 400 and the name of the field.
//
// Some inputs of a policy have no field in these APIs and are sent in headers: X-Stepfall-Run
// (which run_usd caps), X-Stepfall-Session, X-Stepfall-Group, X-Stepfall-Query and, on a gateway
// without keys, X-Stepfall-Tenant. With [Options.Authenticate], the key determines the tenant. The
// request's metadata become the labels of the query.
//
// # Responses
//
// The client gets one answer, however many models were called. The usage is that of the call whose answer it is.
// The member "stepfall" has the model that answered, the cost of the step, the usage of all its calls, and the id
// of its trace. Headers repeat this on every response, including errors; on a stream they are trailers.
//
// A stream begins when the policy's stream mode releases the first text. Until then comments, which
// clients ignore, keep the connection open.
//
// # Errors
//
// Errors have the form of the client's API; their content is a [Refusal]. An exhausted cap is 429
// insufficient_quota, which official clients do not retry; an outage is 503 with Retry-After; a
// provider's rejection of the gateway's own key is 502, because the client's key is not at fault. No
// error contains a secret.
package gateway
