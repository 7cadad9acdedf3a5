package agents

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// A Road is one documented way to use stepfall.
type Road struct {
	Name string
	// Page is where it is documented.
	Page string
	// Make returns its policy.
	Make func(ctx context.Context, b *Bench) (policy string, err error)
	// Verify, when not nil, is what the program adds to the policy: it judges answers, and may know
	// the truth from the models.
	Verify func(*Cast) sdk.VerifierFunc
	// Wrap says that the program hands the models of the policy to router.Wrap, and that
	// nothing else of the policy counts.
	Wrap bool
}

// model writes a policy's model block as `stepfall policy init` does.
func model(name, maker, served string, quality float64) string {
	return fmt.Sprintf("model %q {\n  provider = %q\n  served = %q\n  quality {\n    mean = %v\n  }\n}\n", name, maker, served, quality)
}

// The models of the roads with hand-written policies, as named on the documentation pages.
var (
	small = model("small", "openai", "gpt-4.1-mini", 0.6)
	large = model("large", "anthropic", "claude-sonnet-4-5", 0.8)
)

// agreeing asks two cheap models, and the large one where their answers differ.
var agreeing = withoutQuality(small) + withoutQuality(model("other", "mistral", "mistral-small-latest", 0.6)) + withoutQuality(large) +
	"estimator \"agreement\" {\n  plugin = \"agreement\"\n}\nstrategy \"threshold\" {\n  order = [\"small\", \"other\", \"large\"]\n  threshold = 0.9\n  parallel = true\n}\n"

// hard lets the large model do the rest of a run after a setback, as stepfall policy init writes it.
const hard = "match \"hard\" {\n  when {\n    setbacks = 1\n  }\n  strategy \"threshold\" {\n    order = [\"large\", \"small\", \"other\"]\n    threshold = 0\n  }\n}\n"

// withoutQuality removes the quality block from a model block.
func withoutQuality(block string) string {
	head, _, _ := strings.Cut(block, "  quality {")
	return head + "}\n"
}

// cascadePolicy returns a policy of the two models with a block that judges the answers.
func cascadePolicy(look string) string {
	return small + large + look + "strategy \"cascade_route\" {\n  worth_usd = 0.05\n}\n"
}

// fixedRoad returns the road of a fixed policy.
func fixedRoad(name, page, policy string) Road {
	return Road{Name: name, Page: page, Make: func(context.Context, *Bench) (string, error) { return policy, nil }}
}

// single returns the road that always asks one model.
func single(m *Model) Road {
	return fixedRoad("always "+m.Served, "", model("only", m.Maker, m.Served, 0.7)+"strategy \"route\" {\n  worth_usd = 1\n}\n")
}

// firstPolicy returns the road of the policy that stepfall policy init writes.
func firstPolicy(name, page string, flags ...string) Road {
	return Road{Name: name, Page: page, Make: func(ctx context.Context, b *Bench) (string, error) {
		text, err := b.stepfall(ctx, append([]string{"policy", "init", "--out", "-"}, flags...)...)
		// A road writes no traces where nothing reads them.
		head, _, _ := strings.Cut(text, "# The record of each step")
		return head, err
	}}
}

// plugin writes a block that uses a plugin.
func plugin(block, name, config string) string {
	return fmt.Sprintf("%s \"look\" {\n  plugin = %q\n  config {\n%s\n  }\n}\n", block, name, config)
}

// judgedBySmall lets the small model judge.
var judgedBySmall = strings.Replace(plugin("verifier", "verifier-judge", `model = "small"`), "config {", "max_usd = 0.01\n  config {", 1)

