package router_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// logged returns what f writes to the default log.
func logged(t *testing.T, f func()) string {
	t.Helper()
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	f()
	return log.String()
}

// refusing is a model that returns an error.
type refusing func() error

func (r refusing) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, r, prompt, options...)
}

func (r refusing) GenerateContent(context.Context, []llms.MessageContent, ...llms.CallOption) (*llms.ContentResponse, error) {
	return nil, r()
}

// A rejected request is logged once for each model and reason, even if its ids differ.
func TestRefusedRequestsAreLoggedOnce(t *testing.T) {
	n := 0
	refuse := refusing(func() error {
		n++
		return &middleware.ProviderError{Provider: "openai", Status: 400, Code: llms.ErrCodeInvalidRequest, Message: "messages." + strings.Repeat("1", n) + ": no", RequestID: "req_" + strings.Repeat("x", n)}
	})
	log := logged(t, func() {
		model, err := router.Wrap(t.Context(), 0.01, router.Options{Models: map[string]llms.Model{"gpt-4.1-mini": refuse, "gpt-4.1": says("large")}})
		if err != nil {
			t.Fatal(err)
		}
		defer model.Close()
		for range 3 {
			if _, err := llms.GenerateFromSinglePrompt(t.Context(), model, "q", llms.WithModel("gpt-4.1-mini")); err == nil {
				t.Fatal("the request was not refused")
			}
		}
	})
	if n != 3 || strings.Count(log, "a model's server rejected a request") != 1 {
		t.Errorf("%d calls, and the log says %q", n, log)
	}
}

// A verifier with only inconclusive verdicts is logged once, with the reason. One with a conclusive verdict is not.
func TestVerifierThatSaysNothingIsLoggedOnce(t *testing.T) {
	for _, speaks := range []bool{false, true} {
		n := 0
		verify := func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
			if n++; speaks && n == 5 {
				return &sdk.Verdict{Outcome: sdk.Passed}, nil
			}
			return &sdk.Verdict{Evidence: "exit status 2"}, nil
		}
		log := logged(t, func() {
			model, err := router.Wrap(t.Context(), 0.01, router.Options{Models: map[string]llms.Model{"gpt-4.1-mini": says("small"), "gpt-4.1": says("large")}, Verify: verify})
			if err != nil {
				t.Fatal(err)
			}
			defer model.Close()
			for range 30 {
				if _, err := llms.GenerateFromSinglePrompt(t.Context(), model, "q"); err != nil {
					t.Fatal(err)
				}
			}
		})
		if got := strings.Count(log, "verdicts of a verifier were all inconclusive"); got != map[bool]int{false: 1}[speaks] || !speaks && !strings.Contains(log, "exit status 2") {
			t.Errorf("speaks %v: %d verdicts, and the log says %q", speaks, n, log)
		}
	}
}

// An uncertain pass, which is compared with another model's answer all the same, says so and is not reported as silence.
func TestUncertainPassOfAStepWithToolsIsNotReportedAsSilence(t *testing.T) {
	verify := func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		return &sdk.Verdict{Outcome: sdk.Passed, Confidence: 0.9}, nil
	}
	var last *sdk.Verdict
	log := logged(t, func() {
		model, err := router.Wrap(t.Context(), 0.01, router.Options{
			Models: map[string]llms.Model{"gpt-4.1-mini": says("small"), "claude-haiku-4-5": says("small"), "claude-sonnet-4-5": says("large")}, Verify: verify,
			Traces: func(_ context.Context, trace *sdk.Trace) {
				for i := range trace.Calls {
					last = cmp.Or(trace.Calls[i].Verdict, last)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer model.Close()
		tools := llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "find"}}})
		for range 30 {
			if _, err := llms.GenerateFromSinglePrompt(t.Context(), model, "q", tools); err != nil {
				t.Fatal(err)
			}
		}
	})
	if last == nil || !strings.Contains(last.Evidence, "passed at 0.9") || strings.Contains(log, "all inconclusive") {
		t.Errorf("the verdict is %+v, and the log says %q", last, log)
	}
}

func TestNilModelIsNamed(t *testing.T) {
	_, err := router.Wrap(t.Context(), 0.01, router.Options{Models: map[string]llms.Model{"gpt-4.1-mini": nil, "gpt-4.1": says("large")}})
	if err == nil || !strings.Contains(err.Error(), "gpt-4.1-mini is nil") {
		t.Errorf("error %v", err)
	}
}

