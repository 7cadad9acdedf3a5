package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/stepfall/stepfall/adapters/scripted"
)

// Script returns the function with which a scripted server plays agents of three strengths: they read, edit as their
// task's file says, run the tests on hard tasks, and summarise their change. The problem statement identifies the
// task.
func (s *Suite) Script() func(context.Context, *scripted.Request) scripted.Reply {
	return func(_ context.Context, req *scripted.Request) scripted.Reply {
		t := s.taskOf(req)
		if t == nil {
			return scripted.Reply{Text: "I am a scripted model and know the bundled tasks only."}
		}
		turns := plan(t, req.Model)
		turn := req.Turns()
		if turn >= len(turns) {
			var names []string
			for _, e := range t.Edits(req.Model) {
				names = append(names, e.Path)
			}
			return scripted.Reply{Text: "I changed " + strings.Join(names, ", ") + "; the defect should be mended."}
		}
		return scripted.Reply{Text: "Let me look at this.", ToolCalls: turns[turn]}
	}
}

func (s *Suite) taskOf(req *scripted.Request) *Task {
	for i := range req.Messages {
		if req.Messages[i].Role != "user" {
			continue
		}
		for k := range s.Tasks {
			if strings.HasPrefix(req.Messages[i].Content, s.Tasks[k].Statement) {
				return &s.Tasks[k]
			}
		}
	}
	return nil
}

func plan(t *Task, model string) [][]scripted.ToolCall {
	edits := t.Edits(model)
	var turns [][]scripted.ToolCall
	seen := map[string]bool{}
	for _, e := range edits {
		if !seen[e.Path] {
			seen[e.Path] = true
			turns = append(turns, []scripted.ToolCall{call("read", map[string]any{"path": e.Path})})
		}
	}
	if t.Level > 1 && len(edits) > 0 {
		turns = append(turns, []scripted.ToolCall{call("shell", map[string]any{"command": "ls " + path.Dir(edits[0].Path)})})
	}
	var changes []scripted.ToolCall
	for _, e := range edits {
		changes = append(changes, call("edit", map[string]any{"path": e.Path, "old": e.Search, "new": e.Content}))
	}
	turns = append(turns, changes)
	if t.Level == 3 && model == "large" {
		turns = append(turns, []scripted.ToolCall{call("test", map[string]any{})})
	}
	return turns
}

func call(name string, arguments map[string]any) scripted.ToolCall {
	data, err := json.Marshal(arguments)
	if err != nil {
		// Strings and numbers always marshal.
		panic(fmt.Sprintf("marshalling the arguments of %s: %v", name, err))
	}
	return scripted.ToolCall{Name: name, Arguments: string(data)}
}