// Roads returns all measured roads; the first is the one that the others are compared with.
func Roads(isReal bool) []Road {
	roads := []Road{
		single(findModel("claude-sonnet-4-5")),
		single(findModel("gpt-4.1-mini")),
		single(findModel("mistral-small-latest")),
		firstPolicy("`policy init` as it comes", "docs/start.md"),
		firstPolicy("`policy init --judge model`", "docs/start.md", "--judge", "model"),
		fixedRoad("verifier-schema", "docs/first-party-plugins.md", cascadePolicy(plugin("verifier", "verifier-schema", "require_tool_call = false"))),
		fixedRoad("verifier-schema, `may_pass`", "docs/first-party-plugins.md", cascadePolicy(plugin("verifier", "verifier-schema", "may_pass = true"))),
		fixedRoad("verifier-judge, the small model judges", "docs/first-party-plugins.md", cascadePolicy(judgedBySmall)),
		fixedRoad("agreement of gpt-4.1-mini and mistral-small-latest", "docs/first-party-plugins.md", agreeing),
		{Name: "estimator-logprob, trained on steps that a model judged", Page: "docs/first-party-plugins.md", Make: logProbs},
		wrappedRoad("`Wrap` of gpt-4.1-mini, mistral-small-latest and claude-sonnet-4-5", nil),
		wrappedRoad("`Wrap` of these with a `Verify` that looks at final answers", finalAnswers),
		{Name: "shadow, fit, enforce; a model judges", Page: "docs/operating.md", Make: verdictsPolicy},
		fittedPair("shadow, fit, enforce; nothing judges", false),
		fittedPair("shadow, fit, enforce; verdicts on the runs, `--as-good-as large --margin 0.1`", true, "--as-good-as", "large", "--margin", "0.1"),
		fittedPair("shadow, fit, enforce; verdicts on the runs, `--as-good-as large --margin 0.15`", true, "--as-good-as", "large", "--margin", "0.15"),
	}
	if !isReal { // real models do not know when they err
		roads = append(roads, verifiedRoad("a judge that knows each step's truth", truth))
	}
	return roads
}

func findModel(name string) *Model {
	for i := range Models {
		if Models[i].Served == name {
			return &Models[i]
		}
	}
	panic("no model " + name)
}

// stepfall runs the command in the bench's folder, with keys of three makers in its environment.
func (b *Bench) stepfall(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "stepfall", args...)
	cmd.Dir = b.Dir
	cmd.Env = append(os.Environ(), "OPENAI_API_KEY=scripted", "ANTHROPIC_API_KEY=scripted", "MISTRAL_API_KEY=scripted")
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("stepfall %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(failed.String()))
	}
	return string(out), nil
}

// recordTraces runs the learning tasks under a policy and returns its trace file.
func (b *Bench) recordTraces(ctx context.Context, name, policy string, reported bool) (string, error) {
	file := name + ".jsonl"
	_, err := b.run(ctx, &Road{}, policy+fmt.Sprintf("trace {\n  file = %q\n}\n", file), tasks{learning: true, reported: reported})
	return file, err
}

// logProbs trains the classifier on traces of steps that a model judged: the shadow asks both models in each step,
// since no estimate reaches 1.
func logProbs(ctx context.Context, b *Bench) (string, error) {
	traces, err := b.recordTraces(ctx, "judged", shadowing+small+large+judgedBySmall+"strategy \"threshold\" {\n  threshold = 1\n}\n", false)
	if err != nil {
		return "", err
	}
	if _, err := b.stepfall(ctx, "fit", "--classifier", "--outcomes", traces, "--out", "classifier.json"); err != nil {
		return "", err
	}
	return cascadePolicy(plugin("estimator", "estimator-logprob", `classifier = file("classifier.json")`)), nil
}

// shadowing is the mode in which the models other than the large one are asked in the background.
const shadowing = "mode = \"shadow\"\nbaseline = \"large\"\nshadow {\n  share = 1\n  max_usd = 100\n}\n"

// verdictsPolicy shadows, fits a profile to the traces for half the cost of the large model, verdicts included, and
// enforces it.
func verdictsPolicy(ctx context.Context, b *Bench) (string, error) {
	traces, err := b.recordTraces(ctx, "shadow", shadowing+cascadePolicy(judgedBySmall), false)
	if err != nil {
		return "", err
	}
	return b.fitProfile(ctx, "shadow", traces, strings.Replace(cascadePolicy(judgedBySmall), "cascade_route", "index", 1), "--verified", "--budget", "0.0007")
}

