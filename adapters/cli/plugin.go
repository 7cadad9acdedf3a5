package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/plugins/host"
	"github.com/stepfall/stepfall/sdk/plugin"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

func newPluginCommand(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "Make, check, list and pin plugins",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newPluginNewCommand(s),
		newPluginListCommand(s),
		newPluginDescribeCommand(s),
		newPluginDoctorCommand(s),
		newPluginLockCommand(s),
		newPluginConformanceCommand(s),
	)
	return cmd
}

// pluginHost returns a host that finds the plugin named by the argument, which is
// a name to search for or a path, and the plugin's name.
func pluginHost(s Streams, argument string, verbose bool) (*host.Host, string, error) {
	cfg := host.Config{Logger: hclog.New(&hclog.LoggerOptions{Name: "plugin", Level: hclog.Off})}
	if verbose {
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Name: "plugin", Level: hclog.Debug, Output: s.Err})
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		cfg.Version = info.Main.Version
	}
	name := argument
	if isPath(argument) {
		name = strings.TrimSuffix(filepath.Base(argument), ".exe")
		cfg.Plugins = map[string]host.PluginConfig{name: {Path: argument}}
	}
	h, err := host.New(cfg)
	return h, name, err
}

func isPath(argument string) bool {
	return strings.ContainsRune(argument, filepath.Separator) || strings.ContainsRune(argument, '/')
}

func newPluginListCommand(s Streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the plugins that a policy can name",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := host.List(host.SearchPath())
			if len(found) == 0 && !asJSON {
				fmt.Fprintf(s.Err, "No plugins in:\n  %s\nSet %s to more folders.\n", strings.Join(host.SearchPath(), "\n  "), host.PathEnv)
				return nil
			}
			return listPlugins(cmd.Context(), s, found, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// listed is one line of `plugin ls`.
type listed struct {
	Name    string   `json:"name"`
	Path    string   `json:"path"`
	Version string   `json:"version,omitempty"`
	Roles   []string `json:"roles,omitempty"`
	Error   string   `json:"error,omitempty"`
}

func listPlugins(ctx context.Context, s Streams, found []host.Found, asJSON bool) error {
	rows := make([]listed, len(found))
	for n, f := range found {
		rows[n] = listed{Name: f.Name, Path: f.Path}
		info, err := ask(ctx, s, f.Path)
		if err != nil {
			rows[n].Error, _, _ = strings.Cut(err.Error(), "\n")
			continue
		}
		rows[n].Version = info.Version
		for _, r := range info.Roles {
			rows[n].Roles = append(rows[n].Roles, string(r.Role))
		}
	}
	if asJSON {
		return printJSON(s, rows)
	}
	t := newTable(s.Out, column{name: "plugin"}, column{name: "version"}, column{name: "roles"}, column{name: "program"})
	for _, r := range rows {
		if r.Error != "" {
			t.row(r.Name, "-", "no answer: see stepfall plugin doctor", r.Path)
			continue
		}
		t.row(r.Name, r.Version, strings.Join(r.Roles, ", "), r.Path)
	}
	t.print()
	return nil
}

// ask starts a program, asks what it is and stops it.
func ask(ctx context.Context, s Streams, path string) (info *wire.Info, err error) {
	h, name, err := pluginHost(s, path, false)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	const enough = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	return h.Info(ctx, name)
}

func printJSON(s Streams, v any) error {
	enc := json.NewEncoder(s.Out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func newPluginDescribeCommand(s Streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "describe PLUGIN",
		Short:   "Show what a plugin is for and which arguments it takes",
		Long:    "Show what a plugin is for and which arguments it takes. PLUGIN is a name that `stepfall plugin ls` shows, or the path of a program.",
		Example: "  stepfall plugin describe verifier-tests\n  stepfall plugin describe ./my-plugin --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, name, err := pluginHost(s, args[0], false)
			if err != nil {
				return err
			}
			defer h.Close()
			info, err := h.Info(cmd.Context(), name)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(s, info)
			}
			fmt.Fprint(s.Out, plugin.Docs(info))
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
