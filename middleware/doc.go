// Package middleware wraps langchaingo models: llms.Model in, llms.Model out, and
// every step of an agent in between goes through a cascade of models.
//
//	model, err := middleware.New(middleware.Config{
//		Models: []middleware.Candidate{
//			{Model: sdk.Model{Name: "small", Price: sdk.Price{Input: 0.15, Output: 0.6}}, LLM: small},
//			{Model: sdk.Model{Name: "large", Price: sdk.Price{Input: 2.5, Output: 10}}, LLM: large},
//		},
//		Lambda: 10, // a gain of 0.1 in quality is worth a cent
//	})
//
// The model goes where a langchaingo model goes: into agents, chains, memory.
//
// # What the application sees
//
// One call, one response, one pair of callback events, however many models were
// asked. The GenerationInfo of the model that answered stays, and gets the totals
// of the step under stepfall.. [WithReport] collects what the steps of an agent
// came to; [WithInfo] says where they come from: run, session, tenant, format.
//
// llms.WithModel with the name of a candidate pins the step to it; any other name
// is ignored, since it could be right for one of the candidates at most.
//
// # What the models see
//
// The caller's messages and options, in the form that each client understands:
// roles, tools instead of deprecated functions, JSON arguments, images. Streaming
// is held back until an answer is chosen ([StreamMode]).
//
// # Errors
//
// A step that fails returns an *llms.Error with a code; the errors of the calls are
// in its chain, the context's too when that ended.
package middleware
