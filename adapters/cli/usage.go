package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func usage(format string, args ...any) error {
	return &exitError{Code: exitUsage, Err: fmt.Errorf(format, args...)}
}

func countTrue(list ...bool) int {
	return len(slices.DeleteFunc(list, func(is bool) bool { return !is }))
}

// explainHelp makes an unknown topic of the help command a usage error.
func explainHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, help := range root.Commands() {
		if help.Name() != "help" {
			continue
		}
		help.Run = nil
		help.RunE = func(_ *cobra.Command, names []string) error {
			cmd := root
			for _, name := range names {
				sub, _, err := cmd.Find([]string{name})
				if err != nil || sub == cmd {
					return unknownCommand(cmd, name)
				}
				cmd = sub
			}
			return cmd.Help()
		}
	}
}

func badFlag(cmd *cobra.Command, err error) error {
	hint := ""
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if near := nearest(unknown.GetSpecifiedName(), flagNames(cmd)); near != "" {
			hint = fmt.Sprintf("\nDid you mean %q?", "--"+near)
		}
	}
	return usage("%w%s\nSee '%s --help'", err, hint, cmd.CommandPath())
}

func flagNames(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// nearest returns the name that given is probably a misspelling of, or "".
func nearest(given string, names []string) (best string) {
	const farthest = 2
	least := min(farthest, len(given)/2) + 1
	for _, name := range names {
		if d := levenshtein.Distance(strings.ToLower(given), strings.ToLower(name), nil); d < least {
			best, least = name, d
		}
	}
	return best
}

// explainUsage makes a wrong number of arguments and an unknown subcommand usage errors with a hint. For the latter,
// Cobra would print the help and report success.
func explainUsage(cmd *cobra.Command) {
	if args := cmd.Args; args != nil {
		cmd.Args = func(cmd *cobra.Command, given []string) error {
			if args(cmd, given) == nil {
				return nil
			}
			if cmd.HasSubCommands() {
				return unknownCommand(cmd, given[0])
			}
			return usage("%s given\nUsage: %s\nSee '%s --help'", count(len(given), "argument"), cmd.UseLine(), cmd.CommandPath())
		}
	}
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.RunE = func(cmd *cobra.Command, given []string) error {
			if len(given) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, given[0])
		}
	}
	for _, sub := range cmd.Commands() {
		explainUsage(sub)
	}
}

// unknownCommand returns the error for an unknown subcommand, with a suggestion.
func unknownCommand(group *cobra.Command, given string) error {
	group.SuggestionsMinimumDistance = 2
	text := fmt.Sprintf("unknown command %q for %q", given, group.CommandPath())
	near := group.SuggestionsFor(given)
	if len(near) > 0 {
		near[0] = fmt.Sprintf("\nDid you mean %q?", near[0])
	}
	return usage("%s%s\nSee '%s --help'", text, strings.Join(near[:min(1, len(near))], ""), group.CommandPath())
}
