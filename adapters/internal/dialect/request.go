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

// API is the server side of one API. The server itself decides about authentication, models, the time at
// which text is shown, costs and rejections.
type API interface {
	// Dialect is the API's name.
	Dialect() middleware.Dialect
	// Read decodes a request that [Parse] has parsed, with its header. It does not retain body.
	Read(body gjson.Result, h http.Header) (*Request, *Refusal)
	// Answer returns the answer for a client that does not stream.
	Answer(r *Request, a *Answer) any
	// Stream returns the writer of the events for a client that streams.
	Stream(r *Request, out *Events) Stream
	// Error returns the body of an error response.
	Error(r *Refusal, requestID string) any
}

// The APIs that are served.
var (
	Chat      API = chat{}
	Messages  API = messages{}
	Responses API = responses{}
)

// Stream writes an answer in pieces. Its methods must not be called concurrently.
type Stream interface {
	// Delta writes a piece as it arrives.
	Delta(d *middleware.Delta)
	// Finish writes the rest of the answer and the end of the stream.
	Finish(a *Answer)
	// Fail ends a stream that has begun with an error.
	Fail(r *Refusal)
}

// Events is the output of a stream.
type Events struct {
	ID        string // from which the ids in the answer are made
	RequestID string
	Created   int64 // Unix seconds
	// Write sends complete events. It must not retain data.
	Write func(data []byte)

	buf []byte
}

// append sends the bytes that add appends.
func (e *Events) append(add func(buf []byte) []byte) {
	e.buf = add(e.buf[:0])
	e.Write(e.buf)
}

func (e *Events) data(v any) { e.event("", v) }

func (e *Events) event(name string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		return // impossible for our own plain structs
	}
	e.append(func(buf []byte) []byte {
		if name != "" {
			buf = append(append(append(buf, "event: "...), name...), '\n')
		}
		return append(append(append(buf, "data: "...), data...), "\n\n"...)
	})
}

// Request is a client's request in langchaingo's terms.
type Request struct {
	Model    string
	Messages []llms.MessageContent
	Options  []llms.CallOption
	Tools    []llms.Tool
	Params   middleware.Params
	Labels   map[string]string
	Stream   bool
	// Usage is set if the stream ends with the usage.
	Usage bool
	// OnItem is called with each item of an answer of Responses and its id.
	OnItem func(id string, item json.RawMessage)

	// echo has the members of the request that an answer of Responses repeats, as the client wrote them.
	echo Object
	// showsThoughts is set if a client of Messages requested thinking.
	showsThoughts bool
}

func (a *Request) add(o llms.CallOption) { a.Options = append(a.Options, o) }

// Answer is the answer to a client.
type Answer struct {
	ID      string // from the request
	Created int64  // Unix seconds
	Model   string // the model that answered, or the requested one
	Choices []*llms.ContentChoice
	Usage   sdk.Usage
	// Step is the value of the member "stepfall"; nil omits it.
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

// Settle sets the origin of state without a tag, from a conversation that began elsewhere. If the request is
// pinned to a model, the state belongs to that model, otherwise to any model of the requested name.
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

// InputTokens estimates the number of tokens of a prompt, as caps count it.
func (a *Request) InputTokens() int { return middleware.EstimateTokens(a.Messages, a.Tools) }

const maxDepth = 256

// Parse parses a body. It rejects bodies nested deeper than those of any client, because whatever reads them
// would have to recurse as deeply.
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

// depth returns the nesting depth of arrays and objects in a text, which need not be valid JSON.
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

// ReadEmbedding reads the model of an embeddings request. The rest of the body is sent to that model
// unchanged.
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
