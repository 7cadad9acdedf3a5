package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/sdk/redact"
)

// Exit codes of the command.
const (
	exitOK      = 0
	exitFailure = 1
	// exitUsage: the command line was invalid; nothing was done.
	exitUsage = 2
)

// exitInterrupted is the exit code after Ctrl-C, as shells have it. Running the same stepfall swe command again
// resumes its run.
const exitInterrupted = 130

// Streams are the command's standard streams.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer

	json *bool // the flag --json; nil before the commands are built
	log  *logFlag
}

// exitError is an error with an exit code other than exitFailure.
type exitError struct {
	Code int
	Err  error
}

func (e *exitError) Error() string { return e.Err.Error() }

func (e *exitError) Unwrap() error { return e.Err }

// Run runs the stepfall command with the arguments after the program's name and returns its exit code. It stops
// early, and cleans up, when ctx ends.
func Run(ctx context.Context, args []string, s Streams) int {
	out := &errorWriter{w: s.Out}
	s.Out = out
	root := newRoot(s)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	if lost := out.fault(); err == nil && lost != nil {
		err = fmt.Errorf("the output is incomplete: %w", lost)
	}
	if err == nil {
		return exitOK
	}
	// After Ctrl-C the message must not mention a context.
	interrupted := ctx.Err() != nil && errors.Is(err, context.Canceled)
	text := err.Error()
	if interrupted {
		text = strings.ReplaceAll(text, context.Canceled.Error(), "interrupted")
	}
	fmt.Fprintf(s.Err, "stepfall: %s\n", redact.Addresses(text))
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.Code
	}
	if interrupted {
		return exitInterrupted
	}
	return exitFailure
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
	s.json = root.PersistentFlags().Bool("json", false, "print the results as JSON")
	s.log = new(logFlag)
	root.PersistentFlags().Var(s.log, "log", "log level: off, debug, info, warn or error; info,json logs lines of JSON (the default depends on the command)")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if *s.json && cmd.Annotations[printsJSON] == "" {
			return usage("%s does not support --json", cmd.CommandPath())
		}
		return nil
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(badFlag)
	// In the order of the help.
	root.AddCommand(
		newDemoCommand(s),
		newSWECommand(s),
		newPolicyCommand(s),
		newCatalogCommand(s),
		newPluginCommand(s),
		newServeCommand(s),
		newWorkerCommand(s),
		newKeyCommand(s),
		newPruneCommand(s),
		newTraceCommand(s),
		newViewCommand(s),
		newOutcomesCommand(s),
		newCollectCommand(s),
		newFitCommand(s),
		newDevCommand(s),
	)
	root.SetOut(s.Out) // before the next line, which reads it
	root.InitDefaultCompletionCmd()
	explainHelp(root)
	explainUsage(root)
	return root
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "of unknown version"
	}
	return info.Main.Version + " " + info.GoVersion
}
