package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// An Agent is a program with tools, and the tasks that it is tested on.
type Agent struct {
	Name string
	// System is its system prompt, Tools what it may call.
	System string
	Tools  []llms.Tool
	Tasks  []*Task
}

// A Task is one thing to do, with computed ground truth.
type Task struct {
	// ID begins the prompt, in brackets.
	ID, Prompt string
	// Open returns a world of the task's own, as it is before anything was done.
	Open func() World
	// Solve says, of a conversation so far, what somebody who makes no mistake does next.
	Solve func(s *Conversation)
}

// A World is what an agent acts on.
type World interface {
	// Do runs a tool and returns what the agent reads of it. What begins with "error:"
	// changed nothing.
	Do(ctx context.Context, call Call) (string, error)
	// Right reports whether the task is done and the last answer is right.
	Right(answer string) bool
}

// A Call is a call of a tool; Arguments is JSON.
type Call struct{ Name, Arguments string }

// MaxTurns is how often an agent asks its model before it gives up.
const MaxTurns = 12

// Run does a task with a model and returns whether the result was right. An error is one of the model's.
func (a *Agent) Run(ctx context.Context, model llms.Model, t *Task) (right bool, err error) {
	world := t.Open()
	messages := []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeSystem, a.System),
		llms.TextParts(llms.ChatMessageTypeHuman, t.Prompt),
	}
	for range MaxTurns {
		resp, err := model.GenerateContent(ctx, messages, llms.WithTools(a.Tools))
		if err != nil {
			return false, err
		}
		choice := resp.Choices[0]
		if len(choice.ToolCalls) == 0 {
			return world.Right(choice.Content), nil
		}
		said := llms.MessageContent{Role: llms.ChatMessageTypeAI}
		if choice.Content != "" {
			said.Parts = append(said.Parts, llms.TextContent{Text: choice.Content})
		}
		var results []llms.MessageContent
		for _, c := range choice.ToolCalls {
			said.Parts = append(said.Parts, c)
			result, err := world.Do(ctx, Call{c.FunctionCall.Name, c.FunctionCall.Arguments})
			if err != nil {
				return false, err
			}
			results = append(results, llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
				llms.ToolCallResponse{ToolCallID: c.ID, Name: c.FunctionCall.Name, Content: result},
			}})
		}
		messages = append(append(messages, said), results...)
	}
	return false, nil
}

// tool describes a tool. Parameters are written as "name: description", integers and numbers with that word in front,
// as in "amount number: US dollars". All are required.
func tool(name, description string, parameters ...string) llms.Tool {
	properties, required := map[string]any{}, []string{}
	for _, p := range parameters {
		head, about, _ := strings.Cut(p, ": ")
		field, kind, found := strings.Cut(head, " ")
		if !found {
			kind = "string"
		}
		properties[field] = map[string]any{"type": kind, "description": about}
		required = append(required, field)
	}
	return llms.Tool{Type: "function", Function: &llms.FunctionDefinition{
		Name: name, Description: description,
		Parameters: map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false},
	}}
}

// args are the arguments of a call.
type args map[string]any

// call returns the call of a tool.
func call(name string, a args) Call {
	data, err := json.Marshal(a)
	if err != nil {
		panic(err) // only what JSON has is passed
	}
	return Call{name, string(data)}
}

// arguments decodes the arguments strictly into a struct.
func (c Call) arguments(to any) error {
	d := json.NewDecoder(strings.NewReader(c.Arguments))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("error: the arguments of %s: %w", c.Name, err)
	}
	return nil
}

// Kind is a kind of step: how often a model errs in it differs by kind.
type Kind int

// The kinds of step.
const (
	Look   Kind = iota // find or read something by a name that the prompt has
	Pick               // choose among what was read
	Act                // change something, with amounts that have to be worked out
	Write              // write a query, a command or a file
	Answer             // say what came of it
	kinds
)

func (k Kind) String() string { return [...]string{"look", "pick", "act", "write", "answer"}[k] }

// A Move is a model's action in one step: it calls a tool, or says Text.
type Move struct {
	Call Call
	Text string
}

// A Step is the next thing to do in a conversation.
type Step struct {
	Kind Kind
	// Name tells the steps of a task apart; with Tries, how often it was tried in vain
	// before, it tells what befalls a model here.
	Name  string
	Tries int
	// Right are equally good moves, Wrong what models do that err.
	Right, Wrong []Move
}

// A Conversation is what has been said on a task: calls and their results.
type Conversation struct {
	Calls   []Call
	Results []string
	// Next is what is to be done next, once Solve has found it.
	Next Step
	used int
}

// do asks for a step and returns its result if it was done, by a right move or a wrong one: models continue from what
// they read. Otherwise it is the next thing to do, and everything after it is not.
func (s *Conversation) do(step Step) (result string, done bool) {
	if s.Next.Name != "" {
		return "", false
	}
	for ; s.used < len(s.Calls); s.used++ {
		if !strings.HasPrefix(s.Results[s.used], "error:") {
			s.used++
			return s.Results[s.used-1], true
		}
		step.Tries++
	}
	s.Next = step
	return "", false
}

// calls returns moves that call one tool with different arguments.
func calls(name string, list ...args) []Move {
	moves := make([]Move, len(list))
	for i, a := range list {
		moves[i] = Move{Call: call(name, a)}
	}
	return moves
}

// texts makes moves of texts.
func texts(list ...string) []Move {
	moves := make([]Move, len(list))
	for i, t := range list {
		moves[i] = Move{Text: t}
	}
	return moves
}

// pick returns one of a list.
func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// decode decodes JSON that a tool returned. Invalid JSON leaves the zero value, as a model learns nothing from
// nonsense.
func decode[T any](text string) (value T) {
	_ = json.Unmarshal([]byte(text), &value)
	return value
}
