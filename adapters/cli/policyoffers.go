package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/adapters/provider"
)

// extremesByPrice returns the cheapest and the most expensive model. Without a judge there is no evidence whether those in
// between are worth their price.
func extremesByPrice(list []offer) []offer {
	if len(list) < 3 {
		return list
	}
	cheap := slices.MinFunc(list, func(a, b offer) int { return cmp.Compare(a.priceRank(), b.priceRank()) })
	return []offer{cheap, slices.MaxFunc(list, func(a, b offer) int { return cmp.Compare(a.priceRank(), b.priceRank()) })}
}

// priceRank returns a sort key for price: free offers first, the others by guessed quality.
func (o offer) priceRank() float64 {
	if o.free {
		return 0
	}
	return o.mean
}

type offer struct {
	name, provider, served, key, url, note string
	free                                   bool
	mean                                   float64
	// inputUSD is the price of a million input tokens, a quarter of that of output tokens; 0 means that the catalogue
	// has it.
	inputUSD float64
	// longest is the longest answer in tokens, where the catalogue does not have it.
	longest int
}

// offers returns the models that the environment offers, each provider's from cheap to expensive.
func offers(ctx context.Context, getenv func(string) string) []offer {
	var list []offer
	if host := getenv("OLLAMA_HOST"); host != "" {
		if !strings.Contains(host, "://") {
			host = "http://" + host
		}
		for _, name := range ollamaModels(ctx, host) {
			list = append(list, offer{name: name, provider: "ollama", served: name, url: host, free: true, mean: 0.5})
		}
	}
	for _, m := range makers {
		if getenv(m.key) == "" {
			continue
		}
		variable := provider.AddressVariable(m.provider)
		for _, o := range m.models {
			o.provider, o.key, o.url = m.provider, m.key, getenv(variable)
			if o.url != "" {
				o.note = "served by " + variable + ": replace by this server's model names and prices"
			}
			list = append(list, o)
		}
	}
	return list
}

// maker is a provider with the models that init knows, and the variable that holds its key.
type maker struct {
	provider, key string
	models        []offer
}

// makers lists each provider's models from cheap to expensive.
var makers = []maker{
	{"openai", "OPENAI_API_KEY", []offer{{name: "gpt-small", served: "gpt-4.1-mini", mean: 0.6}, {name: "gpt-large", served: "gpt-4.1", mean: 0.75}}},
	{"anthropic", "ANTHROPIC_API_KEY", []offer{{name: "claude-small", served: "claude-haiku-4-5", mean: 0.65}, {name: "claude-large", served: "claude-sonnet-4-5", mean: 0.8}}},
	{"gemini", "GEMINI_API_KEY", []offer{{name: "gemini-small", served: "gemini-2.5-flash", mean: 0.6}, {name: "gemini-large", served: "gemini-2.5-pro", mean: 0.75}}},
	{"mistral", "MISTRAL_API_KEY", []offer{
		{name: "mistral-small", served: "mistral-small-latest", mean: 0.5, longest: 8192}, {name: "mistral-large", served: "mistral-large-latest", mean: 0.65, longest: 8192},
	}},
}

// ollamaModels returns the first models of an Ollama server, or nil if it does not answer.
func ollamaModels(ctx context.Context, host string) []string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(host, "/")+"/api/tags", nil)
	if err != nil {
		return nil
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var body struct {
		Models []struct {
			Name string `json:"name"`
		} `json:"models"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(http.MaxBytesReader(nil, resp.Body, 1<<20)).Decode(&body) != nil {
		return nil
	}
	var names []string
	for _, m := range body.Models {
		if len(names) < 3 {
			names = append(names, m.Name)
		}
	}
	return names
}