// An unavailable model is logged once with the cause, and once more when its circuit opens.
func TestModelThatIsAwayIsLoggedOnce(t *testing.T) {
	away := refusing(func() error {
		return &middleware.ProviderError{Provider: "openai", Status: 503, Code: llms.ErrCodeProviderUnavailable, Retry: true, Message: "down"}
	})
	log := logged(t, func() {
		model, err := router.Wrap(t.Context(), 0.01, router.Options{Models: map[string]llms.Model{"gpt-4.1-mini": away, "gpt-4.1": says("large")}})
		if err != nil {
			t.Fatal(err)
		}
		defer model.Close()
		for range 8 {
			if _, err := llms.GenerateFromSinglePrompt(t.Context(), model, "q"); err != nil {
				t.Fatal(err)
			}
		}
	})
	for _, want := range []string{"a model gave no answer in a step", "status 503", "a model is temporarily excluded", "circuit open"} {
		if strings.Count(log, want) != 1 {
			t.Errorf("%q is not said once: %s", want, log)
		}
	}
}

// A model that has no answer within its caller's time is logged once, since retries pay for nothing.
func TestModelThatIsLateIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := refusing(func() error { time.Sleep(time.Minute); return context.DeadlineExceeded })
		log := logged(t, func() {
			model, err := router.Wrap(t.Context(), 0.01, router.Options{Models: map[string]llms.Model{"gpt-4.1-mini": late, "gpt-4.1": late}})
			if err != nil {
				t.Fatal(err)
			}
			defer model.Close()
			for range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				if _, err := llms.GenerateFromSinglePrompt(ctx, model, "q"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				cancel()
			}
		})
		if strings.Count(log, "before its caller's deadline") != 1 {
			t.Error(log)
		}
	})
}

// A model that is excluded because it lacks a tool is logged once.
func TestLeftOutForAToolIsLoggedOnce(t *testing.T) {
	log := logged(t, func() {
		model, err := router.Wrap(t.Context(), 0.01, router.Options{Models: map[string]llms.Model{"gpt-4.1-mini": says("small"), "gpt-4.1": says("large")}})
		if err != nil {
			t.Fatal(err)
		}
		defer model.Close()
		tools := middleware.WithParams(middleware.Params{Dialect: middleware.DialectResponses, RawTools: []json.RawMessage{[]byte(`{"type":"web_search"}`)}})
		for range 3 {
			if _, err := llms.GenerateFromSinglePrompt(t.Context(), model, "q", tools); err == nil {
				t.Fatal("a model was asked")
			}
		}
	})
	if strings.Count(log, "lacks a tool; optional_tools may omit the tool") != 2 || !strings.Contains(log, "has no tool web_search of openai.responses") {
		t.Errorf("the log says %q", log)
	}
}

