package scripted_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"
	"go.uber.org/goleak"

	"github.com/stepfall/stepfall/adapters/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a server that gives every request the same reply, and a client with its own transport, so that its idle
// connections are closed at the end of the test.
func start(t *testing.T, reply scripted.Reply) (*scripted.Server, *http.Client) {
	t.Helper()
	return startWith(t, scripted.Options{Respond: func(context.Context, *scripted.Request) scripted.Reply { return reply }})
}

func startWith(t *testing.T, o scripted.Options) (*scripted.Server, *http.Client) {
	t.Helper()
	server, err := scripted.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return server, &http.Client{Transport: transport}
}

func model(t *testing.T, server *scripted.Server, client *http.Client) *openai.LLM {
	t.Helper()
	llm, err := openai.New(openai.WithBaseURL(server.URL()), openai.WithToken("none"), openai.WithModel("small"), openai.WithHTTPClient(client))
	if err != nil {
		t.Fatal(err)
	}
	return llm
}

func post(t *testing.T, client *http.Client, url, body string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return client.Do(req)
}

var greeting = []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "hello there")}

func TestAnswersALangchaingoModel(t *testing.T) {
	server, client := startWith(t, scripted.Options{
		Models: []string{"small"},
		Respond: func(_ context.Context, req *scripted.Request) scripted.Reply {
			return scripted.Reply{Text: req.Model + " heard " + req.LastUser()}
		},
	})
	response, err := model(t, server, client).GenerateContent(t.Context(), greeting)
	if err != nil {
		t.Fatal(err)
	}
	choice := response.Choices[0]
	if choice.Content != "small heard hello there" || choice.StopReason != "stop" {
		t.Errorf("got %q, stop reason %q", choice.Content, choice.StopReason)
	}
	if got, want := choice.GenerationInfo["CompletionTokens"], scripted.CountTokens(choice.Content); got != want {
		t.Errorf("CompletionTokens = %v, want %d", got, want)
	}
	if got := choice.GenerationInfo["PromptTokens"]; got == 0 {
		t.Errorf("PromptTokens = %v", got)
	}
	if got := server.Calls("small"); got != 1 {
		t.Errorf("Calls = %d, want 1", got)
	}
}

func TestStreamsTheSameAnswer(t *testing.T) {
	const text = "one two, three:\n\tfour"
	server, client := start(t, scripted.Reply{Text: text})
	var pieces []string
	response, err := model(t, server, client).GenerateContent(t.Context(), greeting,
		llms.WithStreamingFunc(func(_ context.Context, chunk []byte) error {
			if len(chunk) > 0 {
				pieces = append(pieces, string(chunk))
			}
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(pieces, ""); got != text || len(pieces) < 4 {
		t.Errorf("streamed %q in %d pieces, want %q in several", got, len(pieces), text)
	}
	if got := response.Choices[0].Content; got != text {
		t.Errorf("content = %q, want %q", got, text)
	}
	if got, want := response.Choices[0].GenerationInfo["CompletionTokens"], scripted.CountTokens(text); got != want {
		t.Errorf("CompletionTokens = %v, want %d", got, want)
	}
}

func TestCallsTools(t *testing.T) {
	reply := scripted.Reply{ToolCalls: []scripted.ToolCall{{Name: "read", Arguments: `{"path":"a.go"}`}}}
	server, client := start(t, reply)
	tools := llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "read"}}})
	for _, mode := range []string{"whole", "streamed"} {
		t.Run(mode, func(t *testing.T) {
			options := []llms.CallOption{tools}
			if mode == "streamed" {
				options = append(options, llms.WithStreamingFunc(func(context.Context, []byte) error { return nil }))
			}
			response, err := model(t, server, client).GenerateContent(t.Context(), greeting, options...)
			if err != nil {
				t.Fatal(err)
			}
			calls := response.Choices[0].ToolCalls
			if len(calls) != 1 || calls[0].FunctionCall.Name != "read" || calls[0].FunctionCall.Arguments != `{"path":"a.go"}` || calls[0].ID == "" {
				t.Errorf("tool calls = %+v", calls)
			}
		})
	}
}

