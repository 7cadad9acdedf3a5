package scripted_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/middleware"
)

// A script gives the same answers in each API, whole and streamed, with the same usage and faults.
func TestEveryAPI(t *testing.T) {
	reply := scripted.Reply{Text: "I look at it.", Reasoning: "hm", ToolCalls: []scripted.ToolCall{{Name: "look", Arguments: `{"at":1}`}}, Usage: &scripted.Usage{InputTokens: 9, OutputTokens: 5}}
	server, client := startWith(t, scripted.Options{Key: "k", Respond: func(_ context.Context, req *scripted.Request) scripted.Reply {
		if req.LastUser() == "fail" {
			return scripted.Reply{Fault: scripted.Fault{Kind: scripted.FaultStatus, Status: 429, Message: "slowly"}}
		}
		if req.LastUser() != "hi" || len(req.Tools) != 1 || req.Header.Get("X-Api-Key")+req.Header.Get("Authorization") != "" {
			return scripted.Reply{Text: "asked otherwise"}
		}
		return reply
	}})
	responses, err := provider.New(provider.Options{Model: "m", APIKey: "k", API: middleware.DialectResponses, BaseURL: server.URL(), Transport: client.Transport})
	if err != nil {
		t.Fatal(err)
	}
	claude, err := provider.New(provider.Options{API: middleware.DialectAnthropic, Model: "m", APIKey: "k", BaseURL: server.URL(), Transport: client.Transport})
	if err != nil {
		t.Fatal(err)
	}
	tools := llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "look"}}})
	for name, m := range map[string]llms.Model{"Responses": responses, "Messages": claude} {
		for _, streamed := range []bool{false, true} {
			var said strings.Builder
			var ask []llms.CallOption
			if streamed {
				ask = append(ask, llms.WithStreamingFunc(func(_ context.Context, piece []byte) error { said.Write(piece); return nil }))
			}
			resp, err := m.GenerateContent(t.Context(), []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "hi")}, append(ask, tools)...)
			if err != nil {
				t.Fatalf("%s, streamed %v: %v", name, streamed, err)
			}
			c := resp.Choices[0]
			if c.Content != reply.Text || streamed && said.String() != reply.Text || len(c.ToolCalls) != 1 || c.ToolCalls[0].FunctionCall.Arguments != `{"at":1}` {
				t.Errorf("%s, streamed %v: %+v, said %q", name, streamed, c, said.String())
			}
			if u := middleware.ExtraOf(c).Usage; u.InputTokens != 9 || u.OutputTokens != 5 {
				t.Errorf("%s, streamed %v: %+v", name, streamed, u)
			}
		}
		_, err := m.GenerateContent(t.Context(), []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "fail")})
		if err == nil || !strings.Contains(err.Error(), "429") || !strings.Contains(err.Error(), "slowly") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
