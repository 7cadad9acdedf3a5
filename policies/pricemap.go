package policies

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// PriceChange is a difference between the catalogue and a price map. Was is empty for a model that is not in
// the catalogue.
type PriceChange struct {
	Model string `json:"model"`
	Field string `json:"field"`
	Was   string `json:"was,omitempty"`
	Now   string `json:"now"`
}

// priceEntry is a model in LiteLLM's price map. Prices are in US dollars per token.
type priceEntry struct {
	Provider        string  `json:"litellm_provider"`
	Mode            string  `json:"mode"`
	MaxInput        float64 `json:"max_input_tokens"`
	MaxOutput       float64 `json:"max_output_tokens"`
	Input           float64 `json:"input_cost_per_token"`
	Output          float64 `json:"output_cost_per_token"`
	CacheRead       float64 `json:"cache_read_input_token_cost"`
	CacheWrite      float64 `json:"cache_creation_input_token_cost"`
	AudioInput      float64 `json:"input_cost_per_audio_token"`
	Reasoning       float64 `json:"output_cost_per_reasoning_token"`
	LongInput       float64 `json:"input_cost_per_token_above_200k_tokens"`
	LongOutput      float64 `json:"output_cost_per_token_above_200k_tokens"`
	FunctionCalling bool    `json:"supports_function_calling"`
	Vision          bool    `json:"supports_vision"`
	Schema          bool    `json:"supports_response_schema"`
	ReasoningModel  bool    `json:"supports_reasoning"`
}

// priceProviders maps the price map's names of providers to the catalogue's.
var priceProviders = map[string]string{"openai": "openai", "anthropic": "anthropic", "gemini": "gemini", "mistral": "mistral"}

// UpdateCatalog compares the catalogue with LiteLLM's published price map,
// model_prices_and_context_window.json. It returns the differences, and catalog blocks that contain them,
// dated asOf, for the folder of a policy. Models that are not in the catalogue are added if their names,
// such as "openai/gpt-4o", are in add; "*" adds all. Prices that the map lacks are kept.
func UpdateCatalog(priceMap []byte, asOf, source string, add []string) ([]PriceChange, []byte, error) {
	told, err := readPriceMap(priceMap)
	if err != nil {
		return nil, nil, err
	}
	has, err := embeddedCatalog()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range add {
		if _, ok := told[name]; !ok && name != "*" {
			return nil, nil, fmt.Errorf("the price map has no %s", name)
		}
	}
	var changes []PriceChange
	var list []Catalog
	for _, name := range slices.Sorted(maps.Keys(told)) {
		was, known := has[name]
		if !known && !slices.Contains(add, name) && !slices.Contains(add, "*") {
			continue
		}
		now := told[name].catalog(was)
		differ := differences(name, was, now, known)
		if len(differ) == 0 {
			continue
		}
		changes = append(changes, differ...)
		now.Name, now.AsOf, now.Source = name, asOf, source
		list = append(list, now)
	}
	blocks, err := catalogBlocks(list)
	return changes, blocks, err
}

// readPriceMap returns the map's entries for models of the catalogue's kind, by the catalogue's names.
func readPriceMap(text []byte) (map[string]priceEntry, error) {
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, fmt.Errorf("reading the price map: %w", err)
	}
	told := map[string]priceEntry{}
	for name, raw := range entries {
		var e priceEntry
		// The map has an entry that documents the others, with strings in place of numbers.
		if json.Unmarshal(raw, &e) != nil || strings.Count(name, "/") > 1 { // a price variant, such as that of a region
			continue
		}
		if priceProviders[e.Provider] == "" || e.Mode != "chat" && e.Mode != "responses" || e.Input <= 0 || e.Output <= 0 {
			continue
		}
		told[priceProviders[e.Provider]+"/"+name[strings.LastIndex(name, "/")+1:]] = e
	}
	if len(told) == 0 {
		return nil, errors.New("the price map has no model of OpenAI, Anthropic, Gemini or Mistral: is it LiteLLM's model_prices_and_context_window.json?")
	}
	return told, nil
}

