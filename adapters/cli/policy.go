package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/regular"
)

func newPolicyCommand(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "When is which model asked? Write, check and try out policy files",
		Long: `Write, check and try out policy files.

A policy is a file, a folder of .hcl files, or "library:NAME" for a policy that ships with
stepfall. Environment variables that begin with STEPFALL__ override its values, and --set
overrides both. The language is described in docs/policies.md.`,
	}
	cmd.AddCommand(
		newPolicyValidateCommand(s),
		newPolicyPlanCommand(s),
		newPolicyShowCommand(s),
		newPolicyInitCommand(s),
	)
	return cmd
}

type policyFlags struct {
	sets []string
}

func (f *policyFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.sets, "set", nil, `override an argument, such as --set budget.step_usd=0.05 (may be repeated)`)
}

// load loads a policy for a command that calls no model, and prints warnings.
func (f *policyFlags) load(s Streams, path string, o policies.LoadOptions) (*policies.Policy, error) {
	o.Sets = f.sets
	o.CheckProfile, o.WithoutSecrets, o.Today = checkProfile, true, time.Now()
	p, err := policies.Load(path, o)
	if err != nil {
		return nil, err
	}
	if len(p.Warnings) > 0 {
		if err := p.Warnings.Write(s.Err); err != nil {
			return nil, err
		}
		fmt.Fprintln(s.Err)
	}
	if p.Unjudged != "" {
		fmt.Fprintf(s.Err, "note: %s\n", p.Unjudged)
	}
	return p, nil
}

func checkProfile(path string, p *policies.Policy) (judged []string, err error) {
	profile, err := fit.Load(path, p.SDKModels())
	if err == nil && (profile.Data.Verified || profile.Data.Inferred > 0) {
		judged = profile.Estimator.Models
	}
	return judged, err
}

type validateFlags struct {
	policyFlags

	strict, secrets, noPlugins bool
	format, diff               bool
}

func newPolicyValidateCommand(s Streams) *cobra.Command {
	var f validateFlags
	cmd := &cobra.Command{
		Use:   "validate POLICY...",
		Short: "What is wrong with a policy? Report all errors in policies, with file and line; or format the files",
		Long: `Report all errors in policies, with file, line and a hint.

Config blocks are checked against the schemas of their plugins. A plugin is started once
to ask for its schema, which is cached under the checksum of the plugin's program.

With --fmt, format the files in place instead: two spaces per level, equals signs aligned.
A file that cannot be parsed is left unchanged. With --diff, nothing is written: the lines
that would change are printed, and the command fails if there are any.`,
		Example: `  stepfall policy validate policy.hcl
  stepfall policy validate --strict --json policies/*.hcl
  stepfall policy validate --fmt policies/*.hcl`,
		Args:        cobra.MinimumNArgs(1),
		Annotations: hasJSON(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.format || f.diff {
				return f.formatFiles(s, args)
			}
			return f.run(cmd.Context(), s, args)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.noPlugins, "no-plugins", false, "do not check config blocks against their plugins")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "count warnings as errors")
	cmd.Flags().BoolVar(&f.secrets, "require-secrets", false, "report an error if an environment variable that env() names is not set")
	cmd.Flags().BoolVar(&f.format, "fmt", false, "format the files in place")
	cmd.Flags().BoolVar(&f.diff, "diff", false, "print what --fmt would change, and fail on any difference")
	return cmd
}

type validation struct {
	Valid       bool                 `json:"valid"`
	Diagnostics policies.Diagnostics `json:"diagnostics"`
	Notes       map[string]string    `json:"notes"`
}

func (f *validateFlags) run(ctx context.Context, s Streams, paths []string) error {
	all := validation{Diagnostics: policies.Diagnostics{}, Notes: map[string]string{}}
	bad := 0
	for _, path := range paths {
		o := policies.LoadOptions{Sets: f.sets, CheckProfile: checkProfile, RequireSecrets: f.secrets, Today: time.Now()}
		if !f.noPlugins {
			o.Schemas = full.Schemas(ctx, path)
		}
		p, err := policies.Load(path, o)
		var found policies.Diagnostics
		switch {
		case err == nil:
			found = p.Warnings
		case !errors.As(err, &found):
			return err
		}
		all.Diagnostics = append(all.Diagnostics, found...)
		if found.HasErrors() || f.strict && len(found) > 0 {
			bad++
		} else if !s.wantsJSON() {
			fmt.Fprintf(s.Out, "%s: valid: %s, strategy %s, %s\n", path, count(len(p.Models), "model"), p.Strategy.Kind, count(len(found), "warning"))
		}
		if err == nil && p.Unjudged != "" {
			all.Notes[path] = p.Unjudged
		}
	}
	all.Valid = bad == 0
	err := s.render(all, func(*printer) {
		_ = all.Diagnostics.Write(s.Err) // an error that cannot be written still fails the command
		for _, path := range slices.Sorted(maps.Keys(all.Notes)) {
			fmt.Fprintf(s.Err, "note on %s: %s\n", path, all.Notes[path])
		}
	})
	if err == nil && bad > 0 {
		err = &exitError{Code: exitFailure, Err: fmt.Errorf("%d of %s cannot be used", bad, count(len(paths), "policy"))}
	}
	return err
}

