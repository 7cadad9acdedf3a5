package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/sdk/plugin"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

func newPluginCommand(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "Which estimators and verifiers can a policy name, and do they work? List, check and create plugins",
	}
	cmd.AddCommand(
		newPluginNewCommand(s),
		newPluginListCommand(s),
		newPluginCheckCommand(s),
	)
	return cmd
}

// pluginHost returns a host for a plugin given by name or path, and the plugin's name.
func pluginHost(s Streams, argument string) (*host.Host, string, error) {
	cfg := host.Config{Logger: s.logger("plugin", hclog.Off)}
	if info, ok := debug.ReadBuildInfo(); ok {
		cfg.Version = info.Main.Version
	}
	name := argument
	if isPath(argument) {
		name = strings.TrimSuffix(filepath.Base(argument), ".exe")
		if abs, err := filepath.Abs(argument); err == nil {
			argument = abs
		}
		cfg.Plugins = map[string]host.PluginConfig{name: {Path: argument}}
	}
	h, err := host.New(cfg)
	return h, name, err
}

func isPath(argument string) bool {
	return strings.ContainsRune(argument, filepath.Separator) || strings.ContainsRune(argument, '/')
}

func newPluginListCommand(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:         "ls [PLUGIN]",
		Short:       "List the plugins that a policy can name, or describe one and its arguments",
		Long:        "List the plugins that a policy can name. With PLUGIN, a listed name or the path of a program, describe that plugin and its arguments.",
		Example:     "  stepfall plugin ls\n  stepfall plugin ls verifier-tests\n  stepfall plugin ls ./my-plugin --json",
		Args:        cobra.MaximumNArgs(1),
		Annotations: hasJSON(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return describePlugin(cmd.Context(), s, args[0])
			}
			found := host.List(host.SearchPath())
			if len(found) == 0 && !s.wantsJSON() {
				fmt.Fprintf(s.Err, "No plugins in:\n  %s\nSet %s to more folders.\n", strings.Join(host.SearchPath(), "\n  "), host.PathEnv)
				return nil
			}
			return listPlugins(cmd.Context(), s, found)
		},
	}
}

type pluginRow struct {
	Name    string   `json:"name"`
	Path    string   `json:"path"`
	Version string   `json:"version,omitempty"`
	Roles   []string `json:"roles,omitempty"`
	Error   string   `json:"error,omitempty"`
}

func listPlugins(ctx context.Context, s Streams, found []host.PluginFile) error {
	rows := make([]pluginRow, len(found))
	for n, f := range found {
		rows[n] = pluginRow{Name: f.Name, Path: f.Path}
		info, err := fetchInfo(ctx, s, f.Path)
		if err != nil {
			rows[n].Error, _, _ = strings.Cut(err.Error(), "\n")
			continue
		}
		rows[n].Version = info.Version
		for _, r := range info.Roles {
			rows[n].Roles = append(rows[n].Roles, string(r.Role))
		}
	}
	return s.render(rows, func(p *printer) {
		t := p.table(column{name: "plugin"}, column{name: "version"}, column{name: "roles"}, column{name: "program"})
		for _, r := range rows {
			if r.Error != "" {
				t.row(r.Name, "-", "no answer: see stepfall plugin check", r.Path)
				continue
			}
			t.row(r.Name, r.Version, strings.Join(r.Roles, ", "), r.Path)
		}
		t.print()
	})
}

// fetchInfo starts a plugin, fetches its description and stops it.
func fetchInfo(ctx context.Context, s Streams, path string) (info *wire.Info, err error) {
	h, name, err := pluginHost(s, path)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return h.Info(ctx, name)
}

func describePlugin(ctx context.Context, s Streams, argument string) error {
	info, err := fetchInfo(ctx, s, argument)
	if err != nil {
		return err
	}
	return s.render(info, func(p *printer) { p.raw(plugin.Docs(info)) })
}
