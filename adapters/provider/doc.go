// Package provider calls models through the APIs of their vendors: chat completions of OpenAI and
// compatible servers, Responses, Messages, Gemini and Ollama. A model is an llms.Model that can be used
// alone in langchaingo programs, or as a candidate of a cascade:
//
//	model, err := provider.New(provider.Options{Model: "gpt-4o-mini", APIKey: key})
//	answer, err := model.GenerateContent(ctx, messages, llms.WithMaxTokens(200))
//
// [middleware.WithParams] sets what llms.CallOptions cannot express, and [middleware.ExtraOf] returns
// what llms.ContentChoice has no fields for. docs/providers.md has a table of every field, which the
// tests of this package check. A field that the caller does not set is not sent.
//
// If a server reports that it does not support a parameter that the answer can do without (temperature, for
// reasoning models), the request is repeated without it, and the parameter is not sent to that model for an
// hour; [middleware.Extra.NotSent] names it. A prompt that exceeds Ollama's context is an error,
// while Ollama itself would drop its beginning.
//
// All models share one connection pool, limit the size of an answer, do not retry for any other reason, and
// fail with a [middleware.ProviderError].
package provider
