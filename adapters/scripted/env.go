package scripted

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// WithoutKey lets a program run without a key. Unless the environment sets OpenAI's key or base URL, it sets
// both to use a server that answers by respond, and prints a note on standard error. The returned function
// stops the server and restores the environment.
func WithoutKey(respond func(context.Context, *Request) Reply) (stop func(), err error) {
	if os.Getenv("OPENAI_API_KEY") != "" || os.Getenv("OPENAI_BASE_URL") != "" {
		return func() {}, nil
	}
	server, err := Start(Options{Respond: respond})
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "No OPENAI_API_KEY: these are scripted models.")
	if err := errors.Join(os.Setenv("OPENAI_BASE_URL", server.URL()), os.Setenv("OPENAI_API_KEY", "none")); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return func() {
		os.Unsetenv("OPENAI_BASE_URL")
		os.Unsetenv("OPENAI_API_KEY")
		server.Close()
	}, nil
}

// Weather answers like an agent with the tool weather, which asks for three cities in turn. The model
// gpt-4o-mini refuses at the first and the third city, so that the models of a cascade alternate, each with
// its own reasoning.
func Weather(_ context.Context, req *Request) Reply {
	cities := []string{"Sydney", "Hobart", "Canberra"}
	known := 0
	for _, m := range req.Messages {
		if m.Role == "tool" {
			known++
		}
	}
	switch {
	case known == len(cities):
		return Reply{Text: "It is warmest in Sydney."}
	case req.Model == "gpt-4o-mini" && known != 1:
		return Reply{Text: "I'm sorry, but I can't help with that."}
	}
	return Reply{
		Reasoning: fmt.Sprintf("%s wants to know of %s.", req.Model, cities[known]),
		ToolCalls: []ToolCall{{Name: "weather", Arguments: fmt.Sprintf(`{"city":%q}`, cities[known])}},
	}
}
