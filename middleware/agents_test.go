package middleware_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"
	"github.com/tmc/langchaingo/memory"
	"github.com/tmc/langchaingo/schema"
	"github.com/tmc/langchaingo/tools"

	"github.com/stepfall/stepfall/middleware"
)

// recording replays a trace that ships in langchaingo's module, in order.
type recording struct {
	mu       sync.Mutex
	requests []string
	answers  []string
	asked    []string
}

var upstream = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tmc/langchaingo").Output()
	return strings.TrimSpace(string(out)), err
})

func record(t *testing.T, path string) *recording {
	t.Helper()
	dir, err := upstream()
	if err != nil || dir == "" {
		t.Skipf("langchaingo's module is not on disk: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(dir, path))
	if err != nil {
		t.Fatal(err)
	}
	rest, ok := strings.CutPrefix(string(data), "httprr trace v1\n")
	if !ok {
		t.Fatalf("%s is no recording", path)
	}
	r := &recording{}
	for rest != "" {
		line, after, _ := strings.Cut(rest, "\n")
		var request, answer int
		if _, err := fmt.Sscanf(line, "%d %d", &request, &answer); err != nil {
			t.Fatalf("%s: %q: %v", path, line, err)
		}
		r.requests = append(r.requests, after[:request])
		r.answers = append(r.answers, after[request:request+answer])
		rest = after[request+answer:]
	}
	return r
}

func (r *recording) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	n := len(r.asked)
	if n >= len(r.answers) {
		return nil, fmt.Errorf("request %d of a recording of %d: %s", n+1, len(r.answers), body)
	}
	r.asked = append(r.asked, string(body))
	return http.ReadResponse(bufio.NewReader(strings.NewReader(r.answers[n])), req)
}

// sameRequest compares a request with the recorded one, as JSON.
func (r *recording) sameRequest(t *testing.T, n int) {
	t.Helper()
	_, body, ok := strings.Cut(strings.ReplaceAll(r.requests[n], "\r\n", "\n"), "\n\n")
	var want, got any
	if !ok || json.Unmarshal([]byte(body), &want) != nil || json.Unmarshal([]byte(r.asked[n]), &got) != nil {
		t.Fatalf("request %d is not JSON", n)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request %d differs from that of the bare client (-bare +wrapped):\n%s", n, diff)
	}
}

func (r *recording) model(t *testing.T, name string) *middleware.Model {
	t.Helper()
	llm, err := openai.New(openai.WithModel(name), openai.WithToken("none"), openai.WithHTTPClient(&http.Client{Transport: r}))
	if err != nil {
		t.Fatal(err)
	}
	return one(t, small(llm))
}

func TestRecordedFunctionsAgent(t *testing.T) {
	r := record(t, "agents/testdata/TestOpenAIFunctionsAgentWithHTTPRR.httprr")
	agent := agents.NewOpenAIFunctionsAgent(r.model(t, "gpt-4o"), []tools.Tool{tools.Calculator{}},
		agents.NewOpenAIOption().WithSystemMessage("You are a helpful assistant that can perform calculations."))
	ctx, rep := middleware.WithReport(t.Context())
	got, err := chains.Run(ctx, agents.NewExecutor(agent), "What is 15 multiplied by 4?")
	if err != nil || !strings.Contains(got, "60") {
		t.Fatalf("%q, %v", got, err)
	}
	r.sameRequest(t, 0)
	if steps := rep.Steps(); len(steps) != 2 || rep.Usage().Estimated || rep.Usage().InputTokens == 0 {
		t.Errorf("%d steps, usage %+v", len(steps), rep.Usage())
	}
	if turn := rep.Steps()[1].Features["turn"]; turn != 1 {
		t.Errorf("the second step has turn %v", turn)
	}
}

func TestRecordedStream(t *testing.T) {
	r := record(t, "llms/openai/testdata/TestWithStreaming.httprr")
	llm, err := openai.New(openai.WithModel("gpt-4o"), openai.WithToken("none"), openai.WithHTTPClient(&http.Client{Transport: r}))
	if err != nil {
		t.Fatal(err)
	}
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(llm)}, Stream: middleware.Passthrough})
	var seen bytes.Buffer
	resp, err := m.GenerateContent(t.Context(), human("q"), llms.WithStreamingFunc(func(_ context.Context, chunk []byte) error {
		seen.Write(chunk)
		return nil
	}))
	if err != nil || seen.Len() == 0 || seen.String() != resp.Choices[0].Content {
		t.Errorf("saw %q, %v", &seen, err)
	}
}

func TestRecordedMRKLAgent(t *testing.T) {
	r := record(t, "agents/testdata/TestExecutorWithMRKLAgent.httprr")
	m := r.model(t, "gpt-4")
	executor, err := agents.Initialize(m, []tools.Tool{lookup{}, tools.Calculator{}}, agents.ZeroShotReactDescription, agents.WithMaxIterations(3))
	if err != nil {
		t.Fatal(err)
	}
	got, err := chains.Run(t.Context(), executor, "What is 5 plus 3? Please calculate this.")
	if err != nil || !strings.Contains(got, "8") {
		t.Fatalf("%q, %v", got, err)
	}
}

// lookup is a tool with one fixed answer.
type lookup struct{}

