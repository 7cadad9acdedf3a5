package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

type wireChoice struct {
	Index        int           `json:"index"`
	Message      *wireSpoken   `json:"message,omitempty"`
	Delta        *wireSpoken   `json:"delta,omitempty"`
	LogProbs     *wireLogBlock `json:"logprobs,omitempty"`
	FinishReason *string       `json:"finish_reason"`
}

type wireSpoken struct {
	Role      string         `json:"role,omitempty"`
	Content   string         `json:"content"`
	Reasoning string         `json:"reasoning_content,omitempty"`
	ToolCalls []wireToolCall `json:"tool_calls,omitempty"`
}

type wireLogBlock struct {
	Content []wireLogProb `json:"content"`
}

type wireUsage struct {
	PromptTokens      int            `json:"prompt_tokens"`
	CompletionTokens  int            `json:"completion_tokens"`
	TotalTokens       int            `json:"total_tokens"`
	PromptDetails     map[string]int `json:"prompt_tokens_details"`
	CompletionDetails map[string]int `json:"completion_tokens_details"`
}

type wireResponse struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []wireChoice `json:"choices"`
	Usage   *wireUsage   `json:"usage,omitempty"`
}

// send writes the reply, or what its fault makes of it.
func send(w http.ResponseWriter, r *http.Request, req *Request, reply *Reply) {
	fault := reply.Fault
	if fault.Kind == FaultStreamError && !req.Stream {
		fault = Fault{Kind: FaultStatus, Message: fault.Message}
	}
	switch fault.Kind {
	case FaultStatus:
		sendStatus(w, fault)
		return
	case FaultGarbage:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("<html>\x00\xffupstream said something else</html>"))
		return
	case FaultClose:
		// The handler's way to drop the connection without a reply.
		panic(http.ErrAbortHandler)
	case FaultHang:
		<-r.Context().Done()
		return
	}
	limit(req, reply)
	if req.Stream {
		stream(w, req, reply)
		return
	}
	body, err := json.Marshal(whole(req, reply))
	if err != nil {
		writeError(w, http.StatusInternalServerError, "server_error", err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if fault.Kind == FaultTruncate {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
}

func sendStatus(w http.ResponseWriter, f Fault) {
	status := f.Status
	if status == 0 {
		status = http.StatusInternalServerError
	}
	if f.RetryAfter > 0 {
		seconds := (f.RetryAfter + time.Second - 1) / time.Second
		w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
	}
	kind := "server_error"
	if status == http.StatusTooManyRequests {
		kind = "rate_limit_exceeded"
	}
	message := f.Message
	if message == "" {
		message = http.StatusText(status)
	}
	writeError(w, status, kind, message)
}

// limit cuts the text at the tokens that the client allows.
func limit(req *Request, reply *Reply) {
	list := tokens(reply.Text)
	if req.MaxTokens > 0 && len(list) > req.MaxTokens {
		reply.Text = strings.Join(list[:req.MaxTokens], "")
		reply.StopReason = "length"
	}
	if reply.StopReason == "" {
		reply.StopReason = "stop"
		if len(reply.ToolCalls) > 0 {
			reply.StopReason = "tool_calls"
		}
	}
}

func head(req *Request, object string) wireResponse {
	return wireResponse{ID: fmt.Sprintf("chatcmpl-%s-%d", req.Model, req.Seq), Object: object, Created: time.Now().Unix(), Model: req.Model}
}

func wireUsageOf(req *Request, reply *Reply) *wireUsage {
	u := usage(req, reply, req.N)
	return &wireUsage{
		PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: u.InputTokens + u.OutputTokens,
		PromptDetails:     map[string]int{"cached_tokens": u.CachedInputTokens},
		CompletionDetails: map[string]int{"reasoning_tokens": u.ReasoningTokens},
	}
}

func wireToolCalls(req *Request, reply *Reply) []wireToolCall {
	var list []wireToolCall
	for i, c := range reply.ToolCalls {
		id := c.ID
		if id == "" {
			id = fmt.Sprintf("call_%s_%d_%d", req.Model, req.Seq, i)
		}
		list = append(list, wireToolCall{ID: id, Type: "function", Function: wireFunctionCall{Name: c.Name, Arguments: c.Arguments}})
	}
	return list
}

// whole returns the answer to a request without streaming.
func whole(req *Request, reply *Reply) wireResponse {
	response := head(req, "chat.completion")
	for i := range req.N {
		choice := wireChoice{
			Index:        i,
			Message:      &wireSpoken{Role: "assistant", Content: reply.Text, Reasoning: reply.Reasoning, ToolCalls: wireToolCalls(req, reply)},
			FinishReason: &reply.StopReason,
		}
		if req.LogProbs {
			choice.LogProbs = &wireLogBlock{Content: logProbs(tokens(reply.Text), reply.Confidence, req.TopLogProbs)}
		}
		response.Choices = append(response.Choices, choice)
	}
	response.Usage = wireUsageOf(req, reply)
	return response
}

// stream sends the answer as server-sent events: the text token by token, the
// tool calls, the reason for stopping, the usage when wanted, and [DONE].
func stream(w http.ResponseWriter, req *Request, reply *Reply) {
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	event := func(v any) {
		data, err := json.Marshal(v)
		if err != nil {
			return
		}
		// A failed write means that the client has gone; the next one fails as well.
		_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
		_ = flusher.Flush()
	}
	chunk := func(c wireChoice) wireResponse {
		response := head(req, "chat.completion.chunk")
		response.Choices = []wireChoice{c}
		return response
	}

	list := tokens(reply.Text)
	var probs []wireLogProb
	if req.LogProbs {
		probs = logProbs(list, reply.Confidence, req.TopLogProbs)
	}
	sent := len(list)
	broken := reply.Fault.Kind == FaultTruncate || reply.Fault.Kind == FaultStreamError
	if broken {
		sent /= 2
	}
	for n := range req.N {
		if reply.Reasoning != "" {
			event(chunk(wireChoice{Index: n, Delta: &wireSpoken{Role: "assistant", Reasoning: reply.Reasoning}}))
		}
		for i := range sent {
			choice := wireChoice{Index: n, Delta: &wireSpoken{Content: list[i]}}
			if i == 0 {
				choice.Delta.Role = "assistant"
			}
			if probs != nil {
				choice.LogProbs = &wireLogBlock{Content: probs[i : i+1]}
			}
			event(chunk(choice))
		}
		if broken {
			break
		}
		for i, call := range wireToolCalls(req, reply) {
			call.Index = &i
			event(chunk(wireChoice{Index: n, Delta: &wireSpoken{Role: "assistant", ToolCalls: []wireToolCall{call}}}))
		}
		event(chunk(wireChoice{Index: n, Delta: &wireSpoken{}, FinishReason: &reply.StopReason}))
	}
	switch {
	case reply.Fault.Kind == FaultStreamError:
		message := reply.Fault.Message
		if message == "" {
			message = "the server had an error while processing your request"
		}
		event(errorObject("server_error", message))
		return
	case broken:
		return
	}
	if req.includeUsage {
		last := head(req, "chat.completion.chunk")
		last.Choices = []wireChoice{}
		last.Usage = wireUsageOf(req, reply)
		event(last)
	}
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
	_ = flusher.Flush()
}
