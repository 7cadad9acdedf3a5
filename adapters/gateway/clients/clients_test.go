//go:build clients

package clients_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

var (
	all    = flag.Bool("clients", false, "ask with the clients of npm and PyPI too, which are installed into the cache folder")
	update = flag.Bool("update", false, "write the table into docs/gateway.md")
)

// actor is a model that follows the clients' scripts. It is a NativeModel of every dialect, so it receives
// everything that is passed through.
type actor struct{}

func (actor) Dialect() middleware.Dialect { return middleware.DialectChat }

func (a actor) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, a, prompt, options...)
}

func (a actor) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	o, p := middleware.Resolve(options...)
	heard := listen(messages)
	choice := &llms.ContentChoice{Content: "Hello there.", StopReason: "stop"}
	extra := &middleware.Extra{Usage: sdk.Usage{InputTokens: 8, CachedInputTokens: 4, OutputTokens: 5, ReasoningTokens: 3}}
	switch {
	case strings.Contains(heard.last, "busy"):
		return nil, &middleware.ProviderError{Provider: "actor", Status: 429, Code: llms.ErrCodeRateLimit, Message: "slow down", RetryAfter: 7 * time.Second}
	case strings.Contains(heard.last, "broken"):
		return nil, &llms.Error{Code: llms.ErrCodeProviderUnavailable, Message: "down"}
	case len(heard.results) > 0:
		choice.Content = "I heard: " + strings.Join(heard.results, "; ")
	case strings.Contains(heard.last, "weather") && len(o.Tools) > 0:
		choice.Content, choice.StopReason = "", "tool_calls"
		for i, city := range []string{"Paris", "Rome"} {
			choice.ToolCalls = append(choice.ToolCalls, llms.ToolCall{ID: fmt.Sprintf("call_%d", i), Type: "function",
				FunctionCall: &llms.FunctionCall{Name: o.Tools[0].Function.Name, Arguments: `{"city":"` + city + `"}`}})
		}
	case len(o.Tools) > 0 && o.Tools[0].Function.Name == "json": // how @ai-sdk/anthropic asks models that it does not know
		choice.Content, choice.StopReason = "", "tool_calls"
		choice.ToolCalls = []llms.ToolCall{{ID: "call_0", Type: "function", FunctionCall: &llms.FunctionCall{Name: "json", Arguments: `{"city":"Paris","population":2102650}`}}}
	case p.Schema != nil:
		choice.Content = `{"city":"Paris","population":2102650}`
	case heard.images > 0:
		choice.Content = fmt.Sprintf("I see %d image.", heard.images)
	case strings.Contains(heard.last, "what did you think"):
		choice.Content = "You sent back " + heard.sealed + "."
	case strings.Contains(heard.last, "think"):
		choice.ReasoningContent = "Let me think."
		extra.Parts = []llms.ContentPart{
			middleware.RawPart{Dialect: middleware.DialectAnthropic, Raw: json.RawMessage(`{"type":"thinking","thinking":"Let me think.","signature":"signed"}`)},
			middleware.RawPart{Dialect: middleware.DialectResponses, Raw: json.RawMessage(`{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"sealed"}`)},
			llms.TextPart(choice.Content),
		}
	case strings.Contains(heard.last, "refuse"):
		choice.Content, choice.StopReason, extra.Refusal = "", "refusal", "I will not."
		extra.StopReason = "refusal"
	}
	if p.LogProbs != nil && *p.LogProbs {
		extra.LogProbs = []sdk.TokenLogProb{{Token: "Hello", LogProb: -0.1, Top: []sdk.TopLogProb{{Token: "Hello", LogProb: -0.1}}}, {Token: " there.", LogProb: -0.2}}
	}
	choice.GenerationInfo = map[string]any{middleware.KeyExtra: extra}
	if p.OnDelta != nil {
		if err := perform(ctx, p.OnDelta, choice, extra); err != nil {
			return nil, err
		}
	}
	resp := &llms.ContentResponse{Choices: []*llms.ContentChoice{choice}}
	for range max(o.N, 1) - 1 {
		resp.Choices = append(resp.Choices, choice)
	}
	return resp, nil
}

// perform streams an answer in pieces.
func perform(ctx context.Context, emit func(context.Context, *middleware.Delta) error, choice *llms.ContentChoice, extra *middleware.Extra) error {
	pieces := []middleware.Delta{}
	if choice.ReasoningContent != "" {
		pieces = append(pieces, middleware.Delta{Reasoning: choice.ReasoningContent})
		for _, p := range extra.Parts {
			if raw, ok := p.(middleware.RawPart); ok {
				pieces = append(pieces, middleware.Delta{Raw: &raw})
			}
		}
	}
	for word := range strings.SplitAfterSeq(choice.Content, " ") {
		pieces = append(pieces, middleware.Delta{Text: word})
	}
	pieces = append(pieces, middleware.Delta{Refusal: extra.Refusal})
	for i, c := range choice.ToolCalls {
		arguments := c.FunctionCall.Arguments
		pieces = append(pieces,
			middleware.Delta{Tool: &middleware.ToolDelta{Index: i, ID: c.ID, Name: c.FunctionCall.Name}},
			middleware.Delta{Tool: &middleware.ToolDelta{Index: i, Arguments: arguments[:4]}},
			middleware.Delta{Tool: &middleware.ToolDelta{Index: i, Arguments: arguments[4:]}})
	}
	for i := range pieces {
		if err := emit(ctx, &pieces[i]); err != nil {
			return err
		}
	}
	return nil
}

