// Package router is the one-call form of stepfall: a policy file in, a langchaingo
// model out.
//
//	model, err := router.Open(ctx, "policy.hcl", router.Options{
//		Providers: map[string]middleware.OpenClient{"openai": openai.Open},
//	})
//	if err != nil { ... }
//	defer model.Close()
//	answer, err := llms.GenerateFromSinglePrompt(ctx, model, "How high is Ben Nevis?")
//
// Open loads the policy, builds the langchaingo models that it names, starts its
// plugins, reads its profile, opens its ledger and its trace file, and joins them in
// a [middleware.Model]. Providers, stores and plugins are values of [Options], so that a
// program links what it uses; package full has the whole set. Models with the provider "go" come from the application, in
// [Options.Models]; they may be any llms.Model.
//
// Without a file, [Wrap] takes models that the program has in hand:
//
//	model, err := router.Wrap(ctx, 0.05, router.Options{ // a right answer is worth five cents
//		Models: map[string]llms.Model{"gpt-4.1-mini": small, "gpt-4.1": large},
//		Verify: check, // a func; tells right answers from wrong ones
//	})
//
// # Another policy
//
// With [Options.Watch] the router follows the policy's files; [Router.Swap] puts a
// policy in force that the program has from elsewhere. Either way a step is done
// wholly under the policy that it began with.
package router
