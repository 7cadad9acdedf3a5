package agents

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/middleware"
)

// A Model is a scripted model. Its behaviour in a step depends on the step only, so that it answers the same question
// in the same way.
type Model struct {
	Served, Maker string
	// Skill is how many standard deviations of difficulty it stands above a step of each
	// kind: look, pick, act, write, answer.
	Skill [kinds]float64
	// Seconds is how long an answer takes to begin, PerToken how long each token does.
	Seconds, PerToken float64
}

// Models are the scripted models: a small and a large one from each of three makers. Their resulting error rates are
// in the table of the bench.
var Models = []Model{
	{"gpt-4.1-mini", "openai", [kinds]float64{2.1, 1.6, 1.3, 1.2, 1.8}, 0.5, 0.012},
	{"gpt-4.1", "openai", [kinds]float64{2.8, 2.3, 2.0, 2.0, 2.5}, 0.7, 0.016},
	{"mistral-small-latest", "mistral", [kinds]float64{2.0, 1.5, 1.2, 1.1, 1.7}, 0.4, 0.008},
	{"mistral-large-latest", "mistral", [kinds]float64{2.6, 2.0, 1.7, 1.7, 2.2}, 0.8, 0.020},
	{"claude-haiku-4-5", "anthropic", [kinds]float64{2.4, 1.9, 1.6, 1.5, 2.2}, 0.6, 0.010},
	{"claude-sonnet-4-5", "anthropic", [kinds]float64{3.0, 2.4, 2.1, 2.1, 2.6}, 0.9, 0.018},
}

// The components of difficulty: the shares of its variance that the steps of a task share, that all models share in a
// step, that the models of one maker share in it, and that belong to a single model.
const (
	ofTask, ofStep, ofMaker = 0.25, 0.30, 0.20
	ofModel                 = 1 - ofTask - ofStep - ofMaker
)

const (
	// lure is the share of the steps in which all who err are taken in by the same wrong
	// move. In the others each maker errs in a way of its own.
	lure = 0.4
	// inOneVoice is the share of the steps with several right moves in which all take
	// the same one; in the others each maker has a way of its own.
	inOneVoice = 0.4
	// A judging model finds a right step right, and a wrong one wrong, so often, each time
	// that it is asked.
	judgesRight, judgesWrong = 0.93, 0.6
	// charsPerToken is how long a token is, about.
	charsPerToken = 4
)

// errs reports whether the model errs in a step of a task.
func (m *Model) errs(task string, step *Step) bool {
	at := fmt.Sprintf("%s/%s/%d", task, step.Name, step.Tries)
	hard := math.Sqrt(ofTask)*normal(task) + math.Sqrt(ofStep)*normal(at) +
		math.Sqrt(ofMaker)*normal(at+m.Maker) + math.Sqrt(ofModel)*normal(at+m.Served)
	return hard > m.Skill[step.Kind]
}

// move returns the model's move in a step, and whether it is right.
func (m *Model) move(task string, step *Step) (Move, bool) {
	at := fmt.Sprintf("%s/%s/%d", task, step.Name, step.Tries)
	from, together, right := step.Right, inOneVoice, true
	if m.errs(task, step) {
		from, together, right = step.Wrong, lure, false
	}
	if uniform(at+"same") < together {
		return from[0], right
	}
	return from[int(uniform(at+"own"+m.Maker)*float64(len(from)))], right
}

// uniform returns a number in [0, 1) that depends only on the key, normal a standard normal one.
func uniform(key string) float64 { return source(key).Float64() }
func normal(key string) float64  { return source(key).NormFloat64() }

func source(key string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(key))
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}

// A Cast is the set of scripted models on one road: it answers for all of them, and records whether each answer was
// right.
type Cast struct {
	models []Model
	tasks  map[string]*Task
	// salt tells casts apart that err in other steps.
	salt string
	mu   sync.Mutex
	// said has, by task and answer, whether it was right when it was last given.
	said map[string]bool
}

// NewCast returns models that know the tasks of the agents.
func NewCast(agents ...*Agent) *Cast {
	c := &Cast{models: Models, tasks: map[string]*Task{}, said: map[string]bool{}}
	for _, a := range agents {
		for _, t := range a.Tasks {
			c.tasks[t.ID] = t
		}
	}
	return c
}

// Respond answers a request as the model that it names.
func (c *Cast) Respond(_ context.Context, req *scripted.Request) scripted.Reply {
	s := &Conversation{}
	for _, message := range req.Messages {
		for _, call := range message.ToolCalls {
			s.Calls = append(s.Calls, Call{call.Name, call.Arguments})
		}
		if message.Role == "tool" {
			s.Results = append(s.Results, message.Content)
		}
	}
	return c.reply(req.Model, req.Text(), len(req.Tools) > 0, s)
}

