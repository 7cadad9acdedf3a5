// Package policies reads the files in which an operator writes which models may
// be asked, what they cost, who judges their answers and what may be spent.
//
// # Loading
//
//	p, err := policies.Load("policy.hcl", policies.LoadOptions{})
//
// A policy is HCL 2. Its values come in four layers, later ones winning: the
// catalogue of models that ships with the package, the file with the files that
// it includes, environment variables that begin with STEPFALL__, and settings of
// the command line ([LoadOptions.Sets]). The layers are merged by koanf and only
// then decoded, so that every complaint points at the layer that won.
//
// The error of Load is a [Diagnostics]: everything that is wrong, each with file,
// line, the line itself and, where there is one, a way to mend it. Warnings do not
// stop a policy; they are in [Policy.Warnings].
//
// # Language
//
// The exported structs of this package are the language: each block is a struct,
// each argument a field, named in its policy tag, and the comment of the field is
// its entry in the reference ([WriteReference], docs/policies.md). There is no
// second description that could disagree.
//
// # Secrets
//
// Keys are read from the environment by env("NAME") and nowhere else. They are
// [Secret] values, which print as [secret] however they are printed; a diagnostic
// never shows one, even when somebody wrote a key into a file where it must not be.
//
// # Plugins
//
// This package starts no plugin. The caller says how the schema of a plugin's
// config block is found ([LoadOptions.Schemas]).
//
// # Concurrency
//
// A [Policy] is not modified after Load and may be read by many goroutines. A
// [Watcher] swaps whole policies.
package policies
