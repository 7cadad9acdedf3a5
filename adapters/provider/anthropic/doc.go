// Package anthropic asks Claude by the Messages API: an llms.Model that works alone in
// langchaingo programs, or as a candidate of a cascade.
//
//	model, err := anthropic.New(anthropic.Options{Model: "claude-sonnet-4-5", APIKey: key})
//
// See package openai for how it is asked for more than llms.CallOptions can say. A
// prompt is cached up to each part in llms.WithCacheControl.
package anthropic