// heard is the content of a conversation for the actor.
type heard struct {
	last    string // text of the user
	results []string
	images  int
	sealed  string // reasoning that came back
}

func listen(messages []llms.MessageContent) (h heard) {
	for _, m := range messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llms.TextContent:
				if m.Role == llms.ChatMessageTypeHuman {
					h.last = p.Text
				}
			case llms.ImageURLContent, llms.BinaryContent:
				h.images++
			case llms.ToolCallResponse:
				h.results = append(h.results, p.Content)
			case middleware.ResultPart:
				h.results = append(h.results, p.Content)
			case middleware.RawPart:
				raw := gjson.ParseBytes(p.Raw)
				h.sealed = raw.Get("signature").Str + raw.Get("encrypted_content").Str
			}
		}
	}
	return h
}

// result is the result of one client for one feature.
type result struct {
	Client, Feature string
	OK              bool
	Why             string
}

// vectors is an embedding model behind Ollama's API.
func vectors(t *testing.T) llms.Model {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"model":"m","embeddings":[[0.5,-1],[2,0]],"prompt_eval_count":7}`)
	}))
	t.Cleanup(server.Close)
	m, err := provider.New(provider.Options{API: middleware.DialectOllama, Model: "m", BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func serve(t *testing.T) string {
	t.Helper()
	model, err := middleware.New(middleware.Config{
		Models: []middleware.Candidate{{LLM: actor{}, Model: sdk.Model{
			Name: "small", Price: sdk.Price{Input: 1, Output: 1}, Capabilities: sdk.Capabilities{Tools: true, Images: true, JSONMode: true, JSONSchema: true, LogProbs: true, Reasoning: true},
		}}},
		Embedders: []middleware.Candidate{{LLM: vectors(t), Model: sdk.Model{Name: "vectors", Price: sdk.Price{Input: 1}}}},
		Stream:    middleware.Passthrough, Lambda: 1, Breaker: middleware.BreakerConfig{Failures: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{Model: model, Models: func() []string { return []string{"small", "vectors"} }})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	return server.URL
}

func TestClients(t *testing.T) {
	url := serve(t)
	results := slices.Concat(goClients(t, url), openAIChat(t, url), openAIResponses(t, url), anthropicMessages(t, url))
	if *all {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(cache, "stepfall", "clients")
		results = append(results, script(t, url, npm(t, cache, "clients.mjs"))...)
		results = append(results, script(t, url, python(t, cache, "PyPI", "requirements.txt", "clients.py"))...)
	}
	for _, r := range results {
		if !r.OK {
			t.Errorf("%s: %s: %s", r.Client, r.Feature, r.Why)
		}
	}
	if !*all {
		return
	}
	text := table(results)
	fmt.Print(text)
	if *update {
		write(t, text)
	}
}

// goClients tests langchaingo's client.
func goClients(t *testing.T, url string) (list []result) {
	t.Helper()
	c, err := openai.New(openai.WithBaseURL(url+"/v1"), openai.WithToken("none"), openai.WithModel("stepfall"))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(text string, options ...llms.CallOption) (*llms.ContentChoice, error) {
		resp, err := c.GenerateContent(t.Context(), []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, text)}, options...)
		if err != nil {
			return nil, err
		}
		return resp.Choices[0], nil
	}
	said := func(want string) func(*llms.ContentChoice) bool {
		return func(c *llms.ContentChoice) bool { return c.Content == want }
	}
	weather := llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "weather", Parameters: map[string]any{"type": "object"}}}})
	calls := func(c *llms.ContentChoice) bool {
		return len(c.ToolCalls) == 2 && c.ToolCalls[0].FunctionCall.Arguments == `{"city":"Paris"}` && c.ToolCalls[1].FunctionCall.Arguments == `{"city":"Rome"}`
	}
	quiet := llms.WithStreamingFunc(func(context.Context, []byte) error { return nil })
	for _, f := range []struct {
		name, prompt string
		check        func(*llms.ContentChoice) bool
		options      []llms.CallOption
	}{
		{"answer", "hello", said("Hello there."), nil},
		{"stream", "hello", said("Hello there."), []llms.CallOption{quiet}},
		{"tools", "weather in two cities", calls, []llms.CallOption{weather}},
		{"usage", "hello", func(c *llms.ContentChoice) bool { return c.GenerationInfo["PromptCachedTokens"] == 4 }, nil},
		{"reasoning", "think", func(c *llms.ContentChoice) bool { return c.ReasoningContent == "Let me think." }, nil},
	} {
		choice, err := ask(f.prompt, f.options...)
		r := result{Client: "Go langchaingo", Feature: f.name, OK: err == nil && f.check(choice)}
		if !r.OK {
			r.Why = fmt.Sprintf("%v: %+v", err, choice)
		}
		list = append(list, r)
	}
	_, err = ask("busy")
	return append(list, result{Client: "Go langchaingo", Feature: "errors", OK: err != nil && strings.Contains(err.Error(), "slow down"), Why: fmt.Sprint(err)})
}

// script runs a program that prints results; a nil command is skipped.
func script(t *testing.T, url string, cmd *exec.Cmd) (list []result) {
	t.Helper()
	if cmd == nil {
		return nil
	}
	var out, fault bytes.Buffer
	cmd.Env = append(os.Environ(), "GATEWAY_URL="+url, "AI_SDK_LOG_WARNINGS=false", "LANGSMITH_TRACING=false")
	cmd.Stdout, cmd.Stderr = &out, &fault
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v\n%s", cmd, err, &fault)
	}
	lines := bufio.NewScanner(&out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r result
		switch {
		case json.Unmarshal(lines.Bytes(), &r) == nil && r.Client != "":
			list = append(list, r)
		case strings.HasPrefix(lines.Text(), "skipped: "):
			fmt.Println(lines.Text())
		}
	}
	return list
}

// installed returns the folder of a set of packages. install fills it once, and again when something that it needs is
// missing: an upgrade of Python, for example, breaks an environment of the previous
// version.
func installed(t *testing.T, cache, kind, list, needs string, install func(dir string) error) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", list))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	dir := filepath.Join(cache, kind+"-"+hex.EncodeToString(sum[:6]))
	done := filepath.Join(dir, "installed")
	if _, err := os.Stat(done); err == nil {
		if _, err := os.Stat(filepath.Join(dir, needs)); err == nil {
			return dir
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, list), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := install(dir); err != nil {
		fmt.Printf("skipped: the clients of %s cannot be had here: %v\n", kind, err)
		return ""
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func run(t *testing.T, dir, name string, args ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("%s: %w: %s", name, err, lines[len(lines)-1])
	}
	return nil
}

func npm(t *testing.T, cache, program string) *exec.Cmd {
	t.Helper()
	dir := installed(t, cache, "npm", "package.json", "node_modules/openai", func(dir string) error {
		return run(t, dir, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	})
	if dir == "" {
		return nil
	}
	copyTo(t, dir, program)
	cmd := exec.CommandContext(t.Context(), "node", program)
	cmd.Dir = dir
	return cmd
}

func python(t *testing.T, cache, kind, list, program string, args ...string) *exec.Cmd {
	t.Helper()
	dir := installed(t, cache, kind, list, "venv/bin/python", func(dir string) error {
		if err := run(t, dir, "python3", "-m", "venv", "venv"); err != nil {
			return err
		}
		return run(t, dir, filepath.Join(dir, "venv", "bin", "pip"), "install", "-q", "--disable-pip-version-check", "-r", list)
	})
	if dir == "" {
		return nil
	}
	copyTo(t, dir, program)
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "venv", "bin", "python"), append([]string{program}, args...)...)
	cmd.Dir = dir
	return cmd
}

func copyTo(t *testing.T, dir, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// table formats results by client and feature as a Markdown table.
func table(results []result) string {
	var clients, features []string
	cells := map[[2]string]string{}
	for _, r := range results {
		if !slices.Contains(clients, r.Client) {
			clients = append(clients, r.Client)
		}
		if !slices.Contains(features, r.Feature) {
			features = append(features, r.Feature)
		}
		cells[[2]string{r.Client, r.Feature}] = map[bool]string{true: "yes", false: "**no**"}[r.OK]
	}
	var b strings.Builder
	b.WriteString("| client | " + strings.Join(features, " | ") + " |\n|" + strings.Repeat(" --- |", len(features)+1) + "\n")
	for _, c := range clients {
		b.WriteString("| " + c + " |")
		for _, f := range features {
			cell := cells[[2]string{c, f}]
			if cell == "" {
				cell = "-"
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

const (
	begins = "<!-- make clients -->\n\n"
	ends   = "\n<!-- end -->"
)

func write(t *testing.T, text string) {
	t.Helper()
	path := filepath.Join("..", "..", "..", "docs", "gateway.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(page), begins)
	_, tail, closed := strings.Cut(rest, ends)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", path)
	}
	if err := os.WriteFile(path, []byte(head+begins+text+ends+tail), 0o600); err != nil {
		t.Fatal(err)
	}
}
