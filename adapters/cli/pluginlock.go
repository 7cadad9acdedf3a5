package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/plugins/host"
)

func newPluginLockCommand(s Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "lock [PLUGIN...]",
		Short: "Record the checksums of plugins, so that no others are started",
		Long: `Record the checksums of plugins in a lock file, for this platform. With a lock
file, a host starts only programs that are in it. Without arguments all plugins that are
found are recorded; entries of other platforms and plugins stay.`,
		Example:     "  stepfall plugin lock verifier-tests\n  stepfall plugin lock ./my-plugin --file policies/" + host.LockName,
		Annotations: hasJSON(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return lockPlugins(cmd.Context(), s, file, args)
		},
	}
	cmd.Flags().StringVar(&file, "file", host.LockName, "the lock file")
	return cmd
}

// recorded is one plugin that `plugin lock` wrote down.
type recorded struct {
	Change  string `json:"change"` // new, changed or same
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
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
	done := newListing[recorded](s)
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
		done.add(recorded{change, f.Name, info.Version, sum}, fmt.Sprintf("%-8s %s %s %s", change, f.Name, info.Version, sum))
	}
	if err := lock.Write(file); err != nil {
		return err
	}
	return s.render(done.rows, func(*printer) {})
}