func embeddedCatalog() (map[string]Catalog, error) {
	p, err := New("catalog.hcl", &Policy{
		Models:   []Model{{Name: "m", Provider: "go", Price: Price{Free: true}}},
		Strategy: Strategy{Kind: "route", Lambda: []float64{0}},
	}, LoadOptions{Env: []string{}})
	if err != nil {
		return nil, err
	}
	has := map[string]Catalog{}
	for _, c := range p.Catalog {
		has[c.Name] = c
	}
	return has, nil
}

// ShowCatalog returns the catalogue's entries for the named models ("openai/gpt-4o", or a prefix of such
// names), or all entries if there are no names. They are sorted by name, and also returned as catalog
// blocks of a policy.
func ShowCatalog(names []string) ([]Catalog, []byte, error) {
	has, err := embeddedCatalog()
	if err != nil {
		return nil, nil, err
	}
	var list []Catalog
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if len(names) > 0 && !slices.ContainsFunc(names, func(begin string) bool { return strings.HasPrefix(name, begin) }) {
			continue
		}
		list = append(list, has[name])
	}
	if len(list) == 0 {
		return nil, nil, fmt.Errorf("the catalogue has no %s", strings.Join(names, ", "))
	}
	blocks, err := catalogBlocks(list)
	return list, blocks, err
}

// catalog returns was, updated with the map's facts about the model.
func (e priceEntry) catalog(was Catalog) Catalog {
	c := was
	whole := func(to *int, from float64) {
		if from > 0 && from < 1e9 {
			*to = int(from)
		}
	}
	whole(&c.MaxOutputTokens, e.MaxOutput)
	whole(&c.ContextTokens, e.MaxInput)
	if was.ContextTokens == int(e.MaxInput+e.MaxOutput) && was.ContextTokens > 0 {
		c.ContextTokens = was.ContextTokens // the map counts prompts and answers separately
	}
	price := func(to *float64, perToken float64) {
		if perToken > 0 {
			*to = math.Round(perToken*1e12) / 1e6
		}
	}
	price(&c.Price.Input, e.Input)
	price(&c.Price.Output, e.Output)
	price(&c.Price.CachedInput, e.CacheRead)
	price(&c.Price.CacheWrite, e.CacheWrite)
	price(&c.Price.AudioInput, e.AudioInput)
	price(&c.Price.Reasoning, e.Reasoning)
	if e.LongInput > e.Input {
		c.Price.LongContextTokens = 200_000
		c.Price.LongContextInputFactor = math.Round(1e6*e.LongInput/e.Input) / 1e6
		c.Price.LongContextOutputFactor = math.Round(1e6*max(e.LongOutput/e.Output, 1)) / 1e6
	}
	if was.Capabilities == nil {
		c.Capabilities = e.capabilities()
	}
	return c
}

func (e priceEntry) capabilities() (names []string) {
	for _, one := range []struct {
		name string
		can  bool
	}{{"tools", e.FunctionCalling}, {"images", e.Vision}, {"json_schema", e.Schema}, {"reasoning", e.ReasoningModel}} {
		if one.can {
			names = append(names, one.name)
		}
	}
	return names
}

func differences(name string, was, now Catalog, known bool) (list []PriceChange) {
	facts := func(c Catalog) map[string]string {
		numbers := map[string]string{}
		language().block("catalog").visit(reflect.ValueOf(c), nil, func(path []string, a *argument, v reflect.Value) {
			if a != nil && (a.kind == kindNumber || a.kind == kindWhole) {
				numbers[settingPath(path)] = render(v)
			}
		})
		return numbers
	}
	before := facts(was)
	for field, v := range facts(now) {
		if v == before[field] {
			continue
		}
		change := PriceChange{Model: name, Field: field, Now: v}
		if known {
			change.Was = cmp.Or(before[field], "0")
		}
		list = append(list, change)
	}
	slices.SortFunc(list, func(a, b PriceChange) int { return cmp.Compare(a.Field, b.Field) })
	return list
}

func catalogBlocks(list []Catalog) ([]byte, error) {
	p := Policy{Catalog: list}
	language().visit(reflect.ValueOf(p), nil, func(path []string, a *argument, v reflect.Value) {
		if a != nil {
			p.settings = append(p.settings, Setting{Path: path, Value: render(v)})
		}
	})
	var out bytes.Buffer
	err := p.Show(&out, ShowOptions{Catalog: true})
	return out.Bytes(), err
}
