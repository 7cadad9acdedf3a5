package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/suite"
)

func newSuiteCommand(s Streams) *cobra.Command {
	var serve bool
	cmd := &cobra.Command{
		Use:   "suite FOLDER",
		Short: "Export the bundled repositories with defects, their tasks and policies",
		Long: `Export the bundled suite into a folder: six small repositories, tasks.jsonl with their 41
defects, and one policy per strategy. The policies are for your own models at
127.0.0.1:8080 or, with --serve, for scripted models, whose edits are fixed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := suite.Load()
			if err != nil {
				return err
			}
			url := "http://127.0.0.1:8080/v1"
			if serve {
				server, err := loaded.Serve()
				if err != nil {
					return err
				}
				defer server.Close()
				url = server.URL()
			}
			list, err := loaded.Export(cmd.Context(), args[0], url)
			if err != nil {
				return err
			}
			fmt.Fprintf(s.Out, "%d tasks in %s; run them there with\n  stepfall swe --repos repos --task tasks.jsonl --policy policy.hcl\n", len(list), args[0])
			if serve {
				fmt.Fprintf(s.Out, "scripted models at %s until interrupted\n", url)
				<-cmd.Context().Done()
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&serve, "serve", false, "serve the scripted models until interrupted")
	return cmd
}
