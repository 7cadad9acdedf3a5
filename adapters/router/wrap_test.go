package router_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// logged returns what a function writes to the process's own log.
func logged(t *testing.T, f func()) string {
	t.Helper()
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	f()
	return log.String()
}

// refusing is a model that gives no answer.
type refusing func() error

func (r refusing) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, r, prompt, options...)
}

func (r refusing) GenerateContent(context.Context, []llms.MessageContent, ...llms.CallOption) (*llms.ContentResponse, error) {
	return nil, r()
}

// A refused request is logged once for each model and reason, however its ids differ.
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
	if n != 3 || strings.Count(log, "a model refused a request") != 1 {
		t.Errorf("%d calls, and the log says %q", n, log)
	}
}

// A model that is not asked since it lacks a tool is named once.
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
	if strings.Count(log, "lacks a tool that optional_tools may leave out") != 2 || !strings.Contains(log, "has no tool web_search of openai.responses") {
		t.Errorf("the log says %q", log)
	}
}

// Without anything that looks, one model is asked for each query, and a warning says so
// also where no logger was given.
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
				t.Errorf("%d models were asked, and nothing looked at their answers", len(s.Calls))
			}
		}
		if p := model.Policy(); p.Models[0].Name != "gpt-4.1-mini" || p.Models[1].Price.Output != 8 {
			t.Errorf("the catalogue was not read: %+v", p.Models)
		}
	})
	if !strings.Contains(log, "nothing looks at the answers") || !strings.Contains(log, "verifier-judge") {
		t.Errorf("the log says %q", log)
	}
}

func TestWrapSaysWhatItDoesNotKnow(t *testing.T) {
	_, err := router.Wrap(t.Context(), 0.01, router.Options{Models: map[string]llms.Model{"house-model": says("x")}})
	if err == nil || !strings.Contains(err.Error(), `model "house-model" has no price`) {
		t.Errorf("error %v", err)
	}
	if _, err := router.Wrap(t.Context(), 0, router.Options{Models: map[string]llms.Model{"gpt-4.1": says("x")}}); err == nil {
		t.Error("an answer that is worth nothing is accepted")
	}
}

// A key that a policy names and the environment does not have is found when the policy is
// opened, not by the provider.
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

// A policy whose only judge says that it is for what names tests, put to a chat: the first
// step that nothing looked at is told, with the block to add, and no other.
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

type unasked struct{ t *testing.T }

func (u unasked) Verify(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
	u.t.Error("the verifier is asked about a chat")
	return &sdk.Verdict{}, nil
}
