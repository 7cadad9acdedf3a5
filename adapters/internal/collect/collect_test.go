package collect_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/collect"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
)

const policyText = `
model "small" {
  provider = "go"
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 1000
  }
  max_output_tokens = 10
}
model "large" {
  provider = "go"
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 10000
  }
  max_output_tokens = 10
}
verifier "right" {
  plugin = "right"
}
strategy "cascade_route" {
  lambda = 1
}
`

// parrot answers with its name and the question, in one output token.
type parrot struct {
	name  string
	calls int
	fail  bool
	// silent leaves out how many tokens a call had.
	silent bool
	// before, when not nil, is called before the first answer.
	before func()

	temperatures []float64
}

func (p *parrot) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, p, prompt, options...)
}

func (p *parrot) GenerateContent(_ context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	p.calls++
	if before := p.before; before != nil {
		p.before = nil
		before()
	}
	var o llms.CallOptions
	for _, option := range options {
		option(&o)
	}
	p.temperatures = append(p.temperatures, o.Temperature)
	if p.fail {
		return nil, errors.New("API returned unexpected status code: 400: no")
	}
	text := p.name + ": " + messages[len(messages)-1].Parts[0].(llms.TextContent).Text
	usage := map[string]any{"PromptTokens": 0, "CompletionTokens": 1}
	if p.silent {
		usage = nil
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: text, StopReason: "stop", GenerationInfo: usage}}}, nil
}

// right passes the answers of the large model, and those to easy tasks.
type right struct{}

func (right) Verifier(string, string, map[string]any) (sdk.Verifier, error) {
	return sdk.VerifierFunc(func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		if req.Answer.Model == "large" || strings.Contains(req.Answer.Text, "easy") {
			return &sdk.Verdict{Outcome: sdk.Passed, Score: 1, Confidence: 0.95, Evidence: "it is easy"}, nil
		}
		return &sdk.Verdict{Outcome: sdk.Failed}, nil
	}), nil
}

func (right) QualityEstimator(string, string, map[string]any) (sdk.QualityEstimator, error) {
	return nil, errors.New("none")
}

type bench struct {
	small, large *parrot
	options      collect.Options
}

