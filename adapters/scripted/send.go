package scripted

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

type exchange struct {
	w   http.ResponseWriter
	r   *http.Request
	api dialect.API
}

func (x *exchange) send(req *Request, reply *Reply) {
	fault := reply.Fault
	if fault.Kind == FaultStreamError && !req.Stream {
		fault = Fault{Kind: FaultStatus, Message: fault.Message}
	}
	switch fault.Kind {
	case FaultStatus:
		status := cmp.Or(fault.Status, http.StatusInternalServerError)
		if fault.RetryAfter > 0 {
			seconds := (fault.RetryAfter + time.Second - 1) / time.Second
			x.w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
		}
		kind := "server_error"
		if status == http.StatusTooManyRequests {
			kind = "rate_limit_exceeded"
		}
		x.refuse(status, kind, cmp.Or(fault.Message, http.StatusText(status)))
		return
	case FaultGarbage:
		x.w.Header().Set("Content-Type", "application/json")
		_, _ = x.w.Write([]byte("<html>\x00\xffupstream said something else</html>"))
		return
	case FaultClose:
		// This makes net/http drop the connection without a response.
		panic(http.ErrAbortHandler)
	case FaultHang:
		<-x.r.Context().Done()
		return
	}
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
	if req.Stream {
		x.stream(req, reply)
		return
	}
	body, err := json.Marshal(x.api.Answer(req.in, answer(req, reply)))
	if err != nil {
		x.refuse(http.StatusInternalServerError, "server_error", err.Error())
		return
	}
	x.w.Header().Set("Content-Type", "application/json")
	if fault.Kind == FaultTruncate {
		x.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = x.w.Write(body[:len(body)/2])
		_ = http.NewResponseController(x.w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = x.w.Write(body)
}

func (x *exchange) refuse(status int, code, message string) {
	writeJSON(x.w, status, x.api.Error(&dialect.Refusal{Status: status, Code: code, Message: message}, ""))
}

func answerID(req *Request) string { return fmt.Sprintf("%s-%d", req.Model, req.Seq) }

func answer(req *Request, reply *Reply) *dialect.Answer {
	u := usage(req, reply, req.N)
	a := &dialect.Answer{ID: answerID(req), Created: time.Now().Unix(), Model: req.Model, Usage: sdk.Usage{
		InputTokens: u.InputTokens - u.CachedInputTokens, CachedInputTokens: u.CachedInputTokens,
		OutputTokens: u.OutputTokens - u.ReasoningTokens, ReasoningTokens: u.ReasoningTokens,
	}}
	x := &middleware.Extra{}
	if req.LogProbs {
		x.LogProbs = logProbs(tokens(reply.Text), reply.Confidence, req.TopLogProbs)
	}
	for range req.N {
		choice := &llms.ContentChoice{Content: reply.Text, ReasoningContent: reply.Reasoning, StopReason: reply.StopReason, GenerationInfo: map[string]any{middleware.KeyExtra: x}}
		for i, c := range reply.ToolCalls {
			choice.ToolCalls = append(choice.ToolCalls, llms.ToolCall{ID: cmp.Or(c.ID, fmt.Sprintf("call_%s_%d", answerID(req), i)), Type: "function",
				FunctionCall: &llms.FunctionCall{Name: c.Name, Arguments: c.Arguments}})
		}
		a.Choices = append(a.Choices, choice)
	}
	return a
}

// stream sends the answer as server-sent events: the text token by token, then the tool calls, the stop reason,
// and the usage if requested.
func (x *exchange) stream(req *Request, reply *Reply) {
	x.w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(x.w)
	whole := answer(req, reply)
	to := x.api.Stream(req.in, &dialect.Events{ID: whole.ID, Created: whole.Created, Write: func(data []byte) {
		// A write fails if the client has disconnected; the next one then fails too.
		_, _ = x.w.Write(data)
		_ = flusher.Flush()
	}})
	list := tokens(reply.Text)
	probs := logProbs(list, reply.Confidence, req.TopLogProbs)
	broken := reply.Fault.Kind == FaultTruncate || reply.Fault.Kind == FaultStreamError
	if broken {
		list = list[:len(list)/2]
	}
	for n := range req.N {
		to.Delta(&middleware.Delta{Choice: n, Reasoning: reply.Reasoning})
		for i := range list {
			d := &middleware.Delta{Choice: n, Text: list[i]}
			if req.LogProbs {
				d.LogProbs = probs[i : i+1]
			}
			to.Delta(d)
		}
		if broken {
			break
		}
	}
	switch {
	case reply.Fault.Kind == FaultStreamError:
		to.Fail(&dialect.Refusal{Status: http.StatusInternalServerError, Code: "server_error", Message: cmp.Or(reply.Fault.Message, "the server had an error while processing your request")})
	case !broken:
		to.Finish(whole)
	}
}