func TestRequestShowsTheConversation(t *testing.T) {
	var got *scripted.Request
	server, client := startWith(t, scripted.Options{Respond: func(_ context.Context, req *scripted.Request) scripted.Reply {
		got = req
		return scripted.Reply{Text: "ok"}
	}})
	response, err := post(t, client, server.URL(), `{"model":"m","temperature":0.5,"n":2,"max_tokens":7,"tools":[{"type":"function","function":{"name":"edit"}}],
		"response_format":{"type":"json_object"},"messages":[
		{"role":"system","content":"be brief"},
		{"role":"user","content":[{"type":"text","text":"fix"},{"type":"text","text":"it"}]},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c1","function":{"name":"edit","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"done"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if got.LastUser() != "fix\nit" || got.Turns() != 1 || got.N != 2 || got.MaxTokens != 7 || !got.JSON {
		t.Errorf("request = %+v", got)
	}
	if len(got.Tools) != 1 || got.Tools[0] != "edit" || got.Messages[2].ToolCalls[0].ID != "c1" || got.Messages[3].ToolCallID != "c1" {
		t.Errorf("request = %+v", got)
	}
}

func TestLogProbsWhenAsked(t *testing.T) {
	server, client := start(t, scripted.Reply{Text: strings.Repeat("word ", 200), Confidence: 0.5})
	var parsed struct {
		Choices []struct {
			LogProbs *struct {
				Content []struct {
					Token   string  `json:"token"`
					LogProb float64 `json:"logprob"`
					Top     []struct {
						LogProb float64 `json:"logprob"`
					} `json:"top_logprobs"`
				} `json:"content"`
			} `json:"logprobs"`
		} `json:"choices"`
	}
	ask := func(extra string) {
		t.Helper()
		parsed.Choices = nil
		response, err := post(t, client, server.URL(), `{"model":"m",`+extra+`"messages":[{"role":"user","content":"hi"}]}`)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if err := json.NewDecoder(response.Body).Decode(&parsed); err != nil {
			t.Fatal(err)
		}
	}
	ask("")
	if parsed.Choices[0].LogProbs != nil {
		t.Error("log-probabilities came unasked")
	}
	ask(`"logprobs":true,"top_logprobs":3,`)
	content := parsed.Choices[0].LogProbs.Content
	sum := 0.0
	for _, token := range content {
		total := 0.0
		for _, top := range token.Top {
			total += math.Exp(top.LogProb)
		}
		if len(token.Top) != 3 || total > 1+1e-6 || token.LogProb > 0 {
			t.Fatalf("token %+v: the top probabilities sum to %g", token, total)
		}
		sum += token.LogProb
	}
	if mean := sum / float64(len(content)); math.Abs(mean-math.Log(0.5)) > 0.1 {
		t.Errorf("mean log-probability = %g, want about %g", mean, math.Log(0.5))
	}
}

func TestStopsAtTheClientsLimit(t *testing.T) {
	server, client := start(t, scripted.Reply{Text: "a b c d e f"})
	response, err := model(t, server, client).GenerateContent(t.Context(), greeting, llms.WithMaxTokens(3))
	if err != nil {
		t.Fatal(err)
	}
	if choice := response.Choices[0]; choice.Content != "a b" || choice.StopReason != "length" {
		t.Errorf("got %q, stop reason %q", choice.Content, choice.StopReason)
	}
}

func TestFaults(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	const streamed = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	read := func(t *testing.T, reply scripted.Reply, body string) (int, http.Header, string, error) {
		t.Helper()
		server, client := start(t, reply)
		response, err := post(t, client, server.URL(), body)
		if err != nil {
			return 0, nil, "", err
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		return response.StatusCode, response.Header, string(data), err
	}
	t.Run("rate limit", func(t *testing.T) {
		status, header, text, err := read(t, scripted.Reply{Fault: scripted.Fault{Kind: scripted.FaultStatus, Status: 429, RetryAfter: 1500 * time.Millisecond}}, body)
		if err != nil || status != 429 || header.Get("Retry-After") != "2" || !strings.Contains(text, "rate_limit_exceeded") {
			t.Errorf("got %d, Retry-After %q, %q, %v", status, header.Get("Retry-After"), text, err)
		}
	})
	t.Run("server error", func(t *testing.T) {
		status, _, text, err := read(t, scripted.Reply{Fault: scripted.Fault{Kind: scripted.FaultStatus, Message: "boom"}}, body)
		if err != nil || status != 500 || !strings.Contains(text, "boom") {
			t.Errorf("got %d, %q, %v", status, text, err)
		}
	})
	t.Run("garbage", func(t *testing.T) {
		status, _, text, err := read(t, scripted.Reply{Fault: scripted.Fault{Kind: scripted.FaultGarbage}}, body)
		if err != nil || status != 200 || json.Valid([]byte(text)) {
			t.Errorf("got %d, %q, %v", status, text, err)
		}
	})
	t.Run("closed", func(t *testing.T) {
		if _, _, _, err := read(t, scripted.Reply{Fault: scripted.Fault{Kind: scripted.FaultClose}}, body); err == nil {
			t.Error("a closed connection gave an answer")
		}
	})
	t.Run("truncated", func(t *testing.T) {
		_, _, text, err := read(t, scripted.Reply{Text: "some text", Fault: scripted.Fault{Kind: scripted.FaultTruncate}}, body)
		if !errors.Is(err, io.ErrUnexpectedEOF) || text == "" {
			t.Errorf("got %q, %v, want half an answer", text, err)
		}
	})
	t.Run("truncated stream", func(t *testing.T) {
		_, _, text, err := read(t, scripted.Reply{Text: "one two three four", Fault: scripted.Fault{Kind: scripted.FaultTruncate}}, streamed)
		if err != nil || strings.Contains(text, "[DONE]") || strings.Contains(text, "four") || !strings.Contains(text, "one") {
			t.Errorf("got %q, %v, want half an answer that ends cleanly", text, err)
		}
	})
	t.Run("error within the stream", func(t *testing.T) {
		_, _, text, err := read(t, scripted.Reply{Text: "one two three four", Fault: scripted.Fault{Kind: scripted.FaultStreamError}}, streamed)
		if err != nil || strings.Contains(text, "[DONE]") || !strings.Contains(text, `"error"`) {
			t.Errorf("got %q, %v", text, err)
		}
	})
}

func TestHangEndsWithTheClientAndWithTheServer(t *testing.T) {
	server, client := start(t, scripted.Reply{Fault: scripted.Fault{Kind: scripted.FaultHang}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := model(t, server, client).GenerateContent(ctx, greeting); err == nil {
		t.Fatal("a server that hangs gave an answer")
	}
	ended := make(chan error, 1)
	started := server.Calls("small")
	go func() {
		_, err := model(t, server, client).GenerateContent(context.Background(), greeting)
		ended <- err
	}()
	for server.Calls("small") == started {
		select {
		case err := <-ended:
			t.Fatalf("the call ended before the server closed: %v", err)
		default:
		}
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("a closed server gave an answer")
	}
}

func TestRefusesWhatItDoesNotKnow(t *testing.T) {
	server, client := startWith(t, scripted.Options{Models: []string{"small"}, Key: "sesame"})
	for _, tc := range []struct {
		name, key, body string
		status          int
	}{
		{"wrong key", "x", `{"model":"small","messages":[{"role":"user","content":"hi"}]}`, 401},
		{"unknown model", "sesame", `{"model":"huge","messages":[{"role":"user","content":"hi"}]}`, 404},
		{"no messages", "sesame", `{"model":"small"}`, 400},
		{"no JSON", "sesame", `hello`, 400},
		{"content of a wrong type", "sesame", `{"model":"small","messages":[{"role":"user","content":7}]}`, 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL()+"/chat/completions", bytes.NewBufferString(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+tc.key)
			response, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != tc.status {
				t.Errorf("status %d, want %d", response.StatusCode, tc.status)
			}
		})
	}
}

func TestListsModels(t *testing.T) {
	server, client := startWith(t, scripted.Options{Models: []string{"small", "large"}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL()+"/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var names []string
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		for _, name := range []string{"small", "large"} {
			if strings.Contains(lines.Text(), `"id":"`+name+`"`) {
				names = append(names, name)
			}
		}
	}
	if strings.Join(names, " ") != "small large" {
		t.Errorf("models = %v", names)
	}
}

func TestManyAtOnce(t *testing.T) {
	server, client := start(t, scripted.Reply{Text: "fine"})
	llm := model(t, server, client)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			response, err := llm.GenerateContent(t.Context(), greeting)
			if err != nil || response.Choices[0].Content != "fine" {
				t.Errorf("got %v, %v", response, err)
			}
		})
	}
	wg.Wait()
	if got := server.Calls("small"); got != 50 {
		t.Errorf("Calls = %d, want 50", got)
	}
}
