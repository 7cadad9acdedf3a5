// Package stepfall teaches the module in one screen; the code is in the packages below.
//
// stepfall makes agents cheaper at the same quality. It wraps langchaingo's llms.Model:
// each step of an agent is answered by the cheapest model that is expected to do, the
// answer is judged, and a dearer model is asked only while that is worth its price.
//
// # With a policy file
//
//	model, err := full.Open(ctx, "policy.hcl", full.Options{})
//	if err != nil {
//		return err
//	}
//	defer model.Close()
//
// # With models in hand
//
//	model, err := router.Wrap(ctx, 0.05, router.Options{ // a right answer is worth five cents
//		Models: map[string]llms.Model{"gpt-4.1-mini": small, "gpt-4.1": large},
//		Verify: check,
//	})
//
// Either is an llms.Model: agents, chains, tools and streaming take it unchanged.
//
// # The map
//
//   - sdk: the vocabulary, and below it the decision core (cascade), one step (step),
//     tables of outcomes (outcome), estimators (estimate), fits (fit), evaluation (eval),
//     and what plugins are written with (plugin, plugintest)
//   - middleware: langchaingo models in, a langchaingo model out
//   - policies: the policy language, HCL 2
//   - plugins: the plugins that come with stepfall, and their host
//   - adapters: router (a policy becomes a model), full (with every provider, store and
//     plugins), gateway (an HTTP server for OpenAI's and Anthropic's clients), providers,
//     stores, OpenTelemetry, and the command, adapters/cli/stepfall
//   - examples: programs, one idea each
//
// The documentation is in docs, beginning with docs/start.md.
package stepfall
