// Package stepfall is an overview of the module; the code is in the packages below.
//
// stepfall makes agents cheaper at the same quality. It wraps langchaingo's llms.Model: each step of
// an agent goes to the cheapest model that is expected to suffice, its answer is judged, and a more
// expensive model is asked only if that is worth its price.
//
// # With a policy file
//
//	model, err := full.Open(ctx, "policy.hcl", full.Options{})
//	if err != nil {
//		return err
//	}
//	defer model.Close()
//
// # With models in code
//
//	model, err := router.Wrap(ctx, 0.05, router.Options{ // a right answer is worth five cents
//		Models: map[string]llms.Model{"gpt-4.1-mini": small, "gpt-4.1": large},
//		Verify: check,
//	})
//
// Either is an llms.Model: agents, chains, tools and streaming work unchanged.
//
// # Packages
//
//   - sdk: the shared types, and below it the decision core (cascade), the engine of one step
//     (step), tables of outcomes (outcome), estimators (estimate), fits (fit), evaluation (eval),
//     and the packages for writing plugins (plugin, plugintest)
//   - middleware: wraps langchaingo models into one langchaingo model
//   - policies: the policy language, HCL 2
//   - plugins: the plugins that come with stepfall
//   - adapters: router (turns a policy into a model), full (router with all providers, stores and
//     plugins), gateway (an HTTP server for OpenAI's and Anthropic's clients), providers,
//     stores, OpenTelemetry, and the command, adapters/cli/stepfall
//   - examples: programs that show one idea each
//
// The documentation is in docs and begins with docs/start.md.
package stepfall
