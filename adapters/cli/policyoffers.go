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
	if o.Free {
		return 0
	}
	return o.Mean
}

// offer is a model that the environment offers.
type offer struct {
	Name, Provider, Served, Key, URL, Note string
	Free                                   bool
	Mean                                   float64
	// InputUSD is the price of a million input tokens; 0 means that the catalogue has it.
	InputUSD float64
	// Longest is the longest answer in tokens, where the catalogue does not have it.
	Longest int
}

// OutputUSD returns the price of a million output tokens.
func (o offer) OutputUSD() float64 { return 4 * o.InputUSD }

// Timeout returns the time for an answer of 64,000 tokens at 110 tokens per second, less for small models.
func (o offer) Timeout() string {
	if strings.HasSuffix(o.Name, "small") {
		return "3m"
	}
	return "10m"
}

// offers returns the models that the environment offers, each provider's from cheap to expensive.
func offers(ctx context.Context, getenv func(string) string) []offer {
	var list []offer
	if host := getenv("OLLAMA_HOST"); host != "" {
		if !strings.Contains(host, "://") {
			host = "http://" + host
		}
		for _, name := range ollamaModels(ctx, host) {
			list = append(list, offer{Name: name, Provider: "ollama", Served: name, URL: host, Free: true, Mean: 0.5})
		}
	}
	for _, m := range makers {
		if getenv(m.key) == "" {
			continue
		}
		variable := provider.AddressVariable(m.provider)
		for _, o := range m.models {
			o.Provider, o.Key, o.URL = m.provider, m.key, getenv(variable)
			if o.URL != "" {
				o.Note = "served by " + variable + ": replace by this server's model names and prices"
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
	{"openai", "OPENAI_API_KEY", []offer{{Name: "gpt-small", Served: "gpt-4.1-mini", Mean: 0.6}, {Name: "gpt-large", Served: "gpt-4.1", Mean: 0.75}}},
	{"anthropic", "ANTHROPIC_API_KEY", []offer{{Name: "claude-small", Served: "claude-haiku-4-5", Mean: 0.65}, {Name: "claude-large", Served: "claude-sonnet-4-5", Mean: 0.8}}},
	{"gemini", "GEMINI_API_KEY", []offer{{Name: "gemini-small", Served: "gemini-2.5-flash", Mean: 0.6}, {Name: "gemini-large", Served: "gemini-2.5-pro", Mean: 0.75}}},
	{"mistral", "MISTRAL_API_KEY", []offer{
		{Name: "mistral-small", Served: "mistral-small-latest", Mean: 0.5, Longest: 8192}, {Name: "mistral-large", Served: "mistral-large-latest", Mean: 0.65, Longest: 8192},
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