func (lookup) Name() string        { return "GoogleSearch" }
func (lookup) Description() string { return "finds things" }
func (lookup) Call(context.Context, string) (string, error) {
	return "Ben Nevis is 1345 m high", nil
}

// talker answers MRKL prompts: small models write prose, large ones follow the protocol.
func talker(answers func(prompt string) string) *fake {
	return &fake{say: func(_ context.Context, messages []llms.MessageContent, _ *llms.CallOptions) (*llms.ContentResponse, error) {
		return text(answers(messages[len(messages)-1].Parts[0].(llms.TextContent).Text)), nil
	}}
}

func TestMRKLAgentIsSavedByTheParseCheck(t *testing.T) {
	sloppy := talker(func(string) string { return "I think I should search for it." })
	careful := talker(func(prompt string) string {
		if strings.Contains(prompt, "Observation: Ben Nevis is 1345") {
			return "Thought: I know.\nFinal Answer: 1345 m"
		}
		return "Thought: search\nAction: GoogleSearch\nAction Input: Ben Nevis\nObservation: it is 9000 m"
	})
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(sloppy), large(careful)}})
	executor := agents.NewExecutor(agents.NewOneShotAgent(m, []tools.Tool{lookup{}}))
	ctx, rep := middleware.WithReport(t.Context())
	got, err := chains.Run(ctx, executor, "How high is Ben Nevis?")
	if err != nil || got != "1345 m" {
		t.Fatalf("%q, %v", got, err)
	}
	for _, step := range rep.Steps() {
		if step.Chosen != "large" || step.Calls[0].Verdict == nil || step.Calls[0].Verdict.Verifier != "check:protocol" {
			t.Errorf("step %+v", step)
		}
	}
	bare := agents.NewExecutor(agents.NewOneShotAgent(sloppy, []tools.Tool{lookup{}}))
	if _, err := chains.Run(t.Context(), bare, "How high is Ben Nevis?"); err == nil {
		t.Error("the small model alone does not break the agent: the test shows nothing")
	}
}

func TestConversationalAgentWithMemory(t *testing.T) {
	sloppy := talker(func(string) string { return "Hello!" })
	careful := talker(func(prompt string) string {
		if strings.Contains(prompt, "Observation: Ben Nevis is 1345") {
			return "Thought: Do I need to use a tool? No\nAI: It is 1345 m high."
		}
		return "Thought: Do I need to use a tool? Yes\nAction: GoogleSearch\nAction Input: Ben Nevis"
	})
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(sloppy), large(careful)}})
	executor, err := agents.Initialize(m, []tools.Tool{lookup{}}, agents.ConversationalReactDescription, agents.WithMemory(memory.NewConversationBuffer()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := chains.Run(t.Context(), executor, "How high is Ben Nevis?")
	if err != nil || strings.TrimSpace(got) != "It is 1345 m high." {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestFunctionsAgentAcrossProviders(t *testing.T) {
	// The small model calls a tool that does not exist, the large one answers in
	// content blocks as anthropic's client does.
	call := func(name string) llms.ToolCall {
		return llms.ToolCall{ID: "c1", FunctionCall: &llms.FunctionCall{Name: name, Arguments: `{"__arg1":"Ben Nevis"}`}}
	}
	wrong := keeps(&llms.ContentResponse{Choices: []*llms.ContentChoice{{ToolCalls: []llms.ToolCall{call("Bing")}, StopReason: "tool_calls"}}})
	right := &fake{say: func(_ context.Context, messages []llms.MessageContent, o *llms.CallOptions) (*llms.ContentResponse, error) {
		last := messages[len(messages)-1]
		if last.Role == llms.ChatMessageTypeTool {
			return text("1345 m"), nil
		}
		if len(o.Tools) != 1 {
			return nil, fmt.Errorf("tools %v: the deprecated functions were not turned into tools", o.Tools)
		}
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{
			{Content: "Let me search.", StopReason: "tool_use"}, {ToolCalls: []llms.ToolCall{call("GoogleSearch")}, StopReason: "tool_use"},
		}}, nil
	}}
	// When an answer without a call is due, the small model would give one too, so the step is pinned to the large one.
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(wrong), as(large(right), "anthropic")}})
	agent := agents.NewOpenAIFunctionsAgent(m, []tools.Tool{lookup{}})
	got, err := chains.Run(t.Context(), agents.NewExecutor(agent), "How high is Ben Nevis?")
	if err != nil || got != "1345 m" {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestMapReduceRunsConcurrently(t *testing.T) {
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(cutOff("too")), large(says("summary"))}})
	var docs []schema.Document
	for i := range 20 {
		docs = append(docs, schema.Document{PageContent: fmt.Sprintf("document %d", i)})
	}
	ctx, rep := middleware.WithReport(t.Context())
	out, err := chains.Call(ctx, chains.LoadMapReduceSummarization(m), map[string]any{"input_documents": docs}, chains.WithStreamingFunc(nil))
	if err != nil || out["text"] != "summary" {
		t.Fatalf("%v, %v", out, err)
	}
	calls := 0
	for _, s := range rep.Steps() {
		calls += len(s.Calls)
	}
	if len(rep.Steps()) < 21 || calls != 2*len(rep.Steps()) {
		t.Errorf("%d steps with %d calls", len(rep.Steps()), calls)
	}
}
