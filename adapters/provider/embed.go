package provider

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

type embeddingModel struct {
	*model

	address string
}

// embeddings is a response in OpenAI's form, or in Ollama's, which only has the vectors.
type embeddings struct {
	Data    []json.RawMessage `json:"data"`
	Vectors [][]float32       `json:"embeddings"`
}

// Embed requests embeddings. It implements [middleware.Embedder]. Fields other than the model are sent to the
// server unchanged. For Ollama, only input (texts, not tokens), dimensions and its own keep_alive and options are
// sent. A text that exceeds its context is an error, while Ollama by default would truncate it.
func (m *embeddingModel) Embed(ctx context.Context, request json.RawMessage) (json.RawMessage, sdk.Usage, error) {
	var body dialect.Object
	if err := json.Unmarshal(request, &body); err != nil || body == nil {
		return nil, sdk.Usage{}, m.refuse("", "the request is not a JSON object: %v", err)
	}
	isOllama := m.Dialect() == middleware.DialectOllama
	encoding, texts := body["encoding_format"], 0
	if isOllama {
		var err error
		if body, texts, err = m.ollamaRequest(body); err != nil {
			return nil, sdk.Usage{}, err
		}
	}
	body["model"] = m.call.Model
	x := &exchange{provider: m.provider}
	resp, err := m.post(ctx, x, m.address, m.header, body)
	if err != nil {
		return nil, sdk.Usage{}, x.fail(ctx, err)
	}
	defer resp.Body.Close()
	answer, err := readAll(resp.Body)
	var in embeddings
	if err == nil {
		err = json.Unmarshal(answer, &in)
	}
	if err == nil && in.Data == nil && in.Vectors == nil { // some servers send an error with status 200
		err = dialect.ServerError(answer)
	}
	if err == nil && isOllama && len(in.Vectors) != texts {
		err = fmt.Errorf("%d vectors for %d texts", len(in.Vectors), texts)
	}
	if err != nil {
		return nil, sdk.Usage{}, x.fail(ctx, err)
	}
	used := dialect.EmbeddingUsage(m.Dialect(), answer)
	if isOllama {
		if answer, err = m.openAIAnswer(in.Vectors, max(0, used.InputTokens), encoding == "base64"); err != nil {
			return nil, sdk.Usage{}, fmt.Errorf("writing the embeddings: %w", err)
		}
	}
	return answer, used, nil
}

func (m *embeddingModel) refuse(field, format string, args ...any) error {
	return &middleware.ProviderError{Provider: m.provider, Code: llms.ErrCodeInvalidRequest, Param: field, Message: fmt.Sprintf(format, args...)}
}

// ollamaRequest converts a request to Ollama's form, and counts its texts.
func (m *embeddingModel) ollamaRequest(in dialect.Object) (body dialect.Object, texts int, err error) {
	list, isList := in["input"].([]any)
	if !isList {
		list = []any{in["input"]}
	}
	for _, text := range list {
		if _, isText := text.(string); !isText {
			return nil, 0, m.refuse("input", "input: Ollama embeds texts, not tokens")
		}
	}
	switch in["encoding_format"] {
	case nil, "float", "base64":
	default:
		return nil, 0, m.refuse("encoding_format", "encoding_format: want float or base64")
	}
	body = dialect.Object{"input": list, "truncate": false}
	if m.call.ContextTokens > 0 {
		body["options"] = dialect.Object{"num_ctx": m.call.ContextTokens}
	}
	for _, name := range []string{"dimensions", "keep_alive", "options"} {
		if v := in[name]; v != nil {
			body[name] = v
		}
	}
	return body, len(list), nil
}

// openAIAnswer converts Ollama's vectors to OpenAI's form. Packed vectors are little-endian float32 in base64.
func (m *embeddingModel) openAIAnswer(vectors [][]float32, tokens int, isPacked bool) ([]byte, error) {
	data := []dialect.Object{}
	for i, v := range vectors {
		one := dialect.Object{"object": "embedding", "index": i, "embedding": v}
		if isPacked {
			packed, err := binary.Append(nil, binary.LittleEndian, v)
			if err != nil {
				return nil, err
			}
			one["embedding"] = base64.StdEncoding.EncodeToString(packed)
		}
		data = append(data, one)
	}
	return json.Marshal(dialect.Object{"object": "list", "model": m.call.Model, "data": data, "usage": dialect.Object{"prompt_tokens": tokens, "total_tokens": tokens}})
}
