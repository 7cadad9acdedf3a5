package dialect

import (
	"testing"

	"github.com/tidwall/gjson"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// Uses of hosted tools are counted if the server bills them.
func TestHostedCallsAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		read  func(*Reply) Reader
		whole string
		want  int
		found int // by searching
	}{
		"chat":      {chat{}.Reader, `{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"num_sources_used":3}}`, 3, 3},
		"messages":  {messages{}.Reader, `{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1,"server_tool_use":{"web_search_requests":2}}}`, 2, 2},
		"code":      {messages{}.Reader, `{"type":"message","content":[{"type":"server_tool_use","id":"s","name":"bash_code_execution","input":{}},{"type":"server_tool_use","id":"t","name":"web_fetch","input":{}},{"type":"text","text":"a"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`, 1, 0},
		"maps":      {gemini{}.Reader, `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP","groundingMetadata":{"groundingChunks":[{"maps":{}},{"maps":{}}]}}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1}}`, 1, 0},
		"responses": {responses{}.Reader, `{"status":"completed","output":[{"type":"web_search_call","action":{"type":"search"}},{"type":"web_search_call","action":{"type":"open_page"}},{"type":"file_search_call"},{"type":"shell_call","environment":{"type":"container_reference"}},{"type":"shell_call","environment":{"type":"local"}},{"type":"message","content":[{"type":"output_text","text":"a"}]}],"usage":{"input_tokens":1,"output_tokens":1}}`, 3, 1},
		"prompt":    {gemini{}.Reader, `{"modelVersion":"gemini-2.5-flash","candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP","groundingMetadata":{"webSearchQueries":["a","b"]}}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1}}`, 1, 1},
		"gemini":    {gemini{}.Reader, `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP","groundingMetadata":{"webSearchQueries":["a","b"]}}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1}}`, 2, 2},
	} {
		r := &Reply{Emit: func(*middleware.Delta) {}}
		if err := c.read(r).Whole([]byte(c.whole)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if u := r.Extra.Usage; u.HostedCalls != c.want || u.Searches != c.found || u.InputTokens != 1 {
			t.Errorf("%s: %+v, want %d uses and %d searches", name, u, c.want, c.found)
		}
	}
}

// Gemini reports the tier that answered, which decides the price.
func TestTierOfGemini(t *testing.T) {
	r := &Reply{Emit: func(*middleware.Delta) {}}
	err := gemini{}.Reader(r).Whole([]byte(`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"serviceTier":"FLEX"}}`))
	if err != nil || r.Extra.ServiceTier != "flex" {
		t.Errorf("tier %q, %v", r.Extra.ServiceTier, err)
	}
}

// The usage of compacting a context is added to the other usage of a call.
func TestCompactionIsCounted(t *testing.T) {
	const usage = `{"input_tokens":2000,"output_tokens":100,"iterations":[{"type":"compaction","input_tokens":60000,"cache_read_input_tokens":5,"output_tokens":3500},{"type":"message","input_tokens":2000,"output_tokens":100},{"type":0,"output_tokens":1}]}`
	want := sdk.Usage{InputTokens: 62_000, CachedInputTokens: 5, OutputTokens: 3600}
	if got := messagesUsage.read(gjson.Parse(usage)); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Reasoning that exceeds the output is not part of it, but was billed separately.
func TestReasoningBesideTheOutput(t *testing.T) {
	for usage, want := range map[string]sdk.Usage{
		`{"prompt_tokens":1,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":900}}`:                   {InputTokens: 1, OutputTokens: 2, ReasoningTokens: 900},
		`{"prompt_tokens":1,"completion_tokens":2,"total_tokens":42,"completion_tokens_details":{"reasoning_tokens":900}}`: {InputTokens: 1, OutputTokens: 2, ReasoningTokens: 900},
		`{"prompt_tokens":1,"completion_tokens":2,"total_tokens":503}`:                                                     {InputTokens: 1, OutputTokens: 2, ReasoningTokens: 500},
		`{"prompt_tokens":1,"completion_tokens":902,"completion_tokens_details":{"reasoning_tokens":900}}`:                 {InputTokens: 1, OutputTokens: 2, ReasoningTokens: 900},
	} {
		if got := chatUsage.read(gjson.Parse(usage)); got != want {
			t.Errorf("%s: %+v, want %+v", usage, got, want)
		}
	}
}

// The output count at the beginning of a stream of Messages is not the final one.
func TestUsageOfAStreamIsSaidAtItsEnd(t *testing.T) {
	const start = `{"type":"message_start","message":{"id":"a","content":[],"usage":{"input_tokens":60,"output_tokens":1,"inference_geo":"us"}}}`
	for end, want := range map[string]int{`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`: 0, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`: 9} {
		r := &Reply{Emit: func(*middleware.Delta) {}}
		read := messages{}.Reader(r)
		for _, event := range []string{start, end, `{"type":"message_stop"}`} {
			if err := read.Event([]byte(event)); err != nil {
				t.Fatal(err)
			}
		}
		if err := read.End(true); err != nil {
			t.Fatal(err)
		}
		if u := r.Extra.Usage; u.InputTokens != 60 || u.OutputTokens != want || r.Extra.Geo != "us" {
			t.Errorf("%s: %+v in %q, want %d output tokens", end, u, r.Extra.Geo, want)
		}
	}
}

// The counts of a stream are totals: a smaller count is incomplete.
func TestCountsThatFall(t *testing.T) {
	for name, c := range map[string]struct {
		client Client
		events []string
		want   sdk.Usage
	}{
		"chat": {chat{}, []string{`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":60,"completion_tokens":900}}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":60,"completion_tokens":3}}`}, sdk.Usage{InputTokens: 60, OutputTokens: 900}},
		"chat, divided at the end": {chat{}, []string{`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":60,"completion_tokens":90}}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":60,"completion_tokens":100,"prompt_tokens_details":{"cached_tokens":50},"completion_tokens_details":{"reasoning_tokens":80}}}`},
			sdk.Usage{InputTokens: 10, CachedInputTokens: 50, OutputTokens: 20, ReasoningTokens: 80}},
		"messages": {messages{}, []string{`{"type":"message_start","message":{"id":"a","content":[],"usage":{"input_tokens":60,"output_tokens":900}}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`}, sdk.Usage{InputTokens: 60, OutputTokens: 900}},
		"gemini": {gemini{}, []string{`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":60,"thoughtsTokenCount":500,"totalTokenCount":560}}`,
			`{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":60,"candidatesTokenCount":50,"totalTokenCount":110}}`},
			sdk.Usage{InputTokens: 60, OutputTokens: 50, ReasoningTokens: 500}},
	} {
		r := &Reply{Emit: func(*middleware.Delta) {}}
		read := c.client.Reader(r)
		for _, event := range c.events {
			if err := read.Event([]byte(event)); err != nil {
				t.Fatal(name, err)
			}
		}
		if err := read.End(true); err != nil || r.Extra.Usage != c.want {
			t.Errorf("%s: %+v, %v; want %+v", name, r.Extra.Usage, err, c.want)
		}
	}
}

