package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/paper"
	"github.com/stepfall/stepfall/adapters/internal/view"
	"github.com/stepfall/stepfall/adapters/store"
	"github.com/stepfall/stepfall/plugins/host"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/eval"
)

// complete gives the commands below root what shells complete: policies, plugins,
// strategies, traces and the values of flags that have a few.
func complete(root *cobra.Command, s Streams) {
	flags := map[string]cobra.CompletionFunc{
		"policy": policyNames, "against": policyNames,
		"strategy": fixed(cascade.Names), "strategies": several(eval.StrategyNames), "order": cobra.NoFileCompletions,
		"estimator": fixed(eval.Estimators),
		"judge":     fixed(func() []string { return judges }),
		"for":       fixed(func() []string { return programKinds }),
		"lang":      fixed(func() []string { return []string{"go", "python"} }),
		"role":      fixed(func() []string { return []string{"verifier", "quality-estimator"} }),
		"by":        several(func() []string { return []string{"day", "tenant", "key", "policy", "model"} }),
		"baseline": fromTraces(s, func(t *sdk.Trace) []string {
			var names []string
			for _, d := range t.Decisions {
				for _, b := range d.Models {
					names = append(names, b.Model)
				}
			}
			return names
		}),
		"run":     fromTraces(s, func(t *sdk.Trace) []string { return []string{t.Run} }),
		"session": fromTraces(s, func(t *sdk.Trace) []string { return []string{t.Session} }),
	}
	arguments := map[string]cobra.CompletionFunc{
		"stepfall policy validate": policyNames, "stepfall policy plan": once(policyNames), "stepfall policy explain": once(policyNames),
		"stepfall policy show": once(policyNames), "stepfall policy fmt": extension("hcl"),
		"stepfall plugin ls": once(pluginNames), "stepfall plugin doctor": pluginNames, "stepfall plugin lock": pluginNames,
		"stepfall plugin conformance": once(pluginNames),
		"stepfall trace show":         once(traceIDs(s)),
		"stepfall dev paper": fixed(func() []string {
			names := []string{"all\tevery one of them"}
			for _, p := range paper.Presets() {
				names = append(names, p.Name+"\t"+p.Title)
			}
			return names
		}),
	}
	each(root, func(cmd *cobra.Command) {
		if f := arguments[cmd.CommandPath()]; f != nil {
			cmd.ValidArgsFunction = f
		} else if cmd.ValidArgsFunction == nil && cmd.Args != nil && cmd.ValidateArgs([]string{"x"}) != nil {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		for name, f := range flags {
			if cmd.LocalFlags().Lookup(name) != nil {
				if err := cmd.RegisterFlagCompletionFunc(name, f); err != nil {
					panic(err) // a second one for the same flag
				}
			}
		}
	})
}

// each calls do for every command of the tree.
func each(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		each(sub, do)
	}
}

// fixed completes to a few words, which may have a description after a tab.
func fixed(words func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return beginning(words(), begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// several completes the last of several words with commas between them.
func several(words func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := begun[:strings.LastIndex(begun, ",")+1]
		var out []string
		for _, word := range words() {
			out = append(out, before+word)
		}
		return beginning(out, begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// extension completes to files of one kind.
func extension(name string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return []string{name}, cobra.ShellCompDirectiveFilterFileExt
	}
}

// once completes the first argument only.
func once(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, begun)
	}
}

func beginning(words []string, begun string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(word string) bool { return !strings.HasPrefix(word, begun) })
}

// policyNames completes to policy files, the folders on the way to them, and the policies
// that ship with stepfall.
func policyNames(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	directive := cobra.ShellCompDirectiveNoFileComp
	var out []string
	dir, _ := filepath.Split(begun)
	entries, err := os.ReadDir(filepath.Clean("./" + dir))
	if filepath.IsAbs(begun) {
		entries, err = os.ReadDir(filepath.Clean(dir))
	}
	if err != nil {
		entries = nil // there is nothing to offer
	}
	for _, entry := range entries {
		switch name := dir + entry.Name(); {
		case strings.HasPrefix(entry.Name(), "."):
		case entry.IsDir():
			out = append(out, name+"/")
		case filepath.Ext(name) == ".hcl":
			out = append(out, name)
		}
	}
	for _, name := range policies.Library() {
		out = append(out, "library:"+name+"\t"+purpose(name))
	}
	out = beginning(out, begun)
	if len(out) > 0 && !slices.ContainsFunc(out, func(name string) bool { return !strings.HasSuffix(name, "/") }) {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return out, directive
}

// pluginNames completes to the plugins that are found, and to paths.
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
	return beginning(out, begun), cobra.ShellCompDirectiveNoFileComp
}

// mostCompletions is how many traces, the newest, are offered.
const mostCompletions = 50

// readTracesFor reads the trace file of a command for no longer than a person waits.
func readTracesFor(cmd *cobra.Command, s Streams, yield func(*sdk.Trace)) {
	flag := cmd.Flag("file")
	if flag == nil || flag.Value.String() == "-" {
		return
	}
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	src, err := openTraces(ctx, Streams{In: s.In, Out: io.Discard, Err: io.Discard}, flag.Value.String())
	if err != nil {
		return // nothing is offered of what cannot be read
	}
	_ = view.Each(ctx, src.Traces, store.Filter{}, yield)
	_ = src.close()
}

// traceIDs completes to the newest traces, described by when and which models.
func traceIDs(s Streams) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		out := beginning([]string{"last\tthe last step"}, begun)
		var found []string
		readTracesFor(cmd, s, func(t *sdk.Trace) {
			if strings.HasPrefix(t.ID, begun) {
				found = append(found, fmt.Sprintf("%s\t%s %s", t.ID, t.Start.Format(time.DateTime), asked(t)))
				found = found[max(0, len(found)-mostCompletions):]
			}
		})
		slices.Reverse(found)
		return append(out, found...), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// fromTraces completes to values that the traces of the file have.
func fromTraces(s Streams, values func(*sdk.Trace) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		found := map[string]bool{}
		var out []string
		readTracesFor(cmd, s, func(t *sdk.Trace) {
			for _, value := range values(t) {
				if value != "" && !found[value] && strings.HasPrefix(value, begun) {
					found[value] = true
					out = append(out, value)
				}
			}
		})
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
