// Package policies reads policy files. In a policy, an operator states which models can be called, what
// they cost, what judges their answers, and how much may be spent.
//
// # Loading
//
//	p, err := policies.Load("policy.hcl", policies.LoadOptions{})
//
// A policy is written in HCL 2. Its values come from four layers, of which later ones take precedence: the
// catalogue of models that ships with the package, the file and its includes, environment variables
// that begin with STEPFALL__, and settings from the command line ([LoadOptions.Sets]). The layers are
// merged by koanf before they are decoded, so every error points at the layer that set the value.
//
// The error of Load is a [Diagnostics]: all errors, each with its file and line, the text of the line and,
// if there is one, a hint. Warnings do not stop a policy from loading; they are in [Policy.Warnings].
//
// # Language
//
// The exported structs of this package are the language: each block is a struct, and each argument a
// field, named in its policy tag. The comment of the field is its entry in the reference
// ([WriteReference], docs/policies.md), so the two cannot disagree.
//
// # Secrets
//
// Secrets are read only from the environment, by env("NAME"). They are [Secret] values, which always
// print as [secret]. Diagnostics never show one, even if an operator wrote a key into a file by mistake.
//
// # Plugins
//
// This package starts no plugins. [LoadOptions.Schemas] returns the schema of a plugin's config block.
//
// # Concurrency
//
// A [Policy] is not modified after Load and can be read by several goroutines. A [Watcher] replaces whole
// policies.
package policies