// formatFiles formats files or, with --diff, prints the lines that would change.
func (f *validateFlags) formatFiles(s Streams, paths []string) error {
	changed := []string{}
	for _, path := range paths {
		isChanged, err := f.formatFile(s, path)
		if err != nil {
			return err
		}
		if isChanged {
			changed = append(changed, path)
		}
	}
	err := s.render(map[string][]string{"changed": changed}, func(*printer) {})
	if err == nil && f.diff && len(changed) > 0 {
		err = fmt.Errorf("%s not formatted: run stepfall policy validate --fmt", count(len(changed), "file"))
	}
	return err
}

func (f *validateFlags) formatFile(s Streams, path string) (isChanged bool, err error) {
	file, info, err := regular.Open(os.OpenFile, path)
	if errors.Is(err, fs.ErrInvalid) { // a pipe or a device may never end
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	src, err := io.ReadAll(io.LimitReader(file, 2<<20)) // twice the size limit of a policy file proves it too large
	if err != nil {
		return false, err
	}
	out, err := policies.Format(path, src)
	if err != nil || string(out) == string(src) {
		return false, err
	}
	if !s.wantsJSON() {
		fmt.Fprintln(s.Out, path)
		if f.diff {
			(&printer{s.Out}).raw(string(diff.Diff(path, src, path+", formatted", out)))
		}
	}
	if f.diff {
		return true, nil
	}
	return true, regular.Replace(path, out, info.Mode())
}

func count(n int, noun string) string { return say.Count(int64(n), noun) }

func newPolicyShowCommand(s Streams) *cobra.Command {
	var f policyFlags
	var o policies.ShowOptions
	var list bool
	cmd := &cobra.Command{
		Use:   "show [POLICY]",
		Short: "What is in force, and where does each value come from? Print the effective policy",
		Long: `Print the effective policy: one file with includes, environment and --set merged that loads
to the same policy. Secrets are printed as the env() call that reads them.`,
		Example: `  stepfall policy show --origins policy.hcl
  stepfall policy show library:swe > policy.hcl
  stepfall policy show --library`,
		Args:        cobra.MaximumNArgs(1),
		Annotations: hasJSON(),
		RunE: func(_ *cobra.Command, args []string) error {
			if list {
				return showLibrary(s)
			}
			if len(args) == 0 {
				return usage("name a policy, or --library for those that ship with stepfall")
			}
			o.Catalog = o.Defaults
			p, err := f.load(s, args[0], policies.LoadOptions{})
			if err != nil {
				return err
			}
			settings := slices.DeleteFunc(slices.Clone(p.Settings()), func(s policies.Setting) bool {
				return s.Path[0] == "catalog" && !o.Catalog || s.Origin == "default" && !o.Defaults
			})
			var text bytes.Buffer
			if err := p.Show(&text, o); err != nil {
				return err
			}
			return s.render(settings, func(w *printer) { w.raw(text.String()) })
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&o.Defaults, "defaults", false, "include default values and the catalogue's models")
	cmd.Flags().BoolVar(&o.Origins, "origins", false, "print where each value comes from")
	cmd.Flags().BoolVar(&list, "library", false, "list the policies that ship with stepfall")
	return cmd
}

func showLibrary(s Streams) error {
	type shipped struct {
		Name    string `json:"name"`
		Purpose string `json:"purpose"`
	}
	var all []shipped
	for _, name := range policies.Library() {
		all = append(all, shipped{"library:" + name, purpose(name)})
	}
	return s.render(all, func(p *printer) {
		t := p.table(column{name: "policy"}, column{name: "for"})
		for _, one := range all {
			t.row(one.Name, one.Purpose)
		}
		t.print()
	})
}

// purpose returns the first sentence of the comment at the top of a library policy.
func purpose(name string) string {
	src, err := policies.LibrarySource(name)
	if err != nil {
		return ""
	}
	var text []string
	for line := range strings.Lines(string(src)) {
		comment, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		text = append(text, strings.TrimSpace(comment))
	}
	sentence, _, _ := strings.Cut(strings.Join(text, " "), ". ")
	return strings.TrimSuffix(sentence, ".")
}
