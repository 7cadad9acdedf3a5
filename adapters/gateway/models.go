package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
)

// modelEntry is a model in OpenAI's form, with the additional fields that Anthropic's clients read.
type modelEntry struct {
	ID          string    `json:"id"`
	Object      string    `json:"object"`
	Created     int64     `json:"created"`
	OwnedBy     string    `json:"owned_by"`
	Type        string    `json:"type"`
	DisplayName string    `json:"display_name"`
	CreatedAt   time.Time `json:"created_at"`
	Lifecycle   string    `json:"lifecycle"`
}

func (g *Gateway) entry(name string) modelEntry {
	at := g.started.UTC().Truncate(time.Second)
	return modelEntry{ID: name, Object: "model", Created: at.Unix(), OwnedBy: "stepfall", Type: "model", DisplayName: name, CreatedAt: at, Lifecycle: "active"}
}

func (g *Gateway) names(x *exchange) []string {
	names := append([]string{g.o.Name}, g.o.Models()...)
	if allowed := x.Client.Models; allowed != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(allowed, name) })
	}
	return names
}

func (g *Gateway) models(x *exchange) *Refusal {
	list := struct {
		Object  string       `json:"object"`
		Data    []modelEntry `json:"data"`
		HasMore bool         `json:"has_more"`
		FirstID string       `json:"first_id,omitempty"`
		LastID  string       `json:"last_id,omitempty"`
	}{Object: "list", Data: []modelEntry{}}
	for _, name := range g.names(x) {
		list.Data = append(list.Data, g.entry(name))
	}
	if n := len(list.Data); n > 0 {
		list.FirstID, list.LastID = list.Data[0].ID, list.Data[n-1].ID
	}
	x.json(http.StatusOK, list)
	return nil
}

func modelPath(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, "/v1/models/")
	if !ok || rest == "" {
		return "", false
	}
	if id, err := url.PathUnescape(rest); err == nil {
		return id, true
	}
	return rest, true
}

func (g *Gateway) model(x *exchange, id string) *Refusal {
	names := g.names(x)
	if isAny := g.o.AnyModel && x.Client.Models == nil; !isAny && !slices.Contains(names, id) {
		return notFound(id, names, "")
	}
	x.json(http.StatusOK, g.entry(id))
	return nil
}

// countTokens estimates the length of a prompt in the same way as caps do.
func (g *Gateway) countTokens(x *exchange) *Refusal {
	_, root, refused := x.parse()
	if refused != nil {
		return refused
	}
	a, refused := x.api.Read(root, x.r.Header)
	if refused != nil && refused.Param != "max_tokens" {
		return refused
	}
	if refused := g.choose(x, a); refused != nil {
		return refused
	}
	count := dialect.Object{"input_tokens": a.InputTokens()}
	if x.api == dialect.Responses {
		count["object"] = "response.input_tokens"
	}
	x.json(http.StatusOK, count)
	return nil
}
