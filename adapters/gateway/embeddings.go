package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/stepfall/stepfall/middleware"
)

// Embedder is an Options.Model that turns texts into vectors as well, as a
// *router.Router or a *middleware.Model does: by the model that is named, with a request
// and a response in OpenAI's form. The response's model is the one that was named.
type Embedder interface {
	Embed(ctx context.Context, model string, request json.RawMessage) (json.RawMessage, error)
}

// embeddings passes a request on to the model that it names. Nothing is decided: no two
// models give the same vectors.
func (g *Gateway) embeddings(x *exchange) *Refusal {
	var request json.RawMessage
	a := &ask{}
	if refused := x.body(func(body []byte) *Refusal {
		root, refused := parse(body)
		if refused != nil {
			return refused
		}
		request = slices.Clone(body) // the buffer serves the next request
		return a.embedding(root)
	}); refused != nil {
		return refused
	}
	if a.model != "" { // the policy's choice is none here
		x.Model = a.model
	}
	if refused := g.choose(x, a); refused != nil {
		return refused
	}
	embedder, ok := g.o.Model.(Embedder)
	if !ok {
		return invalid("model", "no model here makes embeddings")
	}
	ctx, report := middleware.WithReport(g.info(x, a, isRetry(x.r.Header)))
	response, err := embedder.Embed(ctx, a.model, request)
	x.Steps = report.Steps()
	x.describe()
	if err != nil {
		r := failure(ctx, err)
		if len(x.Steps) == 0 && r.Status == http.StatusBadRequest { // nobody was asked
			r.Param = "model"
		}
		return r
	}
	x.send(http.StatusOK, response)
	return nil
}

// embedding checks a request for embeddings. Fields that it does not know go on as they are.
func (a *ask) embedding(body gjson.Result) (fault *Refusal) {
	given := false
	members(body, "", &fault, func(name string, f field) {
		switch name {
		case "model":
			a.model = f.text()
		case "input":
			given = true
			f.texts()
		case "encoding_format":
			if kind := f.text(); kind != "float" && kind != "base64" {
				f.refusef("is %q: want float or base64", kind)
			}
		case "dimensions":
			f.positive()
		case "user":
			f.text()
		case "stream":
			if f.truth() {
				f.refusef("embeddings are not streamed")
			}
		}
	})
	if fault == nil && !given {
		fault = invalid("input", "input: there is none")
	}
	return fault
}

// texts checks what is to be embedded: a text, or a list of texts, of tokens, or of lists
// of tokens.
func (f field) texts() {
	if f.value.Type == gjson.String {
		return
	}
	if !f.value.IsArray() {
		f.refusef("want a text, a list of texts, or tokens")
		return
	}
	kind, some := gjson.Null, false
	f.each(func(f field) {
		if some && f.value.Type != kind || f.value.Type != gjson.String && f.value.Type != gjson.Number && !f.value.IsArray() {
			f.refusef("want a text, or a token, as the others")
			return
		}
		kind, some = f.value.Type, true
		switch {
		case kind == gjson.Number:
			f.whole()
		case f.value.IsArray():
			f.each(func(f field) { f.whole() })
		}
	})
	if !some {
		f.refusef("is empty")
	}
}
