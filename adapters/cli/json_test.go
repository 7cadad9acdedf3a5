package cli

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

// Every command with a result also prints it as JSON, with few exceptions.
func TestCommandsPrintJSON(t *testing.T) {
	without := []string{
		"stepfall collect", "stepfall serve", "stepfall worker", "stepfall view", "stepfall policy init", "stepfall plugin new",
		"stepfall dev paper", "stepfall dev reference", "stepfall dev suite",
	}
	root := newRoot(Streams{})
	visitCommands(root, func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if cmd.HasSubCommands() || !cmd.IsAvailableCommand() && cmd.Parent() != root || cmd.Name() == "help" || cmd.Parent().Name() == "completion" {
			return
		}
		if prints := cmd.Annotations[printsJSON] != ""; prints == slices.Contains(without, path) {
			t.Errorf("%s prints JSON: %v", path, prints)
		}
	})
}

func visitCommands(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		visitCommands(sub, do)
	}
}
