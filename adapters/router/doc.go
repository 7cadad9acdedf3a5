// Package router turns a policy file into a langchaingo model with one call.
//
//	model, err := router.Open(ctx, "policy.hcl", router.Options{
//		Providers: map[string]middleware.OpenClient{"openai": openai.Open},
//	})
//	if err != nil { ... }
//	defer model.Close()
//	answer, err := llms.GenerateFromSinglePrompt(ctx, model, "How high is Ben Nevis?")
//
// Open loads the policy, creates the langchaingo models that it names, finds its plugins, reads its
// profile, opens its ledger and its trace file, and combines them in a [middleware.Model]. Plugins start
// at their first use, or with [Router.Start]; a plugin whose config schema is not known yet is also started
// briefly in Open to read it. Providers, stores and plugins are values of [Options], so a program links only
// what it uses; package full includes them all. Models with the provider "go" come from the application,
// in [Options.Models], and can be any llms.Model.
//
// [Wrap] needs no file and takes models that the program already has:
//
//	model, err := router.Wrap(ctx, 0.05, router.Options{ // a right answer is worth five cents
//		Models: map[string]llms.Model{"gpt-4.1-mini": small, "gpt-4.1": large},
//		Verify: check, // a func that says whether an answer is right
//	})
//
// # Changing the policy
//
// With [Options.Watch] the router reloads the policy when its files change; [Router.Swap] installs a
// policy from elsewhere. Either way, a running step completes under the policy that it began with.
package router
