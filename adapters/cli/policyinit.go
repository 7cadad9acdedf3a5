package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/policies"
)

type initFlags struct {
	out, judge, program string
	force               bool
}

func newPolicyInitCommand(s Streams) *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Which policy should I start with? Write one for the models that the environment offers",
		Long: `Write a first policy, with comments, for the models that the environment offers through
OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, MISTRAL_API_KEY and OLLAMA_HOST, whose
server is asked for its models. The policy names the variables of keys, never their values.
For compatible servers, OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL and
MISTRAL_BASE_URL become the addresses of the models.

A cascade needs a judge of answers, which depends on what the program does (--for; the
default looks at the sources in this folder for an agent with tools):

  agent    two cheap models of different makers are asked before a large one, if the
           prices allow it; if their tool calls agree, the step ends
  patches  the tests decide
  chat     log-probabilities decide if the folder has a classifier.json (see stepfall
           fit --classifier); otherwise the policy routes each query to one model

With --judge model, the cheapest model judges the answers of all except the most
expensive one. The first line of the policy says what it is expected to save, or what
would save something.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	cmd.Flags().StringVar(&f.out, "out", "policy.hcl", "file to write; - is standard output")
	cmd.Flags().StringVar(&f.program, "for", programAuto, "kind of program: "+strings.Join(programKinds, ", "))
	cmd.Flags().StringVar(&f.judge, "judge", judges[0], "judge of answers: "+strings.Join(judges, ", "))
	cmd.Flags().BoolVar(&f.force, "force", false, "overwrite an existing file")
	return cmd
}

func (f *initFlags) run(ctx context.Context, s Streams) error {
	if err := f.check(); err != nil {
		return err
	}
	text, err := firstPolicy(ctx, os.Getenv, ".", f.program, f.judge)
	if err != nil {
		return err
	}
	p, err := policies.Parse(f.out, text, policies.LoadOptions{})
	if err != nil {
		return fmt.Errorf("the generated policy is invalid, which is a bug in stepfall: %w", err)
	}
	if f.out == "-" {
		_, err := s.Out.Write(text)
		return err
	}
	if err := f.write(text); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s: %s, %s\n", f.out, count(len(p.Models), "model"), describePolicy(p))
	if line, _, _ := strings.Cut(string(text), "\n"); strings.HasPrefix(line, "# ") {
		fmt.Fprintln(s.Out, strings.TrimPrefix(line, "# "))
	}
	if len(offers(ctx, os.Getenv)) == 0 {
		fmt.Fprintf(s.Out, "THE ENVIRONMENT OFFERS NO MODEL, so these two are placeholders. Next: set OPENAI_API_KEY, or another key that --help names,\n"+
			"and run stepfall policy init --force; or put your models into %s\n", f.out)
		return nil
	}
	if name := judgePlugins[f.judge]; name != "" && !pluginFound(name) {
		fmt.Fprintf(s.Out, "the policy's plugin %s is not found: stepfall plugin ls prints the folders that are searched\n", name)
	}
	fmt.Fprintf(s.Out, "next: stepfall policy plan %s\n", quoteForShell(f.out))
	return nil
}

func (f *initFlags) check() error {
	if !slices.Contains(judges, f.judge) {
		return usage("--judge %q: want one of %q", f.judge, judges)
	}
	if !slices.Contains(programKinds, f.program) {
		return usage("--for %q: want one of %q", f.program, programKinds)
	}
	if _, err := os.Stat("classifier.json"); f.judge == "logprob" && err != nil {
		return errors.New("--judge logprob needs a classifier.json in this folder: stepfall fit --classifier trains one on recorded outcomes")
	}
	return nil
}

// write writes the policy file, and overwrites an existing one only with --force.
func (f *initFlags) write(text []byte) error {
	mode := os.O_CREATE | os.O_WRONLY | os.O_EXCL
	if f.force {
		mode = os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	}
	file, err := os.OpenFile(f.out, mode, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s already exists: use --force to overwrite it, or another --out", f.out)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

func describePolicy(p *policies.Policy) string {
	switch {
	case p.Holdout != nil:
		return "for an agent with tools: two are asked, and the third if their answers differ"
	case p.Strategy.Kind == "route":
		return "routed: nothing judges the answers, and the file says how to change that"
	case slices.ContainsFunc(p.Verifiers, func(v policies.Verifier) bool { return v.When.Checks != nil }):
		return "a cascade where a query names a work tree or tests, as stepfall swe does;\n" +
			"any other query goes to one model, since nothing judges its answer: init --judge model, or your own verifier, changes that"
	}
	return "a cascade"
}

func quoteForShell(path string) string {
	if strings.ContainsAny(path, " \t\n'\"\\$`&|;<>()*?[]#~!") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}
