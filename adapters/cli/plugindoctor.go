package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/plugins/host"
	"github.com/stepfall/stepfall/sdk/jail"
)

func newPluginDoctorCommand(s Streams) *cobra.Command {
	var lockFile string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "doctor [PLUGIN...]",
		Short: "Find out why plugins do not work",
		Long: `Look at the folders of plugins and start each plugin: whether it answers, how fast,
whether it conforms to its lock, and what it says when it does not start; and which layers
of isolation plugins can have on this machine. The exit code is 1 when anything is wrong.`,
		Annotations: hasJSON(),
		RunE: func(cmd *cobra.Command, args []string) error {
			d := &doctor{s: s, verbose: verbose, findings: newListing[finding](s)}
			d.folders()
			d.lockFile(lockFile)
			d.isolation()
			found := host.List(host.SearchPath())
			if len(args) > 0 {
				found = nil
				for _, argument := range args {
					found = append(found, d.find(argument)...)
				}
			} else if len(found) == 0 {
				d.line("-", "plugins", "none found")
			}
			for _, f := range found {
				d.plugin(cmd.Context(), f)
			}
			err := s.render(d.findings.rows, func(p *printer) {
				if d.problems == 0 {
					p.f("Nothing is wrong.\n")
				}
			})
			if err == nil && d.problems > 0 {
				err = fmt.Errorf("%d things are wrong", d.problems)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&lockFile, "lock", host.LockName, "the lock file, if there is one")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "show what plugins log")
	return cmd
}

type doctor struct {
	s        Streams
	verbose  bool
	lock     *host.Lock
	problems int
	findings *listing[finding]
}

// finding is one thing that doctor looked at.
type finding struct {
	// Mark is "ok", "BAD", or "-" for what is worth knowing and not wrong.
	Mark    string `json:"mark"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

func (d *doctor) line(mark, subject, text string) {
	if mark == "BAD" {
		d.problems++
	}
	d.findings.add(finding{mark, subject, text}, fmt.Sprintf("%-4s %s: %s", mark, subject, text))
}

func (d *doctor) folders() {
	for _, dir := range host.SearchPath() {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, os.ErrNotExist):
			d.line("-", "folder "+dir, "not there")
		case err != nil:
			d.line("BAD", "folder "+dir, err.Error())
		case !info.IsDir():
			d.line("BAD", "folder "+dir, "is a file")
		case info.Mode().Perm()&0o002 != 0:
			d.line("BAD", "folder "+dir, "anybody may put programs there, so that none of it is started; chmod o-w it")
		case info.Mode().Perm()&0o020 != 0:
			d.line("-", "folder "+dir, "its group may put programs there: unless that is your own, none of it is started; chmod g-w it")
		default:
			d.line("ok", "folder "+dir, "searched")
		}
	}
}

func (d *doctor) lockFile(path string) {
	lock, err := host.ReadLock(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.line("-", "lock", "no "+path+"; `stepfall plugin lock` writes one")
	case err != nil:
		d.line("BAD", "lock", err.Error())
	default:
		d.lock = lock
		d.line("ok", "lock", fmt.Sprintf("%s has %d plugins", path, len(lock.Plugins)))
	}
}

// isolation says what can confine plugins here.
func (d *doctor) isolation() {
	h, _, err := pluginHost(d.s, "", false)
	if err != nil {
		d.line("BAD", "isolation", err.Error())
		return
	}
	defer h.Close()
	layers, missing, err := h.Isolation()
	if err != nil {
		d.line("-", "isolation", err.Error())
		return
	}
	d.line("ok", "isolation", strings.Join(layers, ", "))
	for _, layer := range slices.Sorted(maps.Keys(missing)) {
		d.line("-", "isolation", "no "+layer+": "+missing[layer])
	}
	if !slices.Contains(layers, jail.LayerPID) {
		d.line("-", "isolation", "without pid, and with isolation = none anywhere, a plugin can read this program's environment, keys included, through /proc")
		d.line("-", "isolation", "without pid, a plugin's children end with it as long as they do not fight it")
	}
}

func (d *doctor) find(argument string) []host.Found {
	if isPath(argument) {
		return []host.Found{{Name: strings.TrimSuffix(filepath.Base(argument), ".exe"), Path: argument}}
	}
	for _, f := range host.List(host.SearchPath()) {
		if f.Name == argument {
			return []host.Found{f}
		}
	}
	d.line("BAD", argument, "not found in any folder, or not executable")
	return nil
}

func (d *doctor) plugin(ctx context.Context, f host.Found) {
	if d.lock != nil {
		sum, err := host.Checksum(f.Path)
		locked, known := d.lock.Plugins[f.Name]
		switch {
		case err != nil:
			d.line("BAD", f.Name, err.Error())
		case !known:
			d.line("BAD", f.Name, "is not in the lock file; hosts that use it will not start it")
		case locked.SHA256[host.Platform()] != sum:
			d.line("BAD", f.Name, "is not the program that was locked; run `stepfall plugin lock "+f.Name+"` if you changed it yourself")
		default:
			d.line("ok", f.Name, "is the program that was locked")
		}
	}
	h, name, err := pluginHost(d.s, absolute(f.Path), d.verbose)
	if err != nil {
		d.line("BAD", f.Name, err.Error())
		return
	}
	defer h.Close()
	const enough = 15 * time.Second
	ctx, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	begun := time.Now()
	info, err := h.Info(ctx, name)
	if err != nil {
		d.line("BAD", f.Name, err.Error())
		return
	}
	roles := make([]string, len(info.Roles))
	for i, r := range info.Roles {
		roles[i] = string(r.Role)
	}
	d.line("ok", f.Name, fmt.Sprintf("%s %s, %s, answered within %d ms", info.Name, info.Version, strings.Join(roles, ", "), time.Since(begun).Milliseconds()))
	if info.Name != f.Name {
		d.line("BAD", f.Name, fmt.Sprintf("calls itself %q: the program must have the plugin's name", info.Name))
	}
}

// absolute makes a path that is taken for one.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
