package swe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/patch"
)

// Agent is the limits of the agent. The zero value is sensible.
type Agent struct {
	// MaxTurns bounds the calls of the model in one attempt; 0 means 30.
	MaxTurns int
	// MaxOutputTokens bounds one answer of the model; 0 leaves it to the model.
	MaxOutputTokens int
}

const (
	// toolTimeout bounds one command.
	toolTimeout = 2 * time.Minute
	// maxPromptBytes is the length of the conversation above which the oldest results of
	// tools are left out.
	maxPromptBytes = 200_000
)

// Charge reserves the cost of one call of a model, given the length of the prompt. The
// caller passes the result of the call to settle. An error ends the attempt.
type Charge func(promptBytes int) (settle func(*llms.ContentResponse, error) error, err error)

// Trajectory is what one attempt of the agent did.
type Trajectory struct {
	Turns int `json:"turns"`
	// Finished says that the model ended the attempt itself.
	Finished bool `json:"finished"`
	// Accepted says that the verifiers accepted the tree as soon as the model's own
	// run of the tests passed, which spares the turns after it.
	Accepted bool `json:"accepted,omitempty"`
	// Why says what ended it otherwise.
	Why string `json:"why,omitempty"`
	// ToolTime is the time in commands, ModelTime that in calls of the model.
	ToolTime  time.Duration `json:"tool_time_ns"`
	ModelTime time.Duration `json:"model_time_ns"`
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
		if a.Verdict == nil || a.Verdict.Outcome != sdk.Failed {
			continue
		}
		fmt.Fprintf(&b, "\nAn earlier attempt made this patch:\n%s\nIt was rejected:\n%s\n", shorten(a.Answer.Text, 6000), t.failure(a.Verdict.Evidence))
	}
	return b.String()
}

// maxListed is the number of files that the agent is told of.
const maxListed = 200

func listing(dir string) string {
	var b strings.Builder
	n := 0
	_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return nil
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules" || entry.Name() == "vendor"):
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

// run lets model work on the tree until it ends the attempt, the turns are used up, an error
// occurs, or accepted, which is called after each passing run of the tests, returns true.
// The attempt is what the tree holds then; an error says that the model could not be called.
func (a *Agent) run(ctx context.Context, model llms.Model, hands *tools, task string, charge Charge, accepted func(context.Context) bool) (*Trajectory, error) {
	turns := a.MaxTurns
	if turns == 0 {
		turns = 30
	}
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
		settle, err := charge(length(messages))
		if err != nil {
			t.Why = err.Error()
			return t, err
		}
		start := time.Now()
		response, err := model.GenerateContent(ctx, messages, options...)
		t.ModelTime += time.Since(start)
		if fault := settle(response, err); err == nil {
			err = fault
		}
		if err == nil && (response == nil || len(response.Choices) == 0) {
			err = errors.New("the model gave no answer")
		}
		if err != nil {
			t.Why = err.Error()
			return t, err
		}
		t.Turns++
		text, calls := joinChoices(response)
		t.Summary = text
		said := llms.MessageContent{Role: llms.ChatMessageTypeAI}
		if text != "" {
			said.Parts = append(said.Parts, llms.TextContent{Text: text})
		}
		for _, c := range calls {
			said.Parts = append(said.Parts, c)
		}
		messages = append(messages, said)
		if len(calls) == 0 {
			// A model that calls no tool may answer with search/replace blocks.
			// A whole file may be no more than a quotation here.
			for _, e := range patch.Parse(&sdk.Answer{Text: text}, "") {
				if e.Kind != patch.Replace {
					continue
				}
				if _, err := hands.edit(cmp.Or(e.Path, e.Spaced), e.Search, e.Content); err != nil {
					t.Why = err.Error()
				}
			}
			t.Finished = true
			return t, nil
		}
		for _, c := range calls {
			out, err := hands.run(ctx, c.FunctionCall.Name, c.FunctionCall.Arguments)
			t.ToolTime = hands.spent
			if err != nil {
				t.Why = err.Error()
				return t, err
			}
			messages = append(messages, llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
				llms.ToolCallResponse{ToolCallID: c.ID, Name: c.FunctionCall.Name, Content: out},
			}})
		}
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

// joinChoices returns the text and the tool calls of all choices: some providers give
// each block of one message as a choice of its own.
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

// omitOldResults empties the oldest results of tools until the conversation is short enough.
func omitOldResults(messages []llms.MessageContent) {
	over := length(messages) - maxPromptBytes
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

func length(messages []llms.MessageContent) int {
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
