package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/sdk/plugin/scaffold"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
	"github.com/stepfall/stepfall/sdk/plugintest"
)

func newPluginNewCommand(s Streams) *cobra.Command {
	var o scaffold.Options
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Make the project of a new plugin, with tests that pass",
		Example: `  stepfall plugin new verifier-length
  stepfall plugin new estimator-tone --lang python`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			o.Name = args[0]
			if o.Source == "" {
				o.Source = findSource()
			}
			hint := ""
			if o.Lang == "python" {
				var ok bool
				if o.Python, ok = scaffold.FindPython(); !ok {
					hint = "  # first of all: apt install python3-grpcio python3-protobuf python3-cryptography\n"
				}
			}
			files, err := scaffold.Write(o)
			if err != nil {
				return err
			}
			for _, f := range files {
				fmt.Fprintln(s.Out, f)
			}
			dir := o.Dir
			if dir == "" {
				dir = o.Name
			}
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
			fmt.Fprintf(s.Out, "\nNext:\n"+hint+"  cd %s && %s\n  %s plugin conformance ./%s\n  %s policy validate policy.hcl%s\n",
				dir, next, command, o.Name, command, use)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Lang, "lang", "go", "go or python")
	flags.StringVar(&o.Role, "role", "", "verifier or quality-estimator (default: what the name begins with)")
	flags.StringVar(&o.Dir, "dir", "", "the folder to make (default: the name)")
	flags.StringVar(&o.Source, "source", "", "a clone of stepfall to build against (default: the one that we are in or that the command was built in)")
	return cmd
}

// findSource returns the clone that the working folder or the command lies in.
func findSource() string {
	if dir := scaffold.FindSource("."); dir != "" {
		return dir
	}
	if exe, err := os.Executable(); err == nil {
		return scaffold.FindSource(filepath.Dir(exe))
	}
	return ""
}

func newPluginConformanceCommand(s Streams) *cobra.Command {
	var configFile, junit string
	var verbose, insecure bool
	cmd := &cobra.Command{
		Use:   "conformance PROGRAM [ARGUMENT...]",
		Short: "Check that a plugin keeps to the protocol, in any language",
		Long: `Start a plugin program many times and check what the protocol asks of it. The exit
code is 0 when it conforms. A plugin with required arguments needs a working config: a JSON
object, or an object of them by role.`,
		Example:     "  stepfall plugin conformance ./verifier-length --junit report.xml\n  stepfall plugin conformance ./verifier-command --config config.json",
		Args:        cobra.MinimumNArgs(1),
		Annotations: hasJSON(),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := plugintest.Options{Path: args[0], Args: args[1:], Insecure: insecure}
			if verbose {
				o.Log = hclog.New(&hclog.LoggerOptions{Name: "plugin", Level: hclog.Debug, Output: s.Err})
			}
			if configFile != "" {
				config, err := readConfigs(configFile)
				if err != nil {
					return err
				}
				o.Config = config
			}
			checks := newListing[checkResult](s)
			o.Progress = func(r plugintest.Result) {
				line := fmt.Sprintf("%-7s %s", r.Status, r.Name)
				if r.Message != "" {
					line += ": " + r.Message
				}
				checks.add(checkResult{r.Name, r.Status, r.Message, r.Duration.Seconds()}, line)
			}
			begun := time.Now()
			report, err := plugintest.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			if junit != "" {
				if err := writeJUnit(junit, report); err != nil {
					return err
				}
			}
			err = s.render(struct {
				Plugin   string        `json:"plugin"`
				Version  string        `json:"version"`
				Conforms bool          `json:"conforms"`
				Checks   []checkResult `json:"checks"`
			}{report.Plugin, report.Version, report.OK(), checks.rows}, func(p *printer) {
				p.f("%s %s: %d passed, %d failed, %d skipped in %.1f s\n", report.Plugin, report.Version,
					report.Count(plugintest.Passed), report.Count(plugintest.Failed), report.Count(plugintest.Skipped), time.Since(begun).Seconds())
			})
			if err != nil {
				return err
			}
			if !report.OK() {
				return fmt.Errorf("%s does not conform", report.Plugin)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&configFile, "config", "", "a JSON file with a working config")
	flags.StringVar(&junit, "junit", "", "write the results to this file as JUnit XML")
	flags.BoolVar(&insecure, "insecure", false, "without mutual TLS")
	flags.BoolVar(&verbose, "verbose", false, "show what the plugin logs")
	return cmd
}

// checkResult is one check of `plugin conformance --json`.
type checkResult struct {
	Name    string            `json:"name"`
	Status  plugintest.Status `json:"status"`
	Message string            `json:"message,omitempty"`
	Seconds float64           `json:"seconds"`
}

// readConfigs reads a config for all roles, or an object of configs by role.
func readConfigs(path string) (map[wire.Role]map[string]any, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		return nil, fmt.Errorf("config %s: %w", path, err)
	}
	roles := []wire.Role{wire.QualityEstimator, wire.CostEstimator, wire.Verifier}
	out := map[wire.Role]map[string]any{}
	for _, role := range roles {
		if c, ok := config[string(role)].(map[string]any); ok {
			out[role] = c
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	for _, role := range roles {
		out[role] = config
	}
	return out, nil
}

func writeJUnit(path string, report *plugintest.Report) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := report.WriteJUnit(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
