package logprob

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/stepfall/stepfall/sdk"
)

// completion is what the tap reads of an answer or of one event of a stream.
type completion struct {
	Model   string `json:"model"`
	Choices []struct {
		Index        int    `json:"index"`
		FinishReason string `json:"finish_reason"`
		LogProbs     *struct {
			Content []token `json:"content"`
			Refusal []token `json:"refusal"`
		} `json:"logprobs"`
		Message delta `json:"message"`
		Delta   delta `json:"delta"`
	} `json:"choices"`
	Usage *usage `json:"usage"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type delta struct {
	ToolCalls []struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

type token struct {
	Token   string       `json:"token"`
	LogProb float64      `json:"logprob"`
	Top     []topLogProb `json:"top_logprobs"`
}

type topLogProb struct {
	Token   string  `json:"token"`
	LogProb float64 `json:"logprob"`
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	PromptDetails    struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// maxChoices bounds the index that a server may name.
const maxChoices = 128

// record adds one answer, or one event of a stream, to the capture. What is not
// JSON is left for the client to complain about.
func (c *Capture) record(data []byte) {
	var in completion
	if json.Unmarshal(data, &in) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if in.Model != "" {
		c.seen.served = in.Model
	}
	if in.Error != nil {
		c.seen.streamErr = in.Error.Message
	}
	if u := in.Usage; u != nil {
		c.seen.hasUsage = true
		c.seen.usage = sdk.Usage{
			InputTokens:       u.PromptTokens - u.PromptDetails.CachedTokens,
			CachedInputTokens: u.PromptDetails.CachedTokens,
			OutputTokens:      u.CompletionTokens - u.CompletionDetails.ReasoningTokens,
			ReasoningTokens:   u.CompletionDetails.ReasoningTokens,
		}
	}
	for _, from := range in.Choices {
		if from.Index < 0 || from.Index >= maxChoices {
			continue
		}
		for len(c.seen.choices) <= from.Index {
			c.seen.choices = append(c.seen.choices, Choice{})
		}
		to := &c.seen.choices[from.Index]
		if from.FinishReason != "" {
			to.FinishReason = from.FinishReason
		}
		if lp := from.LogProbs; lp != nil {
			to.LogProbs = appendTokens(appendTokens(to.LogProbs, lp.Content), lp.Refusal)
		}
		to.addToolCalls(from.Message)
		to.addToolCalls(from.Delta)
	}
}

func appendTokens(to []sdk.TokenLogProb, from []token) []sdk.TokenLogProb {
	for _, t := range from {
		top := make([]sdk.TopLogProb, len(t.Top))
		for i, alt := range t.Top {
			top[i] = sdk.TopLogProb(alt)
		}
		to = append(to, sdk.TokenLogProb{Token: t.Token, LogProb: t.LogProb, Top: top})
	}
	return to
}

// addToolCalls joins the pieces of tool calls by their index. A piece without
// one starts a new call.
func (c *Choice) addToolCalls(d delta) {
	for _, piece := range d.ToolCalls {
		at := len(c.ToolCalls)
		if piece.Index != nil {
			at = *piece.Index
		}
		if at < 0 || at >= maxChoices {
			continue
		}
		for len(c.ToolCalls) <= at {
			c.ToolCalls = append(c.ToolCalls, sdk.ToolCall{})
		}
		call := &c.ToolCalls[at]
		if piece.ID != "" {
			call.ID = piece.ID
		}
		call.Name += piece.Function.Name
		call.Arguments += piece.Function.Arguments
	}
}

// eventReader records the events of a stream as the client reads them.
type eventReader struct {
	body    io.ReadCloser
	capture *Capture
	line    []byte
}

// Read reads from the stream and records the events whose lines are complete.
func (r *eventReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	for data := p[:n]; len(data) > 0; {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			r.keep(data)
			break
		}
		r.keep(data[:end])
		r.event()
		data = data[end+1:]
	}
	if err != nil {
		r.event() // the last line may lack its newline
	}
	return n, err
}

// keep holds a piece of a line, up to a bound: a longer line is not recorded.
func (r *eventReader) keep(piece []byte) {
	if len(r.line)+len(piece) <= maxBody {
		r.line = append(r.line, piece...)
	}
}

// event records the line that is complete and starts the next.
func (r *eventReader) event() {
	data, ok := bytes.CutPrefix(r.line, []byte("data:"))
	r.line = r.line[:0]
	if !ok {
		return
	}
	data = bytes.TrimSpace(data)
	if bytes.Equal(data, []byte("[DONE]")) {
		r.capture.mu.Lock()
		r.capture.seen.done = true
		r.capture.mu.Unlock()
		return
	}
	r.capture.record(data)
}

// Close closes the stream.
func (r *eventReader) Close() error { return r.body.Close() }
