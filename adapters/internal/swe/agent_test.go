package swe_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"

	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// answering makes every model of b respond with respond.
func (b *bench) answering(t *testing.T, respond func(*scripted.Request) scripted.Reply) *scripted.Server {
	t.Helper()
	server, err := scripted.Start(scripted.Options{Respond: func(_ context.Context, req *scripted.Request) scripted.Reply { return respond(req) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	for name := range prices {
		if b.solver.Setup.Models[name], err = openai.New(openai.WithBaseURL(server.URL()), openai.WithToken("none"), openai.WithModel(name)); err != nil {
			t.Fatal(err)
		}
	}
	return server
}

// lastResult returns the result of the model's last tool call.
func lastResult(req *scripted.Request) string {
	last := req.Messages[len(req.Messages)-1]
	if last.Role != "tool" {
		return ""
	}
	return last.Content
}

func onlySmall(b *bench) {
	b.solver.Setup.Step.Candidates = b.solver.Setup.Step.Candidates[:1]
}

func TestToolErrorsAreToldToTheModel(t *testing.T) {
	b := newBench(t)
	onlySmall(b)
	for name, c := range map[string]struct {
		call scripted.ToolCall
		want string
	}{
		"no JSON":          {scripted.ToolCall{Name: "read", Arguments: `{"path": `}, "no JSON object"},
		"wrong type":       {scripted.ToolCall{Name: "read", Arguments: `{"path": 7}`}, "no JSON object"},
		"unknown tool":     {scripted.ToolCall{Name: "browse", Arguments: `{}`}, "there is no tool"},
		"no file":          {scripted.ToolCall{Name: "read", Arguments: `{"path": "nothing.go"}`}, "there is no file"},
		"outside":          {scripted.ToolCall{Name: "read", Arguments: `{"path": "../../tasks"}`}, "no path in the repository"},
		"absolute":         {scripted.ToolCall{Name: "edit", Arguments: `{"path": "/etc/passwd", "old": "root", "new": "toor"}`}, "no path in the repository"},
		"git's own":        {scripted.ToolCall{Name: "edit", Arguments: `{"path": ".git", "old": "", "new": "x"}`}, "belongs to git"},
		"no such passage":  {scripted.ToolCall{Name: "edit", Arguments: `{"path": "go.mod", "old": "not there", "new": "x"}`}, "error:"},
		"no command":       {scripted.ToolCall{Name: "shell", Arguments: `{"command": ""}`}, "no command"},
		"failing command":  {scripted.ToolCall{Name: "shell", Arguments: `{"command": "exit 7"}`}, "exit code 7"},
		"very long output": {scripted.ToolCall{Name: "shell", Arguments: `{"command": "yes | head -c 300000"}`}, "bytes left out"},
	} {
		t.Run(name, func(t *testing.T) {
			told := ""
			b.answering(t, func(req *scripted.Request) scripted.Reply {
				if req.Turns() == 0 {
					return scripted.Reply{ToolCalls: []scripted.ToolCall{c.call}}
				}
				told = lastResult(req)
				return scripted.Reply{Text: "I give up."}
			})
			r := b.solve(t, "ledger-01")
			if r.Solved || !r.Attempts[0].Trajectory.Finished || r.Attempts[0].Trajectory.Turns != 2 {
				t.Errorf("%+v", r.Attempts[0].Trajectory)
			}
			if !strings.Contains(told, c.want) || len(told) > 20_000 {
				t.Errorf("the model was told %d bytes: %.300q, want %q", len(told), told, c.want)
			}
		})
	}
}

func TestLoopEndsTheAttempt(t *testing.T) {
	b := newBench(t)
	onlySmall(b)
	b.answering(t, func(*scripted.Request) scripted.Reply {
		return scripted.Reply{ToolCalls: []scripted.ToolCall{{Name: "read", Arguments: `{"path": "go.mod"}`}}}
	})
	r := b.solve(t, "ledger-01")
	if got := r.Attempts[0].Trajectory; got.Turns != 3 || !strings.Contains(got.Why, "same call") {
		t.Errorf("%+v, want an end after three equal turns", got)
	}
}

func TestTurnsAreBounded(t *testing.T) {
	b := newBench(t)
	onlySmall(b)
	b.solver.Agent.MaxTurns = 4
	b.answering(t, func(req *scripted.Request) scripted.Reply {
		return scripted.Reply{ToolCalls: []scripted.ToolCall{{Name: "shell", Arguments: `{"command": "echo ` + strings.Repeat("x", req.Turns()+1) + `"}`}}}
	})
	r := b.solve(t, "ledger-01")
	if got := r.Attempts[0].Trajectory; got.Turns != 4 || got.Finished || !strings.Contains(got.Why, "4 turns") {
		t.Errorf("%+v", got)
	}
}

// TestPassingTestsEndTheAttempt: when the model's test run passes and the verifier agrees, no further turn is paid
// for; when the verifier does not agree, the attempt continues.
func TestPassingTestsEndTheAttempt(t *testing.T) {
	for name, outcome := range map[string]sdk.Outcome{"accepted": sdk.Passed, "rejected": sdk.Failed} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			onlySmall(b)
			b.solver.TestCommand = []string{"true"}
			b.tasks["ledger-01"].TestCommand = nil
			asked := 0
			verify := func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
				if req.Answer.Text == "" {
					return &sdk.Verdict{Outcome: sdk.Failed}, nil
				}
				asked++
				return &sdk.Verdict{Outcome: outcome, Score: 1}, nil
			}
			b.solver.Setup.Step.Verifiers = []step.Verifier{{Name: "known", Verifier: sdk.VerifierFunc(verify)}}
			b.answering(t, func(req *scripted.Request) scripted.Reply {
				switch req.Turns() {
				case 0:
					return scripted.Reply{ToolCalls: []scripted.ToolCall{{Name: "edit", Arguments: `{"path": "new.txt", "old": "", "new": "x"}`}}}
				case 1:
					return scripted.Reply{ToolCalls: []scripted.ToolCall{{Name: "test", Arguments: `{}`}}}
				}
				return scripted.Reply{Text: "Done."}
			})
			r := b.solve(t, "ledger-01")
			turns := map[sdk.Outcome]int{sdk.Passed: 2, sdk.Failed: 3}[outcome]
			if got := r.Attempts[0].Trajectory; got.Turns != turns || got.Accepted != (outcome == sdk.Passed) {
				t.Errorf("%+v, want %d turns", got, turns)
			}
			if asked != 1 || r.Solved != (outcome == sdk.Passed) {
				t.Errorf("the verifier was asked %d times about one patch; solved %t", asked, r.Solved)
			}
		})
	}
}

