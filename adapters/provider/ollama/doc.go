// Package ollama asks models that Ollama serves, by its own chat API: an llms.Model
// that works alone in langchaingo programs, or as a candidate of a cascade.
//
//	model, err := ollama.New(ollama.Options{Model: "qwen3:8b", ContextTokens: 32768})
//
// It speaks the API itself. Ollama's Go package keeps of a tool's schema what it knows
// of JSON schemas, returns no error where a stream was cut (v0.17.4) and reserves 8 MiB for
// each call; Ollama's imitation of OpenAI has no word for the context's length, top_k
// or thinking.
package ollama
