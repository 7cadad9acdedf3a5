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

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

func newPluginCheckCommand(s Streams) *cobra.Command {
	var c conformanceFlags
	var conformance bool
	cmd := &cobra.Command{
		Use:   "check [PLUGIN...] | --conformance PROGRAM [ARGUMENT...]",
		Short: "Does a plugin work here? Check that plugins start on this machine, or that a program conforms to the protocol",
		Long: `Check the plugin folders and start each plugin. The output says whether it responds, how
fast, its checksum, which a policy's plugin block can pin, and which layers of isolation
this machine supports. With --conformance, start one program, in any language, many times
and check that it conforms to the protocol.`,
		Example: `  stepfall plugin check
  stepfall plugin check verifier-tests ./my-plugin
  stepfall plugin check --conformance ./verifier-command --config config.json`,
		Annotations: hasJSON(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if conformance {
				if len(args) == 0 {
					return usage("--conformance requires one PROGRAM")
				}
				return c.run(cmd.Context(), s, args)
			}
			d := &doctor{s: s, findings: newListing[finding](s)}
			return d.run(cmd.Context(), args)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&conformance, "conformance", false, "check that a program conforms to the protocol")
	flags.StringVar(&c.config, "config", "", "with --conformance, a JSON file with a working config")
	return cmd
}

// run checks folders, isolation, and the plugins that args names, or all.
func (d *doctor) run(ctx context.Context, args []string) error {
	d.folders()
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
		d.plugin(ctx, f)
	}
	err := d.s.render(d.findings.rows, func(p *printer) {
		if d.problems == 0 {
			p.f("No problems found.\n")
		}
	})
	if err == nil && d.problems > 0 {
		err = fmt.Errorf("%d problems found", d.problems)
	}
	return err
}

type doctor struct {
	s        Streams
	problems int
	findings *listing[finding]
}

type finding struct {
	// Mark is "ok", "BAD", or "-" for information.
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
			d.line("-", "folder "+dir, "not found")
		case err != nil:
			d.line("BAD", "folder "+dir, err.Error())
		case !info.IsDir():
			d.line("BAD", "folder "+dir, "is a file")
		case info.Mode().Perm()&0o002 != 0:
			d.line("BAD", "folder "+dir, "writable by everybody, so nothing in it is started: chmod o-w it")
		case info.Mode().Perm()&0o020 != 0:
			d.line("-", "folder "+dir, "writable by its group: unless that is your own group, nothing in it is started; chmod g-w it")
		default:
			d.line("ok", "folder "+dir, "searched")
		}
	}
}

func (d *doctor) isolation() {
	h, _, err := pluginHost(d.s, "")
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
		d.line("-", "isolation", "without pid, a plugin's children end with it unless they evade it")
	}
}

func (d *doctor) find(argument string) []host.PluginFile {
	if isPath(argument) {
		return []host.PluginFile{{Name: strings.TrimSuffix(filepath.Base(argument), ".exe"), Path: argument}}
	}
	for _, f := range host.List(host.SearchPath()) {
		if f.Name == argument {
			return []host.PluginFile{f}
		}
	}
	d.line("BAD", argument, "not found in any folder, or not executable")
	return nil
}

func (d *doctor) plugin(ctx context.Context, f host.PluginFile) {
	sum, err := host.Checksum(f.Path)
	begun := time.Now()
	var info *wire.Info
	if err == nil {
		info, err = fetchInfo(ctx, d.s, f.Path)
	}
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
		d.line("BAD", f.Name, fmt.Sprintf("the plugin is called %q: the program must have that name", info.Name))
		return
	}
	d.line("ok", f.Name, "checksum "+sum)
}
