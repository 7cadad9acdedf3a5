// Package middleware wraps langchaingo models into one llms.Model that sends every step of an agent
// through a cascade of them.
//
//	model, err := middleware.New(middleware.Config{
//		Models: []middleware.Candidate{
//			{Model: sdk.Model{Name: "small", Price: sdk.Price{Input: 0.15, Output: 0.6}}, LLM: small},
//			{Model: sdk.Model{Name: "large", Price: sdk.Price{Input: 2.5, Output: 10}}, LLM: large},
//		},
//		Lambda: 10, // a gain of 0.1 in quality is worth a cent
//	})
//
// Use the result wherever langchaingo takes a model: in agents, chains, memory.
//
// # What the application sees
//
// One call, one response and one pair of callback events, however many models were called. The
// GenerationInfo is that of the answering model, with the totals of the step added under keys that
// begin with "stepfall.". [WithReport] collects the results of an agent's steps; [WithInfo] states their
// origin: run, session, tenant, format.
//
// llms.WithModel with the name of a candidate pins the step to that candidate. Any other name is
// ignored, because at most one of the candidates could be served under it.
//
// # What the models see
//
// The caller's messages and options, converted to the form that each client understands: roles, tools in
// place of deprecated functions, JSON arguments, images. A stream is held back until an answer is chosen
// ([StreamMode]).
//
// # Errors
//
// A step that fails returns an *llms.Error with a code. Its chain contains the errors of the calls,
// and the context's error if the context ended.
package middleware