// Audio tokens are counted separately from text tokens.
func TestAudioIsCounted(t *testing.T) {
	for answer, client := range map[string]Client{
		`{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":60,"completion_tokens":9,"prompt_tokens_details":{"audio_tokens":40}}}`:                                                                     chat{},
		`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":60,"candidatesTokenCount":9,"promptTokensDetails":[{"modality":"TEXT","tokenCount":20},{"modality":"AUDIO","tokenCount":40}]}}`: gemini{},
	} {
		r := &Reply{Emit: func(*middleware.Delta) {}}
		if err := client.Reader(r).Whole([]byte(answer)); err != nil {
			t.Fatal(err)
		}
		if r.Extra.AudioTokens != 40 || r.Extra.Usage.InputTokens != 60 {
			t.Errorf("%d of audio, %+v: %s", r.Extra.AudioTokens, r.Extra.Usage, answer)
		}
	}
}

func TestEmbeddingsWithATotalAlone(t *testing.T) {
	if got, want := EmbeddingUsage(middleware.DialectChat, []byte(`{"usage":{"total_tokens":9}}`)), (sdk.Usage{InputTokens: 9}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Usage that was reported before the rest of the answer is not the final one.
func TestUsageBeforeTheRestOfAnAnswer(t *testing.T) {
	const chatText, chatEnd = `{"choices":[{"index":0,"delta":{"content":"more"}}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	const chatFirst, chatLast = `{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":60,"completion_tokens":1}}`, `{"choices":[],"usage":{"prompt_tokens":60,"completion_tokens":9}}`
	const geminiFirst, geminiText = `{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":60,"candidatesTokenCount":1}}`, `{"candidates":[{"content":{"parts":[{"text":"more"}]},"finishReason":"STOP"}]}`
	const geminiLast = `{"candidates":[{"content":{"parts":[{"text":"more"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":60,"candidatesTokenCount":9}}`
	const chatEndUsage = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":60,"completion_tokens":9}}`
	const geminiEnd = `{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}`
	const messagesStart, messagesStop = `{"type":"message_start","message":{"id":"a","content":[],"usage":{"input_tokens":60,"output_tokens":1}}}`, `{"type":"message_stop"}`
	const messagesDelta, messagesBlock = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`
	for name, c := range map[string]struct {
		reader func(*Reply) Reader
		events []string
		want   int
	}{
		"chat, at first":          {chat{}.Reader, []string{chatFirst, chatText, chatText, chatEnd}, 0},
		"chat, at last":           {chat{}.Reader, []string{chatFirst, chatText, chatText, chatEnd, chatLast}, 9},
		"chat, in the middle":     {chat{}.Reader, []string{chatText, chatFirst, chatEnd}, 0},
		"chat, its only text":     {chat{}.Reader, []string{chatFirst, chatEnd}, 0},
		"chat, at the end":        {chat{}.Reader, []string{chatText, chatEndUsage}, 9},
		"chat, Groq's":            {chat{}.Reader, []string{chatText, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r","usage":{"prompt_tokens":60,"completion_tokens":9}}}`}, 9},
		"chat, Moonshot's":        {chat{}.Reader, []string{chatText, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":60,"completion_tokens":9}}]}`}, 9},
		"gemini, its only text":   {gemini{}.Reader, []string{geminiFirst, geminiEnd}, 0},
		"messages, in the middle": {messages{}.Reader, []string{messagesStart, messagesDelta, messagesBlock, messagesStop}, 0},
		"gemini, at first":        {gemini{}.Reader, []string{geminiFirst, geminiText}, 0},
		"gemini, each":            {gemini{}.Reader, []string{geminiFirst, geminiLast}, 9},
	} {
		r := &Reply{Emit: func(*middleware.Delta) {}}
		read := c.reader(r)
		for _, event := range c.events {
			if err := read.Event([]byte(event)); err != nil {
				t.Fatal(name, err)
			}
		}
		if err := read.End(true); err != nil || r.Extra.Usage.InputTokens != 60 || r.Extra.Usage.OutputTokens != c.want {
			t.Errorf("%s: %+v, %v; want %d output tokens", name, r.Extra.Usage, err, c.want)
		}
	}
}
