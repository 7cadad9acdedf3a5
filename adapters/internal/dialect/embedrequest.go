package dialect

import "github.com/tidwall/gjson"

// ReadEmbedding reads a request for embeddings: which model it is for. The rest goes to that
// model as it is.
func ReadEmbedding(body gjson.Result) (a *Request, fault *Refusal) {
	a = &Request{}
	hasInput := false
	members(body, "", &fault, func(name string, f field) {
		switch name {
		case "model":
			a.Model = f.text()
		case "input":
			hasInput = true
		case "stream":
			if f.truth() {
				f.refusef("embeddings are not streamed")
			}
		}
	})
	if fault == nil && !hasInput {
		fault = Invalid("input", "input: there is none")
	}
	return a, fault
}
