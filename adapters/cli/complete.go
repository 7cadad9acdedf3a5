package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/adapters/internal/paper"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/eval"
)

// complete adds shell completions for policies, plugins, strategies and flag values to the commands below root.
func complete(root *cobra.Command) {
	flags := map[string]cobra.CompletionFunc{
		"policy": policyNames, "against": policyNames,
		"strategy": completeFrom(cascade.Names), "strategies": completeFrom(eval.StrategyNames), "order": cobra.NoFileCompletions,
		"estimator": completeFrom(eval.Estimators),
		"judge":     completeFrom(func() []string { return judges }),
		"for":       completeFrom(func() []string { return programKinds }),
		"lang":      completeFrom(func() []string { return []string{"go", "python"} }),
		"verdict":   completeFrom(func() []string { return []string{"passed", "failed", "inconclusive"} }),
		"by":        completeFrom(func() []string { return []string{"day", "tenant", "key", "policy", "model", "account"} }),
	}
	arguments := map[string]cobra.CompletionFunc{
		"stepfall policy validate": policyNames, "stepfall policy plan": completeFirst(policyNames), "stepfall policy show": completeFirst(policyNames),
		"stepfall plugin ls": completeFirst(pluginNames), "stepfall plugin check": pluginNames,
		"stepfall dev paper": completeFrom(func() []string {
			names := []string{"all\tevery one of them"}
			for _, p := range paper.Presets() {
				names = append(names, p.Name+"\t"+p.Title)
			}
			return names
		}),
	}
	visitCommands(root, func(cmd *cobra.Command) {
		if f := arguments[cmd.CommandPath()]; f != nil {
			cmd.ValidArgsFunction = f
		} else if cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil && cmd.ValidateArgs([]string{"x"}) != nil {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		for name, f := range flags {
			if cmd.LocalFlags().Lookup(name) != nil {
				if err := cmd.RegisterFlagCompletionFunc(name, f); err != nil {
					panic(err) // registered twice
				}
			}
		}
	})
}

func visitCommands(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		visitCommands(sub, do)
	}
}

// completeFrom completes from a list of words, each with an optional description after a tab.
func completeFrom(words func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return withPrefix(words(), begun), cobra.ShellCompDirectiveNoFileComp
	}
}

func completeFirst(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, begun)
	}
}

func withPrefix(words []string, begun string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(word string) bool { return !strings.HasPrefix(word, begun) })
}

// policyNames completes the names of library policies, and files.
func policyNames(_ *cobra.Command, _ []string, begun string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	if !strings.HasPrefix(begun, "lib") {
		return []string{"hcl"}, cobra.ShellCompDirectiveFilterFileExt
	}
	for _, name := range policies.Library() {
		names = append(names, "library:"+name+"\t"+purpose(name))
	}
	return withPrefix(names, begun), cobra.ShellCompDirectiveNoFileComp
}

func pluginNames(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if isPath(begun) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var out []string
	for _, found := range host.List(host.SearchPath()) {
		if !slices.Contains(out, found.Name) {
			out = append(out, found.Name)
		}
	}
	return withPrefix(out, begun), cobra.ShellCompDirectiveNoFileComp
}
