package dialect

import (
	"encoding/json"
	"net/http"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// API is one API, from the side of its server. What it does not do is the server's: who
// asks, which model, when text appears, what it cost, what is refused.
type API interface {
	// Dialect is the API's name.
	Dialect() middleware.Dialect
	// Read decodes a request, with its header. It keeps nothing of body, which [Parse]
	// has read.
	Read(body gjson.Result, h http.Header) (*Request, *Refusal)
	// Answer writes what a client gets that does not stream.
	Answer(r *Request, a *Answer) any
	// Stream returns what writes the events of one that does.
	Stream(r *Request, out *Events) Stream
	// Error is the body of an error.
	Error(r *Refusal, requestID string) any
}

// The APIs that are served.
var (
	Chat      API = chat{}
	Messages  API = messages{}
	Responses API = responses{}
)

// Stream writes an answer in pieces. Its methods are called one after the other.
type Stream interface {
	// Delta writes a piece as it comes.
	Delta(d *middleware.Delta)
	// Finish writes what has not been written of the answer, and the end.
	Finish(a *Answer)
	// Fail ends a stream that has begun.
	Fail(r *Refusal)
}

// Events is where a stream is written to.
type Events struct {
	ID        string // what ids in the answer are made of
	RequestID string
	Created   int64 // Unix seconds
	// Write sends whole events. It keeps nothing of data.
	Write func(data []byte)

	buf []byte
}

// append sends what add appends.
func (e *Events) append(add func(buf []byte) []byte) {
	e.buf = add(e.buf[:0])
	e.Write(e.buf)
}

func (e *Events) data(v any) { e.event("", v) }

func (e *Events) event(name string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		return // our own plain structs cannot fail
	}
	e.append(func(buf []byte) []byte {
		if name != "" {
			buf = append(append(append(buf, "event: "...), name...), '\n')
		}
		return append(append(append(buf, "data: "...), data...), "\n\n"...)
	})
}

// Request is what a client asks for, in langchaingo's terms.
type Request struct {
	Model    string
	Messages []llms.MessageContent
	Options  []llms.CallOption
	Tools    []llms.Tool
	Params   middleware.Params
	Labels   map[string]string
	Stream   bool
	// Usage is set where the stream ends with what was used.
	Usage bool
	// OnItem is told of each item of an answer of Responses, by its id.
	OnItem func(id string, item json.RawMessage)

	// echo is what an answer of Responses repeats of the request, as it was written there.
	echo Object
	// showsThoughts is set where a client of Messages asked for them.
	showsThoughts bool
}

func (a *Request) add(o llms.CallOption) { a.Options = append(a.Options, o) }

// Answer is what a client is answered.
type Answer struct {
	ID      string // of the request
	Created int64  // Unix seconds
	Model   string // that answered, or that was asked for
	Choices []*llms.ContentChoice
	Usage   sdk.Usage
	// Step is the member "stepfall"; nil is none.
	Step any
}

// read reads a body: the parameters that all APIs have, and the others by param. It keeps their
// unknown members.
func (a *Request) read(body gjson.Result, known memberSet, param func(name string, f field)) (fault *Refusal) {
	members(body, "", &fault, func(name string, f field) {
		switch name {
		case "model":
			a.Model = f.text()
		case "stream":
			a.Stream = f.truth()
		default:
			param(name, f)
			a.keepUnknown(name, f, known)
		}
	})
	return fault
}

// Settle sets the origin of untagged state, from a conversation that began elsewhere: the model that
// the request is pinned to, or else any of the requested name.
func (a *Request) Settle(pinned bool) {
	a.Messages = rewrite(a.Messages, func(p llms.ContentPart) (llms.ContentPart, bool) {
		raw, ok := p.(middleware.RawPart)
		if !ok || raw.Model != Unknown {
			return p, false
		}
		if raw.Model = a.Model; pinned {
			raw.Model = ""
		}
		return raw, true
	})
}

// InputTokens estimates the tokens of a prompt, as caps count them.
func (a *Request) InputTokens() int { return middleware.EstimateTokens(a.Messages, a.Tools) }

const maxDepth = 256

// Parse reads a body. Those that are deeper than any of a client's are not looked into,
// since whatever reads them would have to go as deep.
func Parse(body []byte) (gjson.Result, *Refusal) {
	switch {
	case depth(body) > maxDepth:
		return gjson.Result{}, Invalid("", "the body is nested more than %d deep", maxDepth)
	case !gjson.ValidBytes(body):
		return gjson.Result{}, Invalid("", "the body is not JSON")
	case !utf8.Valid(body):
		return gjson.Result{}, Invalid("", "the body is not UTF-8")
	}
	root := gjson.ParseBytes(body)
	if !root.IsObject() {
		return gjson.Result{}, Invalid("", "the body is not a JSON object")
	}
	return root, nil
}

// depth returns the nesting depth of arrays and objects in a text that may be JSON.
func depth(text []byte) int {
	deep, most, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			deep++
			most = max(most, deep)
		case c == '}', c == ']':
			deep--
		}
	}
	return most
}

// ReadEmbedding reads a request for embeddings: which model it is for. The rest goes to that
// model as it is.
func ReadEmbedding(body gjson.Result) (a *Request, fault *Refusal) {
	a = &Request{}
	hasInput := false
	fault = a.read(body, memberSet{}, func(name string, _ field) { hasInput = hasInput || name == "input" })
	switch {
	case fault != nil:
	case a.Stream:
		fault = Invalid("stream", "stream: embeddings are not streamed")
	case !hasInput:
		fault = Invalid("input", "input: there is none")
	}
	return a, fault
}
