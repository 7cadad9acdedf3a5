// Package provider asks models by the APIs of their vendors: chat completions of OpenAI and
// of all that speak like it, Responses, Messages, Gemini, Ollama. A model is an llms.Model
// that works alone in langchaingo programs, or as a candidate of a cascade:
//
//	model, err := provider.New(provider.Options{Model: "gpt-4o-mini", APIKey: key})
//	answer, err := model.GenerateContent(ctx, messages, llms.WithMaxTokens(200))
//
// What llms.CallOptions cannot say, [middleware.WithParams] does; what llms.ContentChoice has
// no place for is in [middleware.ExtraOf]. docs/providers.md has a table of every field,
// which the tests of this package hold. A field that was not asked for is not sent.
//
// A server that says that it does not support a parameter which the answer can do without
// (temperature, for models that reason) is asked again without it, and not sent it for an
// hour; [middleware.Extra.NotSent] names it. A prompt that is longer than Ollama's context is
// an error instead of losing its beginning.
//
// All share one pool of connections, read no more of an answer than a bound, repeat no other
// request themselves, and fail with a [middleware.ProviderError].
package provider