// Without a judge, each query is sent to one model, and a warning says so even if there is no
// logger.
func TestWrapWithoutVerifyRoutesAndSaysSo(t *testing.T) {
	models := map[string]llms.Model{"gpt-4.1-mini": says("small"), "gpt-4.1": says("large")}
	log := logged(t, func() {
		model, err := router.Wrap(t.Context(), 0.01, router.Options{Models: models})
		if err != nil {
			t.Fatal(err)
		}
		defer model.Close()
		ctx, report := middleware.WithReport(context.Background())
		for range 5 {
			if _, err := llms.GenerateFromSinglePrompt(ctx, model, "q"); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range report.Steps() {
			if len(s.Calls) != 1 {
				t.Errorf("%d models were asked, and nothing judged their answers", len(s.Calls))
			}
		}
		if p := model.Policy(); p.Models[0].Name != "gpt-4.1-mini" || p.Models[1].Price.Output != 8 {
			t.Errorf("the catalogue was not read: %+v", p.Models)
		}
	})
	if !strings.Contains(log, "nothing judges the answers") || !strings.Contains(log, "Options.Verify judges answers") || strings.Count(log, "\n") != 2 || len(log) > 500 {
		t.Errorf("the log says %q", log)
	}
}

// Environment variables may also be meant for policies in files: those that do not apply to wrapped models are listed
// in a warning, and the others take effect, such as the one for the trace file.
func TestWrapAndTheEnvironment(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("STEPFALL__MODEL__GPT_SMALL__BASE_URL", "http://127.0.0.1:1")
	t.Setenv("STEPFALL__TRACE__FILE", "traces.jsonl")
	log := logged(t, func() {
		model, err := router.Wrap(t.Context(), 0.01, router.Options{Models: map[string]llms.Model{"gpt-4.1-mini": says("a"), "gpt-4.1": says("b")}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := llms.GenerateFromSinglePrompt(t.Context(), model, "q"); err != nil {
			t.Error(err)
		}
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	})
	if strings.Count(log, "environment variables without effect: STEPFALL__MODEL__GPT_SMALL__BASE_URL") != 1 || strings.Contains(log, "Options.Traces") {
		t.Errorf("the log says %q", log)
	}
	if data, err := os.ReadFile("traces.jsonl"); err != nil || len(data) == 0 {
		t.Errorf("%d bytes of traces, %v", len(data), err)
	}
}

func TestWrapSaysWhatItDoesNotKnow(t *testing.T) {
	_, err := router.Wrap(t.Context(), 0.01, router.Options{Models: map[string]llms.Model{"house-model": says("x")}})
	if err == nil || !strings.Contains(err.Error(), `model "house-model" has no price`) || !strings.Contains(err.Error(), `provider = "go"`) {
		t.Errorf("error %v", err)
	}
	if _, err := router.Wrap(t.Context(), 0, router.Options{Models: map[string]llms.Model{"gpt-4.1": says("x")}}); err == nil {
		t.Error("an answer that is worth nothing is accepted")
	}
}

// A missing environment variable for a key of the policy is an error when the policy is opened, and not left to the
// provider.
func TestMissingKeyIsFoundAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.hcl")
	text := "model \"m\" {\n  provider = \"openai\"\n  served = \"gpt-4.1\"\n  api_key = env(\"NO_SUCH_KEY\")\n}\nstrategy \"route\" {\n  worth_usd = 1\n}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := full.Open(t.Context(), file, router.Options{})
	if err == nil || !strings.Contains(err.Error(), "NO_SUCH_KEY") {
		t.Errorf("error %v", err)
	}
}

// If the only judge of a policy is limited to queries with tests, the first chat step that is not judged is logged,
// with the block to add, and no further one.
func TestChatThatNothingJudgesIsTold(t *testing.T) {
	text := `
model "gpt-4.1-mini" {
  provider = "go"
}
model "gpt-4.1" {
  provider = "go"
}
verifier "tests" {
  plugin = "verifier-tests"
  config {
    command = ["go", "test", "./..."]
  }
  when {
    checks = true
  }
}
strategy "cascade_route" {
  worth_usd = 1
}
`
	for patches, want := range map[bool]int{false: 1, true: 0} {
		load := policies.LoadOptions{Patches: patches}
		p, err := policies.Parse("policy.hcl", []byte(text), load)
		if err != nil {
			t.Fatal(err)
		}
		log := logged(t, func() {
			model, err := router.New(t.Context(), p, full.Complete(router.Options{
				Models: map[string]llms.Model{"gpt-4.1-mini": says("small"), "gpt-4.1": says("large")}, Load: load,
				Verifiers: func(string) sdk.Verifier { return unasked{t} },
			}))
			if err != nil {
				t.Fatal(err)
			}
			defer model.Close()
			for range 3 {
				if _, err := llms.GenerateFromSinglePrompt(t.Context(), model, "hello"); err != nil {
					t.Fatal(err)
				}
			}
		})
		if got := strings.Count(log, "without a work tree or tests"); got != want {
			t.Errorf("for patches only %v: told %d times, want %d: %s", patches, got, want, log)
		}
		if want > 0 && !strings.Contains(log, "verifier-judge") {
			t.Errorf("what to add is not told: %s", log)
		}
	}
}

// A verifier whose verdicts exceed its max_usd, or the room under a cap, is logged once, with both amounts.
func TestDearVerdictsAreLoggedOnce(t *testing.T) {
	limited := strings.ReplaceAll(pairPolicy, "price {", "max_output_tokens = 100\n  price {")
	for _, c := range []struct {
		policy       string
		usd          float64
		once, within string
	}{
		{"verifier \"paid\" {\n  plugin = \"verifier-judge\"\n  max_usd = 0.01\n}\n" + pairPolicy, 0.02, "a verdict cost more than max_usd", "verifier paid cost more than its max_usd: 0.02 USD, and max_usd is 0.01"},
		{"verifier \"paid\" {\n  plugin = \"verifier-judge\"\n}\nbudget {\n  step_usd = 0.02\n}\n" + limited, 0.03, "verifier paid is skipped", "up to 0.03 more for the next call, cap 0.02"},
	} {
		p, err := policies.Parse("policy.hcl", []byte(c.policy), policies.LoadOptions{WithoutSecrets: true})
		if err != nil {
			t.Fatal(err)
		}
		paid := sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
			return &sdk.Verdict{Outcome: sdk.Passed, Score: 1, CostUSD: c.usd}, nil
		})
		log := logged(t, func() {
			model, err := router.New(t.Context(), p, full.Complete(router.Options{
				Models:    map[string]llms.Model{"mini": says("a"), "flash": says("b"), "large": says("c")},
				Verifiers: func(string) sdk.Verifier { return paid },
			}))
			if err != nil {
				t.Fatal(err)
			}
			defer model.Close()
			for range 3 {
				if _, err := llms.GenerateFromSinglePrompt(t.Context(), model, "q"); err != nil {
					t.Fatal(err)
				}
			}
		})
		if strings.Count(log, c.once) != 1 || !strings.Contains(log, c.within) {
			t.Errorf("the log says %q", log)
		}
	}
}

