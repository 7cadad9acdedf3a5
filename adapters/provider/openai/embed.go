package openai

import (
	"context"
	"encoding/json"

	"github.com/stepfall/stepfall/adapters/provider/internal/wire"
	"github.com/stepfall/stepfall/sdk"
)

// Embed asks for embeddings: it implements [middleware.Embedder]. Fields go to the server
// as they are, but for the model.
func (m *Model) Embed(ctx context.Context, request json.RawMessage) (json.RawMessage, sdk.Usage, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(request, &members); err != nil {
		return nil, sdk.Usage{}, wire.Refused(provider, "the request is no JSON object: %s", err)
	}
	body := wire.Object{}
	for name, v := range members {
		body[name] = v
	}
	body["model"] = m.o.Model
	data, err := body.JSON()
	if err != nil {
		return nil, sdk.Usage{}, err
	}
	ctx, x := wire.Begin(ctx)
	resp, err := wire.Post(ctx, m.client, m.embed, m.header, data)
	if err != nil {
		return nil, sdk.Usage{}, x.Fail(provider, err)
	}
	defer resp.Body.Close()
	answer, err := (&answer{x: x}).whole(resp)
	if err != nil {
		return nil, sdk.Usage{}, err
	}
	var in struct {
		Data  []json.RawMessage `json:"data"`
		Usage struct {
			Prompt wire.Count `json:"prompt_tokens"`
			Total  wire.Count `json:"total_tokens"`
		} `json:"usage"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(answer, &in); err != nil {
		return nil, sdk.Usage{}, x.Garbled(provider, err)
	}
	if in.Data == nil { // some servers say 200 to an error
		return nil, sdk.Usage{}, x.Told(provider, answer)
	}
	if wire.AnyBroken(in.Usage.Prompt, in.Usage.Total) {
		return answer, wire.BrokenUsage, nil
	}
	return answer, sdk.Usage{InputTokens: int(max(in.Usage.Prompt, in.Usage.Total))}, nil
}
