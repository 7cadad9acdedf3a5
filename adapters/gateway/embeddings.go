package gateway

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
)

// embeddingModel is an Options.Model that can also turn texts into vectors, such as a *router.Router or a
// *middleware.Model: with the named model, and with request and response in OpenAI's form. The model in the response
// is the named one.
type embeddingModel interface {
	Embed(ctx context.Context, model string, request json.RawMessage) (json.RawMessage, error)
}

// embeddings forwards a request to the model that it names. The policy never chooses one, because different models
// give different vectors.
func (g *Gateway) embeddings(x *exchange) *Refusal {
	request, root, refused := x.parse()
	if refused != nil {
		return refused
	}
	a, refused := dialect.ReadEmbedding(root)
	if refused != nil {
		return refused
	}
	x.Model = a.Model // the policy has no choice here
	if refused := g.choose(x, a); refused != nil {
		return refused
	}
	embedder, ok := g.o.Model.(embeddingModel)
	if !ok {
		return dialect.Invalid("model", "no model here supports embeddings")
	}
	ctx, report := middleware.WithReport(x.context(a, isRetry(x.r.Header)))
	response, err := embedder.Embed(ctx, a.Model, request)
	x.Steps = report.Steps()
	x.describe()
	if err != nil {
		r := refusalOf(ctx, err)
		if len(x.Steps) == 0 && r.Status == http.StatusBadRequest { // no model was called
			r.Param = "model"
		}
		return r
	}
	x.send(http.StatusOK, response)
	return nil
}