// fittedPair returns a road that asks four unjudged models in the shadow, and fits to the large model's answers or,
// with reported, to the results of runs as well.
func fittedPair(name string, reported bool, flags ...string) Road {
	file := "fitted" + strings.Join(flags, "") // each road's own, since roads are measured at the same time
	// The shadow's cap needs to know the longest answer, which the catalogue has of the others.
	other := strings.Replace(withoutQuality(model("other", "mistral", "mistral-small-latest", 0.6)), "served", "max_output_tokens = 8192\n  served", 1)
	models := withoutQuality(small) + other + withoutQuality(model("haiku", "anthropic", "claude-haiku-4-5", 0.6)) + withoutQuality(large) +
		"estimator \"agreement\" {\n  plugin = \"agreement\"\n}\n"
	return Road{Name: name, Page: "docs/operating.md", Make: func(ctx context.Context, b *Bench) (string, error) {
		// No estimate reaches 1, so that all are asked.
		traces, err := b.recordTraces(ctx, file, shadowing+models+"strategy \"threshold\" {\n  threshold = 1\n}\n", reported)
		if err != nil {
			return "", err
		}
		return b.fitProfile(ctx, file, traces, models+"strategy \"index\" {\n  worth_usd = 0.05\n  parallel = true\n}\n"+hard, flags...)
	}}
}

// fitProfile fits a policy to traces, and returns it with the profile.
func (b *Bench) fitProfile(ctx context.Context, name, traces, policy string, flags ...string) (string, error) {
	file, profile := name+".hcl", name+".json"
	if err := os.WriteFile(filepath.Join(b.Dir, file), []byte(policy), 0o600); err != nil {
		return "", err
	}
	_, err := b.stepfall(ctx, append([]string{"fit", "--policy", file, "--outcomes", traces, "--out", profile}, flags...)...)
	return strings.Replace(policy, "worth_usd = 0.05", "", 1) + fmt.Sprintf("fit {\n  profile = %q\n}\n", profile), err
}

// wrappedRoad passes three models to router.Wrap, without a policy, and with a verify func unless it is nil.
func wrappedRoad(name string, verify func(*Cast) sdk.VerifierFunc) Road {
	road := fixedRoad(name, "docs/middleware.md", agreeing)
	road.Wrap, road.Verify = true, verify
	return road
}

// verifiedRoad returns a road with a policy of two models and a verify func.
func verifiedRoad(name string, verify func(*Cast) sdk.VerifierFunc) Road {
	road := fixedRoad(name, "", cascadePolicy(""))
	road.Verify = verify
	return road
}

// finalAnswers judges like the func on the documentation page of the middleware: final answers, but no tool calls.
func finalAnswers(*Cast) sdk.VerifierFunc {
	return func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		switch {
		case len(req.Answer.ToolCalls) > 0:
			return &sdk.Verdict{Outcome: sdk.Inconclusive}, nil
		case strings.HasSuffix(req.Answer.Text, "?"), strings.Contains(req.Answer.Text, "unknown"):
			return &sdk.Verdict{Outcome: sdk.Failed, Evidence: "no answer"}, nil
		}
		return &sdk.Verdict{Outcome: sdk.Passed, Confidence: 0.9}, nil
	}
}

// truth judges by what the scripted models know about their own answers.
func truth(c *Cast) sdk.VerifierFunc {
	return func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		answer := req.Answer.Text
		for _, call := range req.Answer.ToolCalls {
			answer = asJudged(call.Name, call.Arguments)
		}
		if c.known(req.Query.Run, answer) {
			return &sdk.Verdict{Outcome: sdk.Passed}, nil
		}
		return &sdk.Verdict{Outcome: sdk.Failed}, nil
	}
}

// pricesOf returns the catalogue prices of models.
func pricesOf(list []Model) ([]string, error) {
	var text strings.Builder
	text.WriteString("strategy \"route\" {\n  worth_usd = 1\n}\n")
	for _, m := range list {
		text.WriteString(model(m.Served, m.Maker, m.Served, 0.5))
	}
	p, err := policies.Parse("prices", []byte(text.String()), policies.LoadOptions{})
	if err != nil {
		return nil, err
	}
	var prices []string
	for _, m := range p.Models {
		prices = append(prices, fmt.Sprintf("%v, %v", m.Price.Input, m.Price.Output))
	}
	return prices, nil
}