// TestHiddenTestsStayHidden: test_patch is applied to the tree that is judged, and the agent cannot read it anywhere.
func TestHiddenTestsStayHidden(t *testing.T) {
	b := newBench(t)
	onlySmall(b)
	task := b.tasks["ledger-01"]
	task.TestPatch = "--- /dev/null\n+++ b/hidden_test.txt\n@@ -0,0 +1 @@\n+s3cret-expectation\n"
	judged := ""
	verify := func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		data, err := os.ReadFile(filepath.Join(req.Query.WorkDir, "hidden_test.txt"))
		judged = string(data)
		return &sdk.Verdict{Outcome: sdk.Failed, Evidence: "wrong"}, err
	}
	b.solver.Setup.Step.Verifiers = []step.Verifier{{Name: "known", Verifier: sdk.VerifierFunc(verify)}}
	told := ""
	trees := filepath.Join(b.dir, "trees")
	b.answering(t, func(req *scripted.Request) scripted.Reply {
		for _, m := range req.Messages {
			told += m.Content
		}
		if req.Turns() == 0 {
			return scripted.Reply{ToolCalls: []scripted.ToolCall{
				{Name: "shell", Arguments: `{"command": "grep -rs s3cret . ` + trees + ` /tmp; git log --all -p | grep s3cret; echo searched; touch a"}`},
			}}
		}
		return scripted.Reply{Text: "Done."}
	})
	b.solve(t, "ledger-01")
	if judged != "s3cret-expectation\n" {
		t.Errorf("the tree that is judged holds %q", judged)
	}
	if !strings.Contains(told, "searched") || strings.Contains(told, "s3cret-expectation") || strings.Contains(told, "FAIL_TO_PASS") {
		t.Errorf("the model was told:\n%s", told)
	}
}

// optionsModel records the output limit of calls; like some langchaingo clients it has a default.
type optionsModel struct {
	llms.Model

	maxTokens int
}

func (m *optionsModel) GenerateContent(_ context.Context, _ []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	o := llms.CallOptions{MaxTokens: 2048}
	for _, set := range options {
		set(&o)
	}
	m.maxTokens = o.MaxTokens
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "I give up."}}}, nil
}

func TestModelKeepsItsLongestAnswerWhereTheAgentNamesNone(t *testing.T) {
	b := newBench(t)
	onlySmall(b)
	model := &optionsModel{}
	for name := range prices {
		b.solver.Setup.Models[name] = model
	}
	for asked, want := range map[int]int{0: 2048, 300: 300} {
		b.solver.Agent.MaxOutputTokens = asked
		if b.solve(t, "ledger-01"); model.maxTokens != want {
			t.Errorf("with MaxOutputTokens %d the model is asked for %d tokens, want %d", asked, model.maxTokens, want)
		}
	}
}
