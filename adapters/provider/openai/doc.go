// Package openai asks models behind OpenAI's API, chat completions or Responses, and
// behind the many servers that speak the same: an llms.Model that works alone in
// langchaingo programs, or as a candidate of a cascade.
//
//	model, err := openai.New(openai.Options{Model: "gpt-4o-mini", APIKey: key})
//	answer, err := model.GenerateContent(ctx, messages, llms.WithMaxTokens(200))
//
// What llms.CallOptions cannot say, [middleware.WithParams] does; what
// llms.ContentChoice has no place for is in [middleware.ExtraOf]. A field that was not
// asked for is not sent.
//
// A server that refuses a field which the answer can do without (temperature, for
// models that reason) is asked again without it, and remembered;
// [middleware.Extra.NotSent] names it.
package openai
