package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
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

func newPluginLockCommand(s Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "lock [PLUGIN...]",
		Short: "Record the checksums of plugins, so that no others are started",
		Long: `Record the checksums of plugins in a lock file, for this platform. With a lock
file, a host starts only programs that are in it. Without arguments all plugins that are
found are recorded; entries of other platforms and plugins stay.`,
		Example: "  stepfall plugin lock verifier-tests\n  stepfall plugin lock ./my-plugin --file policies/" + host.LockName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return lockPlugins(cmd.Context(), s, file, args)
		},
	}
	cmd.Flags().StringVar(&file, "file", host.LockName, "the lock file")
	return cmd
}

func lockPlugins(ctx context.Context, s Streams, file string, args []string) error {
	lock, err := host.ReadLock(file)
	if os.IsNotExist(err) {
		lock, err = &host.Lock{Plugins: map[string]host.Locked{}}, nil
	}
	if err != nil {
		return err
	}
	var found []host.Found
	all := host.List(host.SearchPath())
	for _, argument := range args {
		if isPath(argument) {
			found = append(found, host.Found{Name: strings.TrimSuffix(filepath.Base(argument), ".exe"), Path: argument})
			continue
		}
		known := false
		for _, f := range all {
			if f.Name == argument {
				found, known = append(found, f), true
			}
		}
		if !known {
			return fmt.Errorf("%w: %s", host.ErrNotFound, argument)
		}
	}
	if len(args) == 0 {
		found = all
	}
	if len(found) == 0 {
		return fmt.Errorf("there are no plugins to lock in %s", strings.Join(host.SearchPath(), ", "))
	}
	for _, f := range found {
		// The checksum comes first: what then answers is what was recorded or worse luck.
		sum, err := host.Checksum(f.Path)
		if err != nil {
			return err
		}
		info, err := ask(ctx, s, f.Path)
		if err != nil {
			return fmt.Errorf("%s is not locked, because it does not answer: %w", f.Name, err)
		}
		entry := lock.Plugins[f.Name]
		change := "same"
		if entry.SHA256 == nil {
			entry.SHA256, change = map[string]string{}, "new"
		} else if entry.SHA256[host.Platform()] != sum {
			change = "changed"
		}
		entry.Version, entry.SHA256[host.Platform()] = info.Version, sum
		lock.Plugins[f.Name] = entry
		fmt.Fprintf(s.Out, "%-8s %s %s %s\n", change, f.Name, info.Version, sum)
	}
	return lock.Write(file)
}
