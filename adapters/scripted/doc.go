// Package scripted is a model server with the APIs of OpenAI and Anthropic whose answers
// are computed by a function, for demos, examples and tests that need models but have no key.
//
//	server, err := scripted.Start(scripted.Options{
//		Models: []string{"small", "large"},
//		Respond: func(_ context.Context, req *scripted.Request) scripted.Reply {
//			return scripted.Reply{Text: "I am " + req.Model}
//		},
//	})
//	if err != nil { ... }
//	defer server.Close()
//	// Any OpenAI client works against server.URL().
//
// It listens on the loopback interface only. It serves POST /v1/chat/completions, /v1/responses and
// /v1/messages (plain and streamed, with tool calls, several choices, usage and log-probabilities on
// request) and GET /v1/models, and counts its requests ([Server.Calls]).
//
// # Tokens
//
// A token is a word, a run of spaces or a sign, cut at eight characters. Both usage and log-probabilities
// count these tokens, so that costs computed from them agree. A reply can state its own usage instead.
//
// # Faults
//
// A [Reply] can carry a [Fault] in place of, or in addition to, an answer: an HTTP
// error with Retry-After, bytes that are not JSON, a closed connection, no response
// until the client gives up, or an answer that ends in the middle.
package scripted
