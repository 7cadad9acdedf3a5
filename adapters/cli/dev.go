package cli

import (
	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/policies"
)

// newDevCommand returns the hidden command with tools for developing stepfall.
func newDevCommand(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:    "dev",
		Short:  "Tools for developing stepfall: compare strategies, reproduce the paper, export sample tasks, print the reference",
		Hidden: true,
	}
	cmd.AddCommand(
		newEvalCommand(s),
		newPaperCommand(s),
		newSuiteCommand(s),
		&cobra.Command{
			Use: "reference", Short: "Print the reference of the policy language, as Markdown", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return policies.WriteReference(s.Out) },
		},
	)
	return cmd
}