func newBench(t *testing.T) *bench {
	t.Helper()
	policy, err := policies.Parse("policy.hcl", []byte(policyText), policies.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{small: &parrot{name: "small"}, large: &parrot{name: "large"}}
	b.options = collect.Options{
		Policy: policy, Out: filepath.Join(t.TempDir(), "outcomes.jsonl"), Parallel: 1,
		Tasks:  []collect.Task{{QueryID: "q1", Group: "g", Prompt: "an easy one"}, {QueryID: "q2", Prompt: "a hard one"}, {QueryID: "q3", Prompt: "another"}},
		Router: router.Options{Models: map[string]llms.Model{"small": b.small, "large": b.large}, Plugins: right{}},
	}
	return b
}

func (b *bench) run(t *testing.T) collect.Summary {
	t.Helper()
	sum, err := collect.Run(t.Context(), b.options)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestOutcomesAreRecordedOnce(t *testing.T) {
	b := newBench(t)
	if sum := b.run(t); sum.New != 6 || sum.Had != 0 || sum.Failed != 0 {
		t.Fatalf("%+v", sum)
	}
	table, err := outcome.Open(b.options.Out, outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	small, large := table.Index("small"), table.Index("large")
	if len(table.Queries) != 3 || table.Quality[0][small] != 0.95 || table.Quality[1][small] != 0 || table.Quality[1][large] != 0.95 ||
		table.CostUSD[0][small] != 0.001 || table.Group(0) != "g" || table.Answer(0, small) != "small: an easy one" || table.PromptTokens(0) != 11 {
		t.Errorf("table %+v", table)
	}
	written, err := os.ReadFile(b.options.Out)
	if err != nil || !regexp.MustCompile(`"verdict":\{"verifier":"\w+","outcome":"passed","score":1,"confidence":0.95,"evidence":"it is easy"`).Match(written) {
		t.Errorf("no verdict in the rows: %v\n%s", err, written)
	}
	if sum := b.run(t); sum.New != 0 || sum.Had != 6 || b.small.calls != 3 || b.large.calls != 3 {
		t.Errorf("a second run: %+v, %d and %d calls", sum, b.small.calls, b.large.calls)
	}
}

// Lengths that the router had to estimate are unknown to a fit, as they are to its estimators in use.
func TestEstimatedLengthsAreUnknown(t *testing.T) {
	b := newBench(t)
	b.small.silent = true
	b.run(t)
	table, err := outcome.Open(b.options.Out, outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	small, large := table.Index("small"), table.Index("large")
	if got := table.OutputTokens[0]; got[small] != 0 || got[large] != 1 {
		t.Errorf("lengths of answers %v, want 0 of the model that reports none", got)
	}
}

// judged are plugins whose verifier asks a model.
type judged struct {
	right
	ask func(ctx context.Context, model string, q *sdk.Query) (*sdk.Answer, error)
}

func (j judged) Host(_ *policies.Policy, ask func(context.Context, string, *sdk.Query) (*sdk.Answer, error), _ hclog.Logger) (router.PluginHost, error) {
	return judged{ask: ask}, nil
}
func (judged) Schemas(context.Context, string) policies.SchemaSource { return nil }
func (judged) Start(context.Context) error                           { return nil }
func (judged) Close() error                                          { return nil }

func (j judged) Verifier(string, string, map[string]any) (sdk.Verifier, error) {
	return sdk.VerifierFunc(func(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		said, err := j.ask(ctx, "small", req.Query)
		if err != nil {
			return nil, err
		}
		return &sdk.Verdict{Outcome: sdk.Passed, Score: 1, Evidence: said.Text, CostUSD: said.CostUSD}, nil
	}), nil
}

// A candidate that is also the judge, as policy init writes it, judges the others' answers too.
func TestACandidateIsTheJudge(t *testing.T) {
	b := newBench(t)
	b.options.Router.Plugins, b.options.Router.PluginHosts = nil, judged{}
	if sum := b.run(t); sum.New != 6 || sum.Failed != 0 {
		t.Errorf("%+v", sum)
	}
	if b.small.calls != 9 || b.large.calls != 3 {
		t.Errorf("small was asked %d times, and large %d times", b.small.calls, b.large.calls)
	}
	// A verdict is paid for beside the answer, not as part of it: a fit adds the two.
	table, err := outcome.Open(b.options.Out, outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if small := table.Index("small"); table.CostUSD[0][small] != 0.001 || table.VerdictsUSD[0][small] != 0.001 {
		t.Errorf("costs %v, of verdicts %v", table.CostUSD, table.VerdictsUSD)
	}
	// All of it counts under the cap, also in the next run.
	const paid = 9*0.001 + 3*0.01
	if sum := b.run(t); math.Abs(sum.SpentUSD-paid) > 1e-9 {
		t.Errorf("%v USD spent according to the file, want %v", sum.SpentUSD, paid)
	}
}

// Two concurrent runs would pay for the same outcomes and interleave lines: the second is refused before it asks any
// model.
func TestOneRunAtATime(t *testing.T) {
	b, second := newBench(t), newBench(t)
	second.options.Out = b.options.Out
	var err error
	b.small.before = func() { _, err = collect.Run(t.Context(), second.options) }
	if sum := b.run(t); sum.New != 6 {
		t.Errorf("%+v", sum)
	}
	if err == nil || !strings.Contains(err.Error(), "another run") || second.small.calls+second.large.calls != 0 {
		t.Errorf("a second run: %v, %d calls", err, second.small.calls+second.large.calls)
	}
}

// A further sample is requested at a temperature, judged like the first, and is an outcome of its own.
func TestModelsAreAskedSeveralTimes(t *testing.T) {
	b := newBench(t)
	var err error
	b.options.Policy, err = policies.Parse("policy.hcl", []byte(policyText), policies.LoadOptions{Sets: []string{`model["small"].samples=3`}})
	if err != nil {
		t.Fatal(err)
	}
	if sum := b.run(t); sum.Total != 12 || sum.New != 12 || sum.Failed != 0 || b.small.calls != 9 || b.large.calls != 3 {
		t.Fatalf("%+v, the small model was called %d times and the large one %d", sum, b.small.calls, b.large.calls)
	}
	cold := 0
	for _, temperature := range b.small.temperatures {
		if temperature == 0 {
			cold++
		}
	}
	if cold != 3 {
		t.Errorf("temperatures %v, want 0 for the first answer to each of three tasks", b.small.temperatures)
	}
	table, err := outcome.Open(b.options.Out, outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(sdk.Samples(table.Models), table.Quality[0]); got != "[0 0 0 3] [0.95 0.95 0.95 0.95]" {
		t.Errorf("outcomes of %q: %s", table.Models, got)
	}
	if sum := b.run(t); sum.Had != 12 || sum.New != 0 {
		t.Errorf("a second run: %+v", sum)
	}
}

func TestARunThatWasKilledGoesOn(t *testing.T) {
	b := newBench(t)
	b.run(t)
	whole, err := os.ReadFile(b.options.Out)
	if err != nil {
		t.Fatal(err)
	}
	// Two outcomes on disk and a third half written.
	lines := strings.SplitAfter(string(whole), "\n")
	if err := os.WriteFile(b.options.Out, []byte(lines[0]+lines[1]+lines[2][:20]), 0o600); err != nil {
		t.Fatal(err)
	}
	if sum := b.run(t); sum.Had != 2 || sum.New != 4 {
		t.Errorf("%+v", sum)
	}
	after, err := os.ReadFile(b.options.Out)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(after), "\n"); n != 6 {
		t.Errorf("%d lines:\n%s", n, after)
	}
}

func TestTheCapHoldsOverRuns(t *testing.T) {
	b := newBench(t)
	// The worst case of a small call is 10 tokens of output, a cent, and 0.2 cents for what a
	// server may add to the prompt; it costs a tenth of a cent. A large one is ten times as dear.
	b.options.CapUSD = 0.112
	sum := b.run(t)
	if !sum.CapReached || sum.New != 3 || sum.SpentUSD > b.options.CapUSD {
		t.Fatalf("%+v", sum)
	}
	// It goes task by task, so that what is left can be compared.
	table, err := outcome.Open(b.options.Out, outcome.Options{})
	if err != nil || len(table.Complete().Queries) != 1 {
		t.Errorf("%v, %d tasks are done with both models", err, len(table.Complete().Queries))
	}
	if again := b.run(t); !again.CapReached || again.New != 0 || again.Had != 3 {
		t.Errorf("a second run under the same cap: %+v", again)
	}
}

func TestFailedCallsAreNamedAndTriedAgain(t *testing.T) {
	b := newBench(t)
	b.large.fail = true
	sum := b.run(t)
	if sum.New != 3 || sum.Failed != 3 || len(sum.Faults) != 1 || !strings.Contains(sum.Faults[0], "large") {
		t.Errorf("%+v", sum)
	}
	b.large.fail = false
	if sum := b.run(t); sum.New != 3 || sum.Had != 3 {
		t.Errorf("a second run: %+v", sum)
	}
}

// undecided is a verifier that is always inconclusive.
type undecided struct{ right }

func (undecided) Verifier(string, string, map[string]any) (sdk.Verifier, error) {
	return sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		return nil, errors.New("no compiler")
	}), nil
}

func TestNothingIsPaidForInVainForLong(t *testing.T) {
	b := newBench(t)
	b.options.Router.Plugins = undecided{}
	for i := range 100 {
		b.options.Tasks = append(b.options.Tasks, collect.Task{QueryID: fmt.Sprint("extra ", i), Prompt: "hard"})
	}
	sum, err := collect.Run(t.Context(), b.options)
	if !errors.Is(err, collect.ErrWasted) || !strings.Contains(err.Error(), "no compiler") || sum.CapReached {
		t.Errorf("%v; %+v", err, sum)
	}
	if sum.Failed > 20 {
		t.Errorf("%d calls were paid for before it stopped", sum.Failed)
	}
}

func TestWithoutAVerifierThereIsNoQuality(t *testing.T) {
	b := newBench(t)
	b.options.Policy.Verifiers = nil
	if _, err := collect.Run(t.Context(), b.options); !errors.Is(err, collect.ErrNoVerifier) {
		t.Errorf("got %v", err)
	}
}

func TestTasksAtFaultAreAllReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.jsonl")
	text := `{"query_id":"a","prompt":"x","work_dir":"repo"}
{"query_id":"a","prompt":"y"}
{"query_id":"b"}
{"query_id":"c","promt":"z"}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tasks, err := collect.ReadTasks(path)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"tasks.jsonl:2", "see line 1", "tasks.jsonl:3", "needs query_id and prompt", "tasks.jsonl:4", "promt"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if len(tasks) != 1 || tasks[0].WorkDir != filepath.Join(filepath.Dir(path), "repo") {
		t.Errorf("tasks %+v", tasks)
	}
}

func (right) CostEstimator(string, string, map[string]any) (sdk.CostEstimator, error) {
	return nil, nil
}
