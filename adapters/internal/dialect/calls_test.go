package dialect_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
)

// Results follow the turn with their calls, even if the client sends other messages between them. For a vendor that
// requires unique ids, call and result get a new one.
func TestResultsFollowCalls(t *testing.T) {
	user := llms.TextParts(llms.ChatMessageTypeHuman, "hurry")
	calls := func(ids ...string) llms.MessageContent {
		m := llms.MessageContent{Role: llms.ChatMessageTypeAI}
		for _, id := range ids {
			m.Parts = append(m.Parts, llms.ToolCall{ID: id, FunctionCall: &llms.FunctionCall{Name: "look", Arguments: "{}"}})
		}
		return m
	}
	results := func(ids ...string) llms.MessageContent {
		m := llms.MessageContent{Role: llms.ChatMessageTypeTool}
		for _, id := range ids {
			m.Parts = append(m.Parts, llms.ToolCallResponse{ToolCallID: id, Content: "of " + id[:1]})
		}
		return m
	}
	cached := func(id string) llms.MessageContent {
		return llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.CachedContent{ContentPart: calls(id).Parts[0], CacheControl: &llms.CacheControl{Type: "ephemeral"}}}}
	}
	members := middleware.RawPart{Raw: []byte(`{"members_of_part":{"novel":1}}`)}
	image := llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{middleware.ResultPart{
		ToolCallResponse: llms.ToolCallResponse{ToolCallID: "a", Content: "of a"}, Parts: []llms.ContentPart{llms.TextContent{Text: "of a"}, llms.ImageURLContent{URL: "https://a.example/a.png"}},
	}}}
	for name, tt := range map[string]struct{ given, want []llms.MessageContent }{
		"a message between":  {[]llms.MessageContent{user, calls("a"), user, results("a")}, []llms.MessageContent{user, calls("a"), results("a"), user}},
		"calls between":      {[]llms.MessageContent{calls("a"), user, calls("b"), results("a", "b")}, []llms.MessageContent{calls("a"), results("a"), user, calls("b"), results("b")}},
		"each of its own":    {[]llms.MessageContent{calls("a", "b"), results("a"), results("b"), user}, []llms.MessageContent{calls("a", "b"), results("a"), results("b"), user}},
		"an id twice":        {[]llms.MessageContent{calls("a"), results("a"), calls("a"), results("a")}, []llms.MessageContent{calls("a"), results("a"), calls("a_2"), {Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: "a_2", Content: "of a"}}}}},
		"twice in a turn":    {[]llms.MessageContent{calls("a", "a"), results("a", "a")}, []llms.MessageContent{calls("a", "a_2"), {Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{results("a").Parts[0], llms.ToolCallResponse{ToolCallID: "a_2", Content: "of a"}}}}},
		"a cached call":      {[]llms.MessageContent{calls("a"), results("a"), cached("a"), results("a")}, []llms.MessageContent{calls("a"), results("a"), cached("a_2"), {Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: "a_2", Content: "of a"}}}}},
		"no result yet":      {[]llms.MessageContent{calls("a"), user}, []llms.MessageContent{calls("a"), user}},
		"a result alone":     {[]llms.MessageContent{results("a"), calls("b"), user, results("b")}, []llms.MessageContent{results("a"), calls("b"), results("b"), user}},
		"parts of a result":  {[]llms.MessageContent{calls("a"), user, image}, []llms.MessageContent{calls("a"), image, user}},
		"members of results": {[]llms.MessageContent{calls("a"), user, {Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{members, results("a").Parts[0]}}}, []llms.MessageContent{calls("a"), {Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{members, results("a").Parts[0]}}, user}},
	} {
		before := cmp.Diff(tt.given, nil)
		limits := dialect.Limits{ResultsFollow: true, UniqueCalls: true}
		got, _ := limits.Fit(tt.given, &llms.CallOptions{}, &middleware.Params{})
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if cmp.Diff(tt.given, nil) != before {
			t.Errorf("%s: the caller's messages are others", name)
		}
	}
	long := []llms.MessageContent{{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{ID: "a", FunctionCall: &llms.FunctionCall{Name: "srv.täg"}}}}}
	named := dialect.Limits{ToolName: 15, ToolSigns: "_"}
	if got, _ := named.Fit(long, &llms.CallOptions{}, &middleware.Params{}); got[0].Parts[0].(llms.ToolCall).FunctionCall.Name != "srv_t__70aea1f8" || long[0].Parts[0].(llms.ToolCall).FunctionCall.Name != "srv.täg" {
		t.Errorf("a name of the history: %+v, given %+v", got, long)
	}
	given := []llms.MessageContent{calls("a"), user, results("a")}
	if got, _ := new(dialect.Limits).Fit(given, &llms.CallOptions{}, &middleware.Params{}); !cmp.Equal(got, given) {
		t.Errorf("without limits: %v", got)
	}
}
