// Package provider holds the clients of the APIs that models are asked by: openai (chat
// completions, Responses, and what speaks like them), anthropic, gemini, ollama. Each
// makes an llms.Model of langchaingo that carries what a caller asks for and brings
// back what the model said; docs/providers.md has a table of every field, which the
// tests of this package hold.
//
// They share one pool of connections, read no more of an answer than a bound, repeat no
// request themselves, and fail with a [middleware.ProviderError].
package provider
