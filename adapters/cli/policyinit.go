package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/host"
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

// judges are the values of --judge. "auto" chooses by the program: agreement for an agent, tests for patches, a
// classifier in the folder, or none.
var judges = []string{"auto", "tests", "logprob", "model", "none"}

// judgePlugins maps values of --judge to the plugins that they need.
var judgePlugins = map[string]string{"tests": "verifier-tests", "logprob": "estimator-logprob", "model": "verifier-judge"}

func pluginFound(name string) bool {
	return slices.ContainsFunc(host.List(host.SearchPath()), func(f host.PluginFile) bool { return f.Name == name })
}

func quoteForShell(path string) string {
	if strings.ContainsAny(path, " \t\n'\"\\$`&|;<>()*?[]#~!") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

type testCommand struct{ file, command string }

// testCommands are the test commands for a folder that contains the file, in order of preference.
var testCommands = []testCommand{
	{"go.mod", `["go", "test", "-json", "./..."]`},
	{"Cargo.toml", `["cargo", "test"]`},
	{"package.json", `["npm", "test"]`},
	{"pyproject.toml", `["python3", "-m", "pytest", "-q"]`},
	{"setup.py", `["python3", "-m", "pytest", "-q"]`},
	{"pyproject.toml", `["python3", "-m", "unittest"]`},
	{"setup.py", `["python3", "-m", "unittest"]`},
}

// canRun reports whether the program of a test command is installed here, and pytest if the command uses it.
func canRun(command string) bool {
	var words []string
	if json.Unmarshal([]byte(command), &words) != nil {
		return false
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return false
	}
	return !slices.Contains(words, "pytest") || exec.Command(words[0], "-c", "import pytest").Run() == nil
}

// judgeBlocks returns the policy's blocks that judge answers, the matching strategy block, and the models to use.
func judgeBlocks(dir, kind, judge string, list []offer) (block, strategy string, use []offer) {
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	if judge == "auto" {
		switch {
		case kind == programPatches && pluginFound("verifier-tests"):
			judge = "tests"
		case has("classifier.json") && pluginFound("estimator-logprob"):
			judge = "logprob"
		}
	}
	cascade := func(worth string) string {
		return "# A model runs as long as its expected gain in quality is worth its price. stepfall fit\n" +
			"# finds lambda for a budget from recorded outcomes.\n" +
			"strategy \"cascade_route\" {\n  worth_usd = " + worth + "\n}\n\n"
	}
	const answer, patch = "0.05 # what a right answer is worth", "2 # what a patch that passes is worth; for answers of a chat say less"
	switch judge {
	case "tests":
		i := slices.IndexFunc(testCommands, func(t testCommand) bool { return has(t.file) && canRun(t.command) })
		command := testCommands[max(i, 0)].command
		return "# The tests judge the answers to queries that name a work tree or tests. Other queries\n" +
			"# go to one model each, and their answers are not judged.\n" +
			program("verifier-tests") + "verifier \"tests\" {\n  plugin = \"verifier-tests\"\n  config {\n    command = " + command + "\n  }\n  when {\n    checks = true\n  }\n}\n\n", cascade(patch), list
	case "logprob":
		return "# Judges answers by the log-probabilities of their tokens.\n" +
			program("estimator-logprob") + "estimator \"confidence\" {\n  plugin = \"estimator-logprob\"\n  config {\n    classifier = file(\"classifier.json\")\n  }\n}\n\n", cascade(answer), extremesByPrice(list)
	}
	if judge != "model" {
		list = extremesByPrice(list)
	}
	models := make([]*policies.Model, len(list))
	for i, o := range list {
		models[i] = &policies.Model{Name: o.name, Price: policies.Price{Free: o.free, Output: o.priceRank()}}
	}
	block = policies.Judge(models)
	if judge == "model" {
		return "# The cheapest model judges the answers of all except the most expensive one.\n" + program("verifier-judge") + block + "\n", cascade(answer), list
	}
	block = program("verifier-judge") + block
	return "# NOTHING JUDGES THE ANSWERS, so each query goes to one model. If a free check rejects the\n" +
			"# answer (refusals, bad JSON, bad tool calls), another model is asked. To make this a\n" +
			"# cascade, let a model judge, and write cascade_route instead of route:\n#\n# " +
			strings.ReplaceAll(strings.TrimSpace(block), "\n", "\n# ") + "\n\n",
		"# stepfall fit finds lambda for a budget from recorded outcomes.\n" +
			"strategy \"route\" {\n  worth_usd = 0.05 # what a right answer is worth\n}\n\n", list
}

// program returns a plugin block with the path of a plugin that is installed beside this command, where other
// programs do not search for it, or "".
func program(plugin string) string {
	found := host.List(host.SearchPath())
	i := slices.IndexFunc(found, func(f host.PluginFile) bool { return f.Name == plugin })
	self, err := os.Executable()
	if i < 0 || err != nil || !strings.HasPrefix(found[i].Path, filepath.Dir(self)+string(filepath.Separator)) {
		return ""
	}
	return fmt.Sprintf("plugin %q {\n  path = %q\n}\n", plugin, found[i].Path)
}

func firstPolicy(ctx context.Context, getenv func(string) string, dir, program, judge string) ([]byte, error) {
	list := offers(ctx, getenv)
	found := ""
	if program == programAuto {
		program, found = programOf(dir)
	}
	if found != "" {
		found = fmt.Sprintf("# %s suggests an agent with tools; init --for chat overrides that.\n", filepath.ToSlash(found))
	}
	var without error
	if program == programAgent && judge == "auto" {
		pair, err := pairOf(list)
		if err == nil {
			return pairPolicy(pair, list, found)
		}
		without = err
	}
	var b strings.Builder
	b.WriteString("# " + firstLine(program, judge, without) + "\n" + found + "# The models that stepfall may ask, how it chooses, and what it may spend.\n" +
		"# The language: docs/policies.md, or stepfall dev reference.\n\n")
	if len(list) == 0 {
		b.WriteString("# The environment offers no model: set OPENAI_API_KEY, ANTHROPIC_API_KEY,\n" +
			"# GEMINI_API_KEY, MISTRAL_API_KEY or OLLAMA_HOST and run init again, or change these two.\n\n")
		list = []offer{
			{name: "small", provider: "openai", served: "gpt-4.1-mini", key: "OPENAI_API_KEY", mean: 0.6},
			{name: "large", provider: "openai", served: "gpt-4.1", key: "OPENAI_API_KEY", mean: 0.75},
		}
	}
	block, strategy, use := judgeBlocks(dir, program, judge, list)
	for _, o := range use {
		o.write(&b)
	}
	if len(use) < len(list) {
		fmt.Fprintf(&b, "# The environment offers %s more. Without a judge of answers nothing shows whether they\n"+
			"# are worth their price: init --judge model uses all.\n\n", count(len(list)-len(use), "model"))
	}
	return completePolicy(b.String(), strategy+block)
}

// firstLine describes, for the top of a policy without a pair of models, what it can save.
func firstLine(program, judge string, without error) string {
	switch {
	case without != nil:
		return "It saves nothing yet: every step asks one model. For an agent two cheap models are asked before the large one, but " + without.Error() + "."
	case judge == "model":
		return "What it saves depends on how often the judge is right, and judging costs money, too. stepfall policy plan --traces shows the result."
	case program == programPatches || judge == "tests":
		return "What it saves depends on how often a cheap model's patch passes the tests; stepfall swe prints that after each batch."
	case judge == "logprob":
		return "What it saves depends on the classifier: stepfall fit --classifier prints how good it is."
	}
	return "It saves nothing yet: nothing judges the answers, so every query goes to one model. To save, use init --for agent (tool calls are compared), --judge model, or your own verifier."
}

func pairPolicy(pair *policies.Pair, list []offer, found string) ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# Expected: %s; the holdout measures it on yours.\n%s# The language: docs/policies.md, or stepfall dev reference.\n\n", pair.Expectation(), found)
	for _, m := range append(pair.Cheap[:], pair.Large) {
		o := list[slices.IndexFunc(list, func(o offer) bool { return o.name == m.Name })]
		o.mean = 0 // omits the usual length: steps of an agent are short
		o.write(&b)
	}
	return completePolicy(b.String(), pair.Blocks())
}

