package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit codes of the command.
const (
	ExitOK      = 0
	ExitFailure = 1
	// ExitUsage: the command line itself was wrong; nothing was done.
	ExitUsage = 2
)

// Streams are the command's connections to the world.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// ExitError carries an exit code other than ExitFailure through a command's error.
type ExitError struct {
	Code int
	Err  error
}

// Error returns the message of the wrapped error.
func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *ExitError) Unwrap() error { return e.Err }

// Run runs the stepfall command with the arguments after the program's name and
// returns its exit code. It ends early, cleaned up, when ctx ends.
func Run(ctx context.Context, args []string, s Streams) int {
	root := newRoot(s)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	fmt.Fprintf(s.Err, "stepfall: %v\n", err)
	if exit, ok := errors.AsType[*ExitError](err); ok {
		return exit.Code
	}
	return ExitFailure
}

func newRoot(s Streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "stepfall",
		Short:         "Cascade routing for every step of an agent",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &ExitError{Code: ExitUsage, Err: fmt.Errorf("%w\nSee '%s --help'", err, cmd.CommandPath())}
	})
	// One line for each command, in the order of the help.
	root.AddCommand(
		newDemoCommand(s),
		newSWECommand(s),
		newPolicyCommand(s),
		newCatalogCommand(s),
		newPluginCommand(s),
		newEvalCommand(s),
		newPaperCommand(s),
		newReplayCommand(s),
		newServeCommand(s),
		newWorkerCommand(s),
		newKeyCommand(s),
		newTraceCommand(s),
		newViewCommand(s),
		newOutcomesCommand(s),
		newCollectCommand(s),
		newFitCommand(s),
		newVersionCommand(s),
	)
	explainUsage(root)
	return root
}

// explainUsage makes a wrong number of arguments and an unknown subcommand errors of
// usage that say what is right. Cobra prints the help of a group for any subcommand
// that it does not know, and reports success.
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

// unknownCommand is the error of a command that a group does not have, with the one
// that may have been meant.
func unknownCommand(group *cobra.Command, given string) error {
	group.SuggestionsMinimumDistance = 2
	text := fmt.Sprintf("unknown command %q for %q", given, group.CommandPath())
	if near := group.SuggestionsFor(given); len(near) > 0 {
		text += fmt.Sprintf("\nDid you mean %q?", near[0])
	}
	return usage("%s\nSee '%s --help'", text, group.CommandPath())
}
