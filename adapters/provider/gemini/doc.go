// Package gemini asks Google's models by the Gemini API: an llms.Model that works alone
// in langchaingo programs, or as a candidate of a cascade.
//
//	model, err := gemini.New(gemini.Options{Model: "gemini-2.5-flash", APIKey: key})
//
// See package openai for how it is asked for more than llms.CallOptions can say.
package gemini
