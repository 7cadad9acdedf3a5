package swe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
)

// Agent holds the limits of one attempt of the agent. The zero value is usable.
type Agent struct {
	// MaxTurns bounds the model calls of one attempt; 0 means 30.
	MaxTurns int
	// MaxOutputTokens bounds one answer of the model; 0 sets no bound.
	MaxOutputTokens int
}

const (
	toolTimeout = 2 * time.Minute
	// maxPromptBytes is the conversation length above which the oldest tool results are omitted.
	maxPromptBytes = 200_000
)

// Charge reserves the worst-case cost of one model call, given the length of the prompt. The caller passes the
// outcome of the call to settle. An error ends the attempt.
type Charge func(promptBytes int) (settle func(*llms.ContentResponse, error) error, err error)

// Trajectory records one attempt of the agent.
type Trajectory struct {
	Turns int `json:"turns"`
	// Finished reports that the model ended the attempt itself.
	Finished bool `json:"finished"`
	// Accepted reports that the attempt ended early: the model's own test run passed, and the verifiers then accepted
	// the tree.
	Accepted bool `json:"accepted,omitempty"`
	// Why is the reason for any other end, or the last error in applying the edits of the final answer.
	Why string `json:"why,omitempty"`
	// ToolTime is spent in commands, ModelTime in model calls.
	ToolTime  time.Duration `json:"tool_time_ns"`
	ModelTime time.Duration `json:"model_time_ns"`
	// LeftOut lists changed files that no patch can hold; see [Checkout.Diff].
	LeftOut []string `json:"left_out,omitempty"`
	// Summary is the model's last text.
	Summary string `json:"summary,omitempty"`
}

const system = `You are a careful software engineer. You mend a defect in the repository in the
current folder, with the tools you are given.

Read before you edit. Make the smallest change that mends the defect; leave tests as
they are unless the task says otherwise. Run the tests when you are done. End with a
sentence that says what you changed, and no tool call.`

func prompt(t *Task, dir string, earlier []sdk.Attempt) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nFiles:\n%s", strings.TrimSpace(t.ProblemStatement), listing(dir))
	if len(t.FailToPass) > 0 && t.TestPatch == "" {
		fmt.Fprintf(&b, "\nThese tests must pass: %s\n", strings.Join(t.FailToPass, ", "))
	}
	for _, a := range earlier {
		if a.Verdict != nil && a.Verdict.Outcome == sdk.Failed {
			fmt.Fprintf(&b, "\nAn earlier attempt made this patch:\n%s\nIt was rejected:\n%s\n", shorten(a.Answer.Text, 6000), t.failure(a.Verdict.Evidence))
		}
	}
	return b.String()
}

// maxListed bounds the list of files in the prompt.
const maxListed = 200

func listing(dir string) string {
	var b strings.Builder
	n := 0
	_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return nil
		case entry.IsDir() && slices.Contains([]string{".git", "node_modules", "vendor"}, entry.Name()):
			return filepath.SkipDir
		case entry.IsDir() || rel == ".git":
			return nil
		}
		if n++; n <= maxListed {
			b.WriteString(filepath.ToSlash(rel) + "\n")
		}
		return nil
	})
	if n > maxListed {
		fmt.Fprintf(&b, "... and %d more\n", n-maxListed)
	}
	return b.String()
}

// run drives model on the tree until it ends the attempt, the turns are used up, an error occurs, or accepted returns
// true. accepted is called after each passing test run. The caller reads the result from the tree; an error means
// that the model or a tool could not be called.
func (a *Agent) run(ctx context.Context, model llms.Model, hands *tools, task string, charge Charge, accepted func(context.Context) bool) (*Trajectory, error) {
	turns := cmp.Or(a.MaxTurns, 30)
	messages := []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeSystem, system),
		llms.TextParts(llms.ChatMessageTypeHuman, task),
	}
	options := []llms.CallOption{llms.WithTools(definitions())}
	if a.MaxOutputTokens > 0 {
		options = append(options, llms.WithMaxTokens(a.MaxOutputTokens))
	}
	t := &Trajectory{}
	repeats := repeats{}
	for t.Turns < turns {
		omitOldResults(messages)
		response, err := t.ask(ctx, model, messages, options, charge)
		if err != nil {
			t.Why = err.Error()
			return t, err
		}
		t.Turns++
		text, calls := joinChoices(response)
		t.Summary = text
		if len(calls) == 0 {
			t.Finished, t.Why = true, hands.applyBlocks(text)
			return t, nil
		}
		results, err := hands.runCalls(ctx, calls)
		t.ToolTime = hands.spent
		if err != nil {
			t.Why = err.Error()
			return t, err
		}
		messages = append(append(messages, answerMessage(text, calls)), results...)
		if hands.passing && accepted(ctx) {
			t.Finished, t.Accepted = true, true
			return t, nil
		}
		if repeats.isLoop(calls, messages) {
			t.Why = fmt.Sprintf("stopped: the same call with the same result %d times", maxRepeats)
			return t, nil
		}
	}
	t.Why = fmt.Sprintf("stopped after %d turns", turns)
	return t, nil
}

// ask calls the model after charge has reserved the cost.
func (t *Trajectory) ask(ctx context.Context, model llms.Model, messages []llms.MessageContent, options []llms.CallOption, charge Charge) (*llms.ContentResponse, error) {
	settle, err := charge(conversationBytes(messages))
	if err != nil {
		return nil, err
	}
	start := time.Now()
	response, err := model.GenerateContent(ctx, messages, options...)
	t.ModelTime += time.Since(start)
	err = cmp.Or(err, settle(response, err))
	if err == nil && (response == nil || len(response.Choices) == 0) {
		err = errors.New("the model gave no answer")
	}
	return response, err
}

func answerMessage(text string, calls []llms.ToolCall) llms.MessageContent {
	said := llms.MessageContent{Role: llms.ChatMessageTypeAI}
	if text != "" {
		said.Parts = append(said.Parts, llms.TextContent{Text: text})
	}
	for _, c := range calls {
		said.Parts = append(said.Parts, c)
	}
	return said
}

// joinChoices returns the text and the tool calls of all choices: some providers return each block of one message as
// a separate choice.
func joinChoices(r *llms.ContentResponse) (string, []llms.ToolCall) {
	var texts []string
	var calls []llms.ToolCall
	for _, c := range r.Choices {
		if c.Content != "" {
			texts = append(texts, c.Content)
		}
		for _, call := range c.ToolCalls {
			if call.FunctionCall != nil {
				call.Type = "function"
				calls = append(calls, call)
			}
		}
	}
	return strings.Join(texts, "\n"), calls
}

// omitOldResults replaces the oldest tool results until the conversation is short enough.
func omitOldResults(messages []llms.MessageContent) {
	over := conversationBytes(messages) - maxPromptBytes
	for i := range messages {
		if over <= 0 || messages[i].Role != llms.ChatMessageTypeTool {
			continue
		}
		result, ok := messages[i].Parts[0].(llms.ToolCallResponse)
		const gone = "(left out: the conversation is too long)"
		if !ok || len(result.Content) <= len(gone) {
			continue
		}
		over -= len(result.Content) - len(gone)
		result.Content = gone
		messages[i].Parts = []llms.ContentPart{result}
	}
}

func conversationBytes(messages []llms.MessageContent) int {
	n := 0
	for _, m := range messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llms.TextContent:
				n += len(p.Text)
			case llms.ToolCall:
				n += len(p.FunctionCall.Name) + len(p.FunctionCall.Arguments)
			case llms.ToolCallResponse:
				n += len(p.Content)
			}
		}
	}
	return n
}