// A verifier whose verdicts are ended by max_usd is logged once, with the setting to change.
func TestVerdictsThatMaxUSDEndsAreLoggedOnce(t *testing.T) {
	p, err := policies.Parse("policy.hcl", []byte("verifier \"poor\" {\n  plugin = \"verifier-judge\"\n  max_usd = 0.01\n}\n"+pairPolicy), policies.LoadOptions{WithoutSecrets: true})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	poor := sdk.VerifierFunc(func(ctx context.Context, _ *sdk.VerifyRequest) (*sdk.Verdict, error) {
		asked++
		sdk.ModelBudgetOf(ctx).Spent.Store(true)
		return &sdk.Verdict{CostUSD: 0.01}, nil
	})
	log := logged(t, func() {
		model, err := router.New(t.Context(), p, full.Complete(router.Options{
			Models:    map[string]llms.Model{"mini": says("a"), "flash": says("b"), "large": says("c")},
			Verifiers: func(string) sdk.Verifier { return poor },
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer model.Close()
		for range 20 {
			if _, err := llms.GenerateFromSinglePrompt(t.Context(), model, "q"); err != nil {
				t.Fatal(err)
			}
		}
	})
	if strings.Count(log, "max_usd or timeout stops the verdicts of a verifier") != 1 || !strings.Contains(log, "verifier poor is left out for a while") || asked != 10 {
		t.Errorf("asked %d times, the log says %q", asked, log)
	}
}

// A step that a cap ended with an answer is logged once for each tenant, with the cap.
func TestStepsEndedByACapAreLoggedOnce(t *testing.T) {
	failing := sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		return &sdk.Verdict{Outcome: sdk.Failed}, nil
	})
	for usd, want := range map[string]int{"0.005": 2, "1": 0} { // for the small model alone, and for both
		p, err := policies.Parse("policy.hcl", []byte(`
model "small" {
  provider          = "go"
  max_output_tokens = 10
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 1
  }
}
model "large" {
  provider          = "go"
  max_output_tokens = 10
  price {
    input_usd_per_million  = 100
    output_usd_per_million = 100
  }
}
verifier "fails" {
  plugin  = "verifier-judge"
  max_usd = 0.0001
}
strategy "threshold" {
  order     = ["small", "large"]
  threshold = 0.9
}
budget {
  step_usd = `+usd+`
}
`), policies.LoadOptions{WithoutSecrets: true})
		if err != nil {
			t.Fatal(err)
		}
		log := logged(t, func() {
			model, err := router.New(t.Context(), p, full.Complete(router.Options{
				Models:    map[string]llms.Model{"small": says("a"), "large": says("b")},
				Verifiers: func(string) sdk.Verifier { return failing },
			}))
			if err != nil {
				t.Fatal(err)
			}
			defer model.Close()
			for _, tenant := range []string{"blue", "blue", "red"} {
				ctx := middleware.WithInfo(t.Context(), middleware.Info{Tenant: tenant})
				if _, err := llms.GenerateFromSinglePrompt(ctx, model, "q"); err != nil {
					t.Fatal(err)
				}
			}
		})
		if got := strings.Count(log, "a cap ended a step"); got != want || want > 0 && (!strings.Contains(log, "tenant=red model=large") || !strings.Contains(log, "cap "+usd)) {
			t.Errorf("with a cap of %s USD the log says it %d times, want %d: %s", usd, got, want, log)
		}
	}
}

type unasked struct{ t *testing.T }

func (u unasked) Verify(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
	u.t.Error("the verifier is asked about a chat")
	return &sdk.Verdict{}, nil
}

// With two cheap models of different makers and a large one, tool calls are compared: the large model is called if they
// differ, and for the rest of such a run. Queries without tools are routed as before. If Verify judges tool calls
// itself, one passed call is enough; if it is inconclusive, the calls are compared.
func TestWrapCompares(t *testing.T) {
	o := router.Options{Seed: 1, Models: map[string]llms.Model{
		"gpt-4.1-mini": caller(`{"n": 1, "s": "a"}`), "mistral-small-latest": caller(`{"s": " a ", "n": 1.0}`), "claude-sonnet-4-5": caller(`{"n": 3}`),
	}}
	tools := []llms.CallOption{llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "find", Parameters: map[string]any{"type": "object"}}}})}
	ask := func(t *testing.T, model llms.Model, run string, options ...llms.CallOption) string {
		t.Helper()
		ctx, report := middleware.WithReport(middleware.WithInfo(t.Context(), middleware.Info{Run: run}))
		if _, err := model.GenerateContent(ctx, []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "find a")}, options...); err != nil {
			t.Fatal(err)
		}
		var asked []string
		for _, call := range report.Steps()[0].Calls {
			asked = append(asked, call.Model)
		}
		slices.Sort(asked)
		return strings.Join(asked, " ")
	}
	const both, all, large = "gpt-4.1-mini mistral-small-latest", "claude-sonnet-4-5 gpt-4.1-mini mistral-small-latest", "claude-sonnet-4-5"
	var model *router.Router
	log := logged(t, func() {
		var err error
		if model, err = router.Wrap(t.Context(), 0.05, o); err != nil {
			t.Fatal(err)
		}
	})
	defer model.Close()
	if !strings.Contains(log, "queries without tools: nothing judges the answers") {
		t.Errorf("the log says %q", log)
	}
	if got := ask(t, model, "1", tools...) + ", " + ask(t, model, "1", tools...); got != both+", "+both {
		t.Errorf("asked %s where two agree", got)
	}
	chat, err := router.Wrap(t.Context(), 0.05, router.Options{Models: map[string]llms.Model{"gpt-4.1-mini": says("a"), "mistral-small-latest": says("b"), "claude-sonnet-4-5": says("c")}})
	if err != nil {
		t.Fatal(err)
	}
	defer chat.Close()
	if got := ask(t, chat, "1"); strings.Contains(got, " ") {
		t.Errorf("asked %s without tools", got)
	}
	o.Models["mistral-small-latest"] = caller(`{"n": 2}`)
	differing, err := router.Wrap(t.Context(), 0.05, o)
	if err != nil {
		t.Fatal(err)
	}
	defer differing.Close()
	if got := ask(t, differing, "1", tools...) + ", " + ask(t, differing, "1", tools...) + ", " + ask(t, differing, "2", tools...); got != all+", "+large+", "+all {
		t.Errorf("asked %s where two differ", got)
	}
	o.Verify = func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		return &sdk.Verdict{Outcome: sdk.Passed}, nil
	}
	judged, err := router.Wrap(t.Context(), 0.05, o)
	if err != nil {
		t.Fatal(err)
	}
	defer judged.Close()
	if got := ask(t, judged, "1", tools...); strings.Contains(got, " ") {
		t.Errorf("asked %s though the first answer passed", got)
	}
	o.Verify = func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) { return &sdk.Verdict{}, nil }
	silent, err := router.Wrap(t.Context(), 0.05, o)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if got := ask(t, silent, "1", tools...) + ", " + ask(t, silent, "1", tools...); got != all+", "+large {
		t.Errorf("asked %s where two differ and Verify says nothing", got)
	}
	// Without such a pair, tool calls on which Verify is inconclusive are not judged.
	delete(o.Models, "mistral-small-latest")
	log = logged(t, func() {
		alone, err := router.Wrap(t.Context(), 0.05, o)
		if err != nil {
			t.Fatal(err)
		}
		defer alone.Close()
		_ = ask(t, alone, "1", tools...) + ask(t, alone, "1", tools...)
	})
	if strings.Count(log, "inconclusive on tool calls") != 1 {
		t.Errorf("the log says %q", log)
	}
}

