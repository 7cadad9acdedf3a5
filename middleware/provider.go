package middleware

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// kind is the kind of langchaingo client behind a model.
type kind int

const (
	kindOther kind = iota
	kindOpenAI
	kindAnthropic
	kindOllama
	kindMistral
	kindGoogle
	kindNative // reads Params and the parts of this package
)

// kindOf recognizes a client by its type, or by the model's provider if the client is wrapped.
func kindOf(llm llms.Model, provider string) kind {
	if _, ok := llm.(NativeModel); ok {
		return kindNative
	}
	kinds := map[string]kind{
		"openai": kindOpenAI, "anthropic": kindAnthropic, "ollama": kindOllama, "mistral": kindMistral,
		"googleai": kindGoogle, "vertex": kindGoogle, "google": kindGoogle,
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf("%T", llm), "*"), ".")
	if k, ok := kinds[name]; ok {
		return k
	}
	return kinds[strings.ToLower(provider)]
}

func dataURL(url string) (llms.BinaryContent, bool) {
	rest, isData := strings.CutPrefix(url, "data:")
	mime, text, isBase64 := strings.Cut(rest, ";base64,")
	data, err := base64.StdEncoding.DecodeString(text)
	return llms.BinaryContent{MIMEType: mime, Data: data}, isData && isBase64 && err == nil
}
