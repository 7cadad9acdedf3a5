package ollama

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"github.com/stepfall/stepfall/adapters/dialect"
	"github.com/stepfall/stepfall/adapters/provider/internal/wire"
	"github.com/stepfall/stepfall/sdk"
)

// embedRequest is a request in OpenAI's form.
type embedRequest struct {
	Input      json.RawMessage `json:"input"`
	Encoding   string          `json:"encoding_format"`
	Dimensions *int            `json:"dimensions"`
	KeepAlive  json.RawMessage `json:"keep_alive"`
	Options    json.RawMessage `json:"options"`
}

// vector is an embedding in OpenAI's form.
type vector struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"`
}

// Embed asks for embeddings: it implements [middleware.Embedder]. Of the request's fields
// the server knows input (texts, and no tokens), dimensions, and its own keep_alive and
// options. A text that is longer than the context is an error instead of losing its end.
func (m *Model) Embed(ctx context.Context, request json.RawMessage) (json.RawMessage, sdk.Usage, error) {
	none := sdk.Usage{}
	var in embedRequest
	if err := json.Unmarshal(request, &in); err != nil {
		return nil, none, wire.RefusedField(provider, "", "the request cannot be read: %s", err)
	}
	var texts []string
	if json.Unmarshal(in.Input, &texts) != nil {
		texts = make([]string, 1)
		if json.Unmarshal(in.Input, &texts[0]) != nil {
			return nil, none, wire.RefusedField(provider, "input", "input: Ollama embeds texts, and no tokens")
		}
	}
	if in.Encoding != "" && in.Encoding != "float" && in.Encoding != "base64" {
		return nil, none, wire.RefusedField(provider, "encoding_format", "encoding_format: want float or base64")
	}
	body := dialect.Object{"model": m.o.Model, "input": texts, "truncate": false}
	if in.Dimensions != nil {
		body["dimensions"] = *in.Dimensions
	}
	for name, v := range map[string]json.RawMessage{"keep_alive": in.KeepAlive, "options": in.Options} {
		if v != nil {
			body[name] = v
		}
	}
	if in.Options == nil && m.o.ContextTokens > 0 {
		body["options"] = dialect.Object{"num_ctx": m.o.ContextTokens}
	}
	data, x, err := m.server.PostWhole(ctx, m.embed, body)
	if err != nil {
		return nil, none, err
	}
	var out struct {
		Embeddings [][]float32     `json:"embeddings"`
		Prompt     dialect.Count   `json:"prompt_eval_count"`
		Error      json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, none, x.UnreadableError(provider, err)
	}
	if len(out.Error) > 0 {
		return nil, none, x.ServerError(provider, data)
	}
	if len(out.Embeddings) != len(texts) {
		return nil, none, x.UnreadableError(provider, fmt.Errorf("%d vectors for %d texts", len(out.Embeddings), len(texts)))
	}
	list := make([]vector, len(out.Embeddings))
	for i, v := range out.Embeddings {
		list[i] = vector{Object: "embedding", Index: i, Embedding: v}
		if in.Encoding == "base64" {
			list[i].Embedding = packed(v)
		}
	}
	answer, err := json.Marshal(map[string]any{
		"object": "list", "model": m.o.Model, "data": list, "usage": map[string]int{"prompt_tokens": max(0, int(out.Prompt)), "total_tokens": max(0, int(out.Prompt))},
	})
	if err != nil {
		return nil, none, fmt.Errorf("writing the embeddings: %w", err)
	}
	return answer, sdk.Usage{InputTokens: int(out.Prompt)}, nil
}

// packed writes a vector as OpenAI does where base64 is asked for: float32, the lowest
// byte first.
func packed(v []float32) string {
	data := make([]byte, 0, 4*len(v))
	for _, f := range v {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(f))
	}
	return base64.StdEncoding.EncodeToString(data)
}
