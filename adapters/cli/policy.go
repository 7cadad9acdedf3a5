package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/fit"
)

func newPolicyCommand(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check, format, compare and explain policy files",
		Long: `Check, format, compare and explain policy files.

A policy is a file, a folder of .hcl files, or "library:NAME", one of those that
ship with stepfall. Environment variables that begin with STEPFALL__ change it, and
--set changes it after those. docs/policies.md has the language.`,
	}
	cmd.AddCommand(
		newPolicyValidateCommand(s),
		newPolicyFormatCommand(s),
		newPolicyPlanCommand(s),
		newPolicyExplainCommand(s),
		newPolicyShowCommand(s),
		newPolicyInitCommand(s),
	)
	return cmd
}

// policyFlags are the flags of commands that load a policy.
type policyFlags struct {
	sets []string
}

func (f *policyFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.sets, "set", nil, `change an argument, as in --set budget.step_usd=0.05 (may be repeated)`)
}

// load loads a policy for a command that calls no model; warnings are printed.
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

// checkProfile checks a fitted profile against the models and prices of a policy.
func checkProfile(path string, p *policies.Policy) error {
	_, err := fit.Load(path, p.SDKModels())
	return err
}

func newPolicyValidateCommand(s Streams) *cobra.Command {
	var f policyFlags
	var strict, secrets, noPlugins bool
	cmd := &cobra.Command{
		Use:   "validate POLICY...",
		Short: "Say everything that is wrong with policies",
		Long: `Say everything that is wrong with policies, with file, line and a way to mend it.

Config blocks are checked against the schemas of their plugins. A plugin is started
to ask for its schema once; the answer is kept by the checksum of its program, so
that nothing is started when nothing changed.`,
		Example: `  stepfall policy validate policy.hcl
  stepfall policy validate --strict --json policies/*.hcl`,
		Args:        cobra.MinimumNArgs(1),
		Annotations: hasJSON(),
		RunE: func(cmd *cobra.Command, args []string) error {
			var all policies.Diagnostics
			notes := map[string]string{}
			bad := 0
			for _, path := range args {
				o := policies.LoadOptions{Sets: f.sets, CheckProfile: checkProfile, RequireSecrets: secrets, Today: time.Now()}
				if !noPlugins {
					o.Schemas = full.Schemas(cmd.Context(), path)
				}
				p, err := policies.Load(path, o)
				var found policies.Diagnostics
				switch {
				case err == nil:
					found = p.Warnings
				case !errors.As(err, &found):
					return err
				}
				all = append(all, found...)
				if found.HasErrors() || strict && len(found) > 0 {
					bad++
				} else if !s.wantsJSON() {
					fmt.Fprintf(s.Out, "%s: valid: %s, strategy %s, %s\n", path, count(len(p.Models), "model"), p.Strategy.Kind, count(len(found), "warning"))
				}
				if err == nil && p.Unjudged != "" {
					notes[path] = p.Unjudged
				}
			}
			err := s.render(map[string]any{"valid": bad == 0, "diagnostics": append(policies.Diagnostics{}, all...), "notes": notes}, func(p *printer) {
				p.err = all.Write(s.Err)
				for _, path := range slices.Sorted(maps.Keys(notes)) {
					fmt.Fprintf(s.Err, "note on %s: %s\n", path, notes[path])
				}
			})
			if err != nil {
				return err
			}
			if bad > 0 {
				return &ExitError{Code: ExitFailure, Err: fmt.Errorf("%d of %s cannot be used", bad, count(len(args), "policy"))}
			}
			return nil
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&noPlugins, "no-plugins", false, "do not check config blocks against their plugins")
	cmd.Flags().BoolVar(&strict, "strict", false, "count warnings as errors")
	cmd.Flags().BoolVar(&secrets, "require-secrets", false, "an environment variable that env() names and that is not set is an error")
	return cmd
}

// count returns a number with its noun.
func count(n int, noun string) string { return say.Count(int64(n), noun) }

func newPolicyFormatCommand(s Streams) *cobra.Command {
	var check, diff bool
	cmd := &cobra.Command{
		Use:   "fmt FILE...",
		Short: "Put policy files into the usual layout",
		Long: `Put policy files into the usual layout: two spaces a level, equals signs in one
column. Files are rewritten in place; a file that cannot be parsed is left as it is.
With --check nothing is written, and the exit code says whether something would be.`,
		Example: `  stepfall policy fmt policy.hcl
  stepfall policy fmt --check policies/*.hcl`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			changed := 0
			for _, path := range args {
				src, err := readPolicy(path)
				if err != nil {
					return err
				}
				out, err := policies.Format(path, src)
				if err != nil {
					return err
				}
				if string(out) == string(src) {
					continue
				}
				changed++
				fmt.Fprintln(s.Out, path)
				if diff {
					printDiff(s, string(src), string(out))
				}
				if check || diff {
					continue
				}
				if err := replaceFile(path, out); err != nil {
					return err
				}
			}
			if check && changed > 0 {
				return fmt.Errorf("%s not formatted: run stepfall policy fmt", count(changed, "file"))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing, and fail when a file is not formatted")
	cmd.Flags().BoolVar(&diff, "diff", false, "write nothing, and print the lines that would change")
	return cmd
}

// readPolicy reads a policy's file, no more of it than shows that it is too large; what
// has no end is not waited for.
func readPolicy(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	const enough = 2 << 20 // twice what a policy's file may hold
	return io.ReadAll(io.LimitReader(file, enough))
}

// replaceFile writes a file so that it is never half written, and keeps its mode.
func replaceFile(path string, content []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".stepfall-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(content)
	if err = errors.Join(err, tmp.Chmod(info.Mode()), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// printDiff prints the lines that differ. Formatting changes no line's place by
// much, so that lines are compared in pairs.
func printDiff(s Streams, before, after string) {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	for i := range max(len(a), len(b)) {
		var from, to string
		if i < len(a) {
			from = a[i]
		}
		if i < len(b) {
			to = b[i]
		}
		if from != to {
			fmt.Fprintf(s.Out, "%4d -%s\n     +%s\n", i+1, from, to)
		}
	}
}

func newPolicyShowCommand(s Streams) *cobra.Command {
	var f policyFlags
	var o policies.ShowOptions
	var list bool
	cmd := &cobra.Command{
		Use:   "show [POLICY]",
		Short: "Print the effective policy and where each value comes from",
		Long: `Print the effective policy: includes, environment and --set merged into one file
that loads to the same. Secrets are printed as the env() that they come from.`,
		Example: `  stepfall policy show --origins policy.hcl
  stepfall policy show library:swe > policy.hcl
  stepfall policy show --library
  stepfall policy show --catalog`,
		Args:        cobra.MaximumNArgs(1),
		Annotations: hasJSON(),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case list:
				return showLibrary(s)
			case len(args) == 0 && o.Catalog && s.wantsJSON():
				return usage("--catalog alone is printed as it is written; --json wants a policy beside it")
			case len(args) == 0 && o.Catalog:
				src, err := policies.LibrarySource("catalog")
				if err != nil {
					return err
				}
				_, err = s.Out.Write(src)
				return err
			case len(args) == 0:
				return usage("name a policy, or --library for those that ship with stepfall, or --catalog for its models and prices")
			}
			p, err := f.load(s, args[0], policies.LoadOptions{})
			if err != nil {
				return err
			}
			return s.render(settingsOf(p, o), func(w *printer) { w.err = p.Show(s.Out, o) })
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&o.Defaults, "defaults", false, "also what has its default")
	cmd.Flags().BoolVar(&o.Origins, "origins", false, "say of each value where it comes from")
	cmd.Flags().BoolVar(&o.Catalog, "catalog", false, "also the catalogue of models and prices; without a policy, that alone")
	cmd.Flags().BoolVar(&list, "library", false, "list the policies that ship with stepfall")
	return cmd
}

// showLibrary lists the policies that ship with stepfall.
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

// settingsOf is what `policy show --json` prints.
func settingsOf(p *policies.Policy, o policies.ShowOptions) any {
	type setting struct {
		Path   []string `json:"path"`
		Value  string   `json:"value"`
		Origin string   `json:"origin"`
	}
	all := []setting{}
	for _, s := range p.Settings() {
		if s.Path[0] == "catalog" && !o.Catalog || s.Origin == "default" && !o.Defaults {
			continue
		}
		all = append(all, setting{s.Path, s.Value, s.Origin})
	}
	return all
}

// purpose returns the first sentence of the comment that a library policy begins with.
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
