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
		"strategy": completeWords(cascade.Names()...), "strategies": completeWords(eval.StrategyNames()...), "order": cobra.NoFileCompletions,
		"estimator": completeWords(eval.Estimators()...),
		"judge":     completeWords(judges...),
		"for":       completeWords(programKinds...),
		"lang":      completeWords("go", "python"),
		"verdict":   completeWords("passed", "failed", "inconclusive"),
		"by":        completeWords("day", "tenant", "key", "policy", "model", "account"),
	}
	experiments := []string{"all\tevery one of them"}
	for _, p := range paper.Presets() {
		experiments = append(experiments, p.Name+"\t"+p.Title)
	}
	arguments := map[string]cobra.CompletionFunc{
		"stepfall policy validate": policyNames, "stepfall policy plan": completeFirst(policyNames), "stepfall policy show": completeFirst(policyNames),
		"stepfall plugin ls": completeFirst(pluginNames), "stepfall plugin check": pluginNames,
		"stepfall dev paper": completeWords(experiments...),
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

// completeWords completes from a list of words, each with an optional description after a tab; shells leave out
// those that do not begin as what is typed.
func completeWords(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

func completeFirst(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, begun)
	}
}

// policyNames completes the names of library policies, and files.
func policyNames(_ *cobra.Command, _ []string, begun string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	if !strings.HasPrefix(begun, "lib") {
		return []string{"hcl"}, cobra.ShellCompDirectiveFilterFileExt
	}
	for _, name := range policies.Library() {
		names = append(names, "library:"+name+"\t"+purpose(name))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
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
	return out, cobra.ShellCompDirectiveNoFileComp
}