// completePolicy returns a policy from the models and the rest, with the end of every first policy. The suggested
// caps leave room for the longest answer of each model.
func completePolicy(models, rest string) ([]byte, error) {
	p, err := policies.Parse("policy.hcl", []byte(models+"strategy \"route\" { worth_usd = 1 }\n"), policies.LoadOptions{WithoutSecrets: true})
	if err != nil {
		return nil, err
	}
	longest := 0.25
	for i := range p.Models {
		longest = max(longest, float64(p.Models[i].MaxOutputTokens)*p.Models[i].Price.Output/1e6)
	}
	stepUSD := math.Ceil(2*2*longest) / 2 // twice that, for the prompt and the answers before it
	return policies.Format("policy.hcl", fmt.Appendf(nil, "%s%s"+policyEnd, models, rest, stepUSD, 5*stepUSD))
}

// policyEnd suggests caps on a step and on a run.
const policyEnd = `# Hard caps: a call that might exceed one is not made. Its worst case counts: the longest answer that
# the model and the request's max_tokens allow. So the caps can be lower with max_output_tokens = 8192
# in the large model. Runs count by middleware.Info.Run or Session.
# budget {
#   step_usd = %g
#   run_usd  = %g
# }

# The record of each step, for stepfall trace and stepfall policy plan --traces.
trace {
  file = "traces.jsonl"
}
`

func (o offer) write(b *strings.Builder) {
	if o.note != "" {
		fmt.Fprintf(b, "# %s\n", o.note)
	}
	fmt.Fprintf(b, "model %q {\n  provider = %q\n  served = %q\n", o.name, o.provider, o.served)
	if o.url != "" {
		fmt.Fprintf(b, "  base_url = %q\n", o.url)
	}
	if o.key != "" {
		fmt.Fprintf(b, "  api_key = env(%q)\n", o.key)
	}
	if o.longest > 0 {
		fmt.Fprintf(b, "  max_output_tokens = %d # the catalogue does not know it; caps need it\n", o.longest)
	}
	if o.free {
		b.WriteString("  price {\n    free = true # it runs on your machine\n  }\n  capabilities = [\"json_mode\"]\n")
	} else {
		timeout := "10m" // an answer of 64,000 tokens at 110 tokens per second
		if strings.HasSuffix(o.name, "small") {
			timeout = "3m"
		}
		fmt.Fprintf(b, "  timeout = %q # a call that takes longer, or hangs, is cancelled and retried once; then another model is asked\n", timeout)
	}
	if o.inputUSD > 0 {
		fmt.Fprintf(b, "  price {\n    input_usd_per_million = %g\n    output_usd_per_million = %g\n  }\n", o.inputUSD, 4*o.inputUSD)
	}
	if o.mean > 0 {
		fmt.Fprintf(b, "  quality { # a guess, until stepfall fit has seen outcomes\n    mean = %v\n  }\n", o.mean)
	}
	b.WriteString("}\n\n")
}
