package cli

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/policies"
)

// policyText holds the texts of policies that commands write: "first" of a draft, "demo" and "models" of offers.
var policyText = template.Must(template.New("").Parse(initTemplate))

//go:embed init.hcl.tmpl
var initTemplate string

// draft is the data of a first policy.
type draft struct {
	FirstLine string
	// AgentFile is the source that suggests an agent, or "".
	AgentFile string
	Models    []offer
	// Placeholders reports that the environment offers no models, and LeftOut counts offers that are not used.
	Placeholders bool
	LeftOut      string
	// Pair holds the blocks of an agent's policy. Otherwise Judge is tests, logprob, model or none, PluginBlock names
	// its program, and Command is the tests'. JudgeBlock is the verifier of a model, as a comment for none.
	Pair, Judge, PluginBlock, Command, JudgeBlock string
	// StepUSD and RunUSD are the suggested caps.
	StepUSD, RunUSD float64
}

func firstPolicy(ctx context.Context, getenv func(string) string, dir, program, judge string) ([]byte, error) {
	d := &draft{Models: offers(ctx, getenv)}
	if program == programAuto {
		program, d.AgentFile = programOf(dir)
	}
	var without error
	if program == programAgent && judge == "auto" {
		var pair *policies.Pair
		if pair, without = pairOf(d.Models); without == nil {
			d.usePair(pair)
			return d.text()
		}
	}
	d.FirstLine = firstLine(program, judge, without)
	if len(d.Models) == 0 {
		d.Placeholders = true
		d.Models = []offer{
			{Name: "small", Provider: "openai", Served: "gpt-4.1-mini", Key: "OPENAI_API_KEY", Mean: 0.6},
			{Name: "large", Provider: "openai", Served: "gpt-4.1", Key: "OPENAI_API_KEY", Mean: 0.75},
		}
	}
	d.useJudge(dir, program, judge)
	return d.text()
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

func (d *draft) usePair(pair *policies.Pair) {
	d.FirstLine, d.Pair = fmt.Sprintf("Expected: %s; the holdout measures it on yours.", pair.Expectation()), pair.Blocks()
	list := d.Models
	d.Models = nil
	for _, m := range append(pair.Cheap[:], pair.Large) {
		o := list[slices.IndexFunc(list, func(o offer) bool { return o.Name == m.Name })]
		o.Mean = 0 // omits the usual length: steps of an agent are short
		d.Models = append(d.Models, o)
	}
}

// useJudge sets the judge of answers, and leaves only the models to use with it.
func (d *draft) useJudge(dir, program, judge string) {
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	switch {
	case judge != "auto":
		d.Judge = judge
	case program == programPatches && pluginFound("verifier-tests"):
		d.Judge = "tests"
	case has("classifier.json") && pluginFound("estimator-logprob"):
		d.Judge = "logprob"
	default:
		d.Judge = "none"
	}
	if d.Judge == "logprob" || d.Judge == "none" {
		used := extremesByPrice(d.Models)
		if left := len(d.Models) - len(used); left > 0 {
			d.LeftOut = count(left, "model")
		}
		d.Models = used
	}
	d.PluginBlock = pluginBlock(judgePlugins[d.Judge])
	if d.Judge == "tests" {
		i := slices.IndexFunc(testCommands, func(t testCommand) bool { return has(t.file) && canRun(t.command) })
		d.Command = testCommands[max(i, 0)].command
	}
	models := make([]*policies.Model, len(d.Models))
	for i, o := range d.Models {
		models[i] = &policies.Model{Name: o.Name, Price: policies.Price{Free: o.Free, Output: o.priceRank()}}
	}
	d.JudgeBlock = policies.Judge(models)
	if d.Judge == "none" {
		block := pluginBlock(judgePlugins["model"]) + d.JudgeBlock
		d.JudgeBlock = "# " + strings.ReplaceAll(strings.TrimSpace(block), "\n", "\n# ")
	}
}

// text returns the policy. The suggested caps leave room for the longest answer of each model.
func (d *draft) text() ([]byte, error) {
	p, err := parseOffers(d.Models)
	if err != nil {
		return nil, err
	}
	longest := 0.25
	for i := range p.Models {
		longest = max(longest, float64(p.Models[i].MaxOutputTokens)*p.Models[i].Price.Output/1e6)
	}
	d.StepUSD = math.Ceil(2*2*longest) / 2 // twice that, for the prompt and the answers before it
	d.RunUSD = 5 * d.StepUSD
	var b strings.Builder
	if err := policyText.ExecuteTemplate(&b, "first", d); err != nil {
		return nil, err
	}
	return policies.Format("policy.hcl", []byte(b.String()))
}

// parseOffers returns a policy with the models of offers.
func parseOffers(list []offer) (*policies.Policy, error) {
	var b strings.Builder
	if err := policyText.ExecuteTemplate(&b, "models", list); err != nil {
		return nil, err
	}
	return policies.Parse("models.hcl", []byte(b.String()+"strategy \"route\" {\n  worth_usd = 1\n}\n"), policies.LoadOptions{WithoutSecrets: true})
}

// judges are the values of --judge. "auto" chooses by the program: agreement for an agent, tests for patches, a
// classifier in the folder, or none.
var judges = []string{"auto", "tests", "logprob", "model", "none"}

// judgePlugins maps values of --judge to the plugins that they need.
var judgePlugins = map[string]string{"tests": "verifier-tests", "logprob": "estimator-logprob", "model": "verifier-judge"}

func pluginFound(name string) bool {
	return slices.ContainsFunc(host.List(host.SearchPath()), func(f host.PluginFile) bool { return f.Name == name })
}

// pluginBlock returns a plugin block with the path of a plugin that is installed beside this command, where other
// programs do not search for it, or "".
func pluginBlock(plugin string) string {
	found := host.List(host.SearchPath())
	i := slices.IndexFunc(found, func(f host.PluginFile) bool { return f.Name == plugin })
	self, err := os.Executable()
	if i < 0 || err != nil || !strings.HasPrefix(found[i].Path, filepath.Dir(self)+string(filepath.Separator)) {
		return ""
	}
	return fmt.Sprintf("plugin %q {\n  path = %q\n}\n", plugin, found[i].Path)
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
