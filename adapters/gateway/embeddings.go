package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
)

// embeddingModel is an Options.Model that turns texts into vectors as well, as a
// *router.Router or a *middleware.Model does: by the model that is named, with a request
// and a response in OpenAI's form. The response's model is the one that was named.
type embeddingModel interface {
	Embed(ctx context.Context, model string, request json.RawMessage) (json.RawMessage, error)
}

// embeddings forwards a request to the model that it names. It never chooses one: no two models
// give the same vectors.
func (g *Gateway) embeddings(x *exchange) *Refusal {
	var request json.RawMessage
	var a *dialect.Request
	if refused := x.body(func(body []byte) *Refusal {
		root, refused := dialect.Parse(body)
		if refused != nil {
			return refused
		}
		request = slices.Clone(body) // the buffer serves the next request
		a, refused = dialect.ReadEmbedding(root)
		return refused
	}); refused != nil {
		return refused
	}
	x.Model = a.Model // the policy's choice is none here
	if refused := g.choose(x, a); refused != nil {
		return refused
	}
	embedder, ok := g.o.Model.(embeddingModel)
	if !ok {
		return dialect.Invalid("model", "no model here makes embeddings")
	}
	ctx, report := middleware.WithReport(x.context(a, isRetry(x.r.Header)))
	response, err := embedder.Embed(ctx, a.Model, request)
	x.Steps = report.Steps()
	x.describe()
	if err != nil {
		r := refusalOf(ctx, err)
		if len(x.Steps) == 0 && r.Status == http.StatusBadRequest { // nobody was asked
			r.Param = "model"
		}
		return r
	}
	x.send(http.StatusOK, response)
	return nil
}
