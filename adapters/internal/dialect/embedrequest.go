package dialect

import "github.com/tidwall/gjson"

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
