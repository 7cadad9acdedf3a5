package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/scaffold"
)

func newPluginNewCommand(s Streams) *cobra.Command {
	var o scaffold.Options
	cmd := &cobra.Command{
		Use:   "new [FOLDER/]NAME",
		Short: "How do I write a plugin? Create the project of a new plugin, with tests that pass",
		Example: `  stepfall plugin new verifier-length
  stepfall plugin new plugins/estimator-tone --lang python`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			o.Name, o.Dir = filepath.Base(args[0]), args[0]
			if o.Source == "" {
				o.Source = findSource()
			}
			hint := ""
			if o.Lang == "python" {
				var ok bool
				if o.Python, ok = scaffold.FindPython(); !ok {
					hint = "  # first: apt install python3-grpcio python3-protobuf python3-cryptography\n"
				}
			}
			files, err := scaffold.Write(o)
			if err != nil {
				return err
			}
			fmt.Fprintln(s.Out, strings.Join(files, "\n"))
			next, use := "go test ./... && go build -o "+o.Name+" .", " && go run ./example"
			if o.Lang == "python" {
				next, use = "python3 -m unittest", ""
			} else if o.Source == "" {
				next = "go mod tidy && " + next
			}
			command := "stepfall"
			if exe, err := os.Executable(); err == nil {
				if _, err := exec.LookPath(command); err != nil {
					command = exe
				}
			}
			fmt.Fprintf(s.Out, "\nNext:\n"+hint+"  cd %s && %s\n  %s plugin check --conformance ./%s\n  %s policy validate policy.hcl%s\n",
				o.Dir, next, command, o.Name, command, use)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Lang, "lang", "go", "go or python")
	flags.StringVar(&o.Source, "source", "", "clone of stepfall to build against (default: the current one, or the one this command was built in)")
	return cmd
}

// findSource returns the clone of stepfall that contains the working directory or the command, or "".
func findSource() string {
	if dir := scaffold.FindSource("."); dir != "" {
		return dir
	}
	if exe, err := os.Executable(); err == nil {
		return scaffold.FindSource(filepath.Dir(exe))
	}
	return ""
}
