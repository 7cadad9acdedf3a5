package offline

import (
	"context"
	"fmt"

	"github.com/stepfall/stepfall/adapters/scripted"
)

// Agent is what the scripted models say to an agent with the tool weather: it asks for
// the weather of three cities, one after the other. The small model gives up at the first
// and the third, so that the models take turns, each with reasoning of its own.
func Agent(_ context.Context, req *scripted.Request) scripted.Reply {
	cities := []string{"Sydney", "Hobart", "Canberra"}
	known := 0
	for _, m := range req.Messages {
		if m.Role == "tool" {
			known++
		}
	}
	switch {
	case known == len(cities):
		return scripted.Reply{Text: "It is warmest in Sydney."}
	case req.Model == "gpt-4o-mini" && known != 1:
		return scripted.Reply{Text: "I'm sorry, but I can't help with that."}
	}
	return scripted.Reply{
		Reasoning: fmt.Sprintf("%s wants to know of %s.", req.Model, cities[known]),
		ToolCalls: []scripted.ToolCall{{Name: "weather", Arguments: fmt.Sprintf(`{"city":%q}`, cities[known])}},
	}
}