// reply returns a model's answer in a conversation, given its text, with tools or as a judge.
func (c *Cast) reply(served, text string, tools bool, s *Conversation) scripted.Reply {
	at := slices.IndexFunc(c.models, func(m Model) bool { return m.Served == served })
	_, rest, _ := strings.Cut(text, "[")
	id, _, _ := strings.Cut(rest, "]")
	task := c.tasks[id]
	if at < 0 || task == nil {
		return scripted.Reply{Fault: scripted.Fault{Kind: scripted.FaultStatus, Status: 404}}
	}
	m := &c.models[at]
	if !tools {
		return c.judge(m, id, text)
	}
	task.Solve(s)
	move, right := m.move(c.salt+id, &s.Next)
	sure := 0.95 + 0.03*normal(id+move.Call.Name+move.Call.Arguments+move.Text+m.Served)
	if !right {
		sure -= 0.05
	}
	reply := scripted.Reply{Text: move.Text, Confidence: min(max(sure, 0.6), 0.995)}
	if move.Call.Name != "" {
		reply.ToolCalls = []scripted.ToolCall{{ID: fmt.Sprintf("call%d", len(s.Calls)), Name: move.Call.Name, Arguments: m.spelling(move.Call.Arguments)}}
	}
	c.record(id, saidBy(reply), right)
	return reply
}

// open returns an in-process client of a model, since HTTP takes half the time of a step.
func (c *Cast) open(config middleware.ClientConfig) (llms.Model, error) {
	return castModel{c, config.Model}, nil
}

// castModel is one model of a cast.
type castModel struct {
	cast   *Cast
	served string
}

// GenerateContent answers as the model that [Cast.Respond] answers for over HTTP.
func (m castModel) GenerateContent(_ context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	var text strings.Builder
	s := &Conversation{}
	for _, message := range messages {
		for _, part := range message.Parts {
			switch part := part.(type) {
			case llms.TextContent:
				text.WriteString(part.Text + "\n")
			case llms.ToolCall:
				s.Calls = append(s.Calls, Call{part.FunctionCall.Name, part.FunctionCall.Arguments})
				text.WriteString(part.FunctionCall.Name + part.FunctionCall.Arguments + "\n")
			case llms.ToolCallResponse:
				s.Results = append(s.Results, part.Content)
				text.WriteString(part.Content + "\n")
			}
		}
	}
	var o llms.CallOptions
	for _, option := range options {
		option(&o)
	}
	reply := m.cast.reply(m.served, text.String(), len(o.Tools) > 0, s)
	if reply.Fault.Kind != 0 {
		return nil, fmt.Errorf("%s: %d", m.served, reply.Fault.Status)
	}
	choice := &llms.ContentChoice{Content: reply.Text, StopReason: "stop", GenerationInfo: map[string]any{
		"PromptTokens": text.Len() / charsPerToken, "CompletionTokens": 1 + len(saidBy(reply))/charsPerToken,
	}}
	for _, call := range reply.ToolCalls {
		choice.StopReason = "tool_calls"
		choice.ToolCalls = append(choice.ToolCalls, llms.ToolCall{ID: call.ID, Type: "function", FunctionCall: &llms.FunctionCall{Name: call.Name, Arguments: call.Arguments}})
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{choice}}, nil
}

// Call implements llms.Model; no road uses it.
func (m castModel) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}

// saidBy returns an answer in the form in which a judge sees it.
func saidBy(r scripted.Reply) string {
	if len(r.ToolCalls) == 0 {
		return r.Text
	}
	return asJudged(r.ToolCalls[0].Name, r.ToolCalls[0].Arguments)
}

func asJudged(name, arguments string) string { return "calls " + name + " " + arguments }

// spelling formats arguments as the model's maker does: as they are, or with spaces.
func (m *Model) spelling(arguments string) string {
	if m.Maker == "mistral" && strings.HasPrefix(arguments, `{"`) {
		return `{ "` + strings.TrimPrefix(arguments, `{"`)
	}
	return arguments
}

func (c *Cast) record(id, answer string, right bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said[id+"\n"+answer] = right
}

// judge answers like a judging model that is asked whether an answer is acceptable, with the options in either order.
func (c *Cast) judge(m *Model, id, text string) scripted.Reply {
	_, answer, _ := strings.Cut(text, "The answer that it gave:\n")
	mark, answer, _ := strings.Cut(answer, "\n")
	answer, asked, _ := strings.Cut(answer, "\n"+mark)
	answer = strings.TrimSpace(answer)
	acceptableIsA := strings.Contains(asked, "A: The answer is acceptable")
	chance := judgesRight
	if !c.known(id, answer) {
		chance = 1 - judgesWrong
	}
	if acceptableIsA == (uniform(fmt.Sprint(id, answer, m.Served, acceptableIsA)) < chance) {
		return scripted.Reply{Text: "A"}
	}
	return scripted.Reply{Text: "B"}
}

// known reports whether an answer was right when it was last given.
func (c *Cast) known(id, answer string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said[id+"\n"+answer]
}

// Latency returns how long a model takes for an answer of this many tokens.
func Latency(served string, tokens int) time.Duration {
	for _, m := range Models {
		if m.Served == served {
			return time.Duration((m.Seconds + m.PerToken*float64(tokens)) * float64(time.Second))
		}
	}
	return 0
}