// The seed determines which steps are shadowed.
func TestShadowsFollowTheSeed(t *testing.T) {
	shadowed := func() (drawn string) {
		p, err := policies.Parse("policy.hcl", []byte("mode = \"shadow\"\nbaseline = \"large\"\nshadow {\n  share = 0.5\n  max_usd = 100\n}\n"+strings.ReplaceAll(pairPolicy, "\n  price", "\n  max_output_tokens = 100\n  price")), policies.LoadOptions{WithoutSecrets: true})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		byID := map[string]bool{}
		model, err := router.New(t.Context(), p, router.Options{Seed: 7, Logger: hclog.NewNullLogger(), Traces: func(_ context.Context, trace *sdk.Trace) {
			mu.Lock()
			defer mu.Unlock()
			byID[trace.QueryID] = byID[trace.QueryID] || trace.Mode == middleware.ShadowAlternative
		}, Models: map[string]llms.Model{"mini": says("a"), "flash": says("b"), "large": says("c")}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			ctx := middleware.WithInfo(t.Context(), middleware.Info{QueryID: fmt.Sprintf("%02d", i)})
			if _, err := llms.GenerateFromSinglePrompt(ctx, model, "q"); err != nil {
				t.Fatal(err)
			}
		}
		if err := model.Close(); err != nil {
			t.Fatal(err)
		}
		for _, id := range slices.Sorted(maps.Keys(byID)) {
			drawn += map[bool]string{true: "s", false: "."}[byID[id]]
		}
		return drawn
	}
	if a, b := shadowed(), shadowed(); a != b || strings.Count(a, "s") < 8 || strings.Count(a, "s") > 32 {
		t.Errorf("%s, then %s", a, b)
	}
}

func TestUsedUpShadowCapIsLoggedOnce(t *testing.T) {
	p, err := policies.Parse("policy.hcl", []byte("mode = \"shadow\"\nbaseline = \"large\"\nshadow {\n  share = 1\n  max_usd = 1e-9\n}\n"+strings.ReplaceAll(pairPolicy, "\n  price", "\n  max_output_tokens = 100\n  price")), policies.LoadOptions{WithoutSecrets: true})
	if err != nil {
		t.Fatal(err)
	}
	log := logged(t, func() {
		model, err := router.New(t.Context(), p, router.Options{Seed: 7, Models: map[string]llms.Model{"mini": says("a"), "flash": says("b"), "large": says("c")}})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if _, err := llms.GenerateFromSinglePrompt(t.Context(), model, "q"); err != nil {
				t.Fatal(err)
			}
		}
		if err := model.Close(); err != nil {
			t.Fatal(err)
		}
	})
	if strings.Count(log, middleware.ShadowCapUsedUp) != 1 {
		t.Errorf("the log says %q", log)
	}
}

func TestUncountedRunsAreLoggedOnce(t *testing.T) {
	p, err := policies.Parse("policy.hcl", []byte("budget {\n  run_usd = 1\n}\n"+strings.ReplaceAll(pairPolicy, "\n  price", "\n  max_output_tokens = 100\n  price")), policies.LoadOptions{WithoutSecrets: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		info middleware.Info
		want int
	}{{middleware.Info{}, 1}, {middleware.Info{Tenant: "t"}, 1}, {middleware.Info{Run: "r"}, 0}, {middleware.Info{Session: "s"}, 0}} {
		log := logged(t, func() {
			model, err := router.New(t.Context(), p, router.Options{Models: map[string]llms.Model{"mini": says("a"), "flash": says("b"), "large": says("c")}})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := llms.GenerateFromSinglePrompt(middleware.WithInfo(t.Context(), c.info), model, "q"); err != nil {
					t.Fatal(err)
				}
			}
			if err := model.Close(); err != nil {
				t.Fatal(err)
			}
		})
		if n := strings.Count(log, "run_usd does not count"); n != c.want {
			t.Errorf("%+v: the log says it %d times: %q", c.info, n, log)
		}
	}
}
