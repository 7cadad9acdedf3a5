package outcome

import (
	"fmt"
	"strings"
)

// Sets returns, by name, the sets of models of the ZeroEval outcomes that the project's
// results use: 3, 5 and 11 models as in the paper, and two families.
func Sets() map[string][]string {
	three := []string{"gemma-2-9b-it", "gpt-4o-mini-2024-07-18", "gpt-4o-2024-08-06"}
	return map[string][]string{
		"3": three,
		"5": append(three[:3:3], "claude-3-haiku-20240307", "llama-3.1-405b-instruct"),
		"11": {
			"gemma-2-2b-it", "gemma-2-9b-it", "qwen2-7b-instruct", "llama-3.1-8b-instruct",
			"qwen2-72b-instruct", "llama-3.1-70b-instruct", "claude-3-haiku-20240307",
			"gpt-4o-mini-2024-07-18", "llama-3.1-405b-instruct", "claude-3-5-sonnet-20241022",
			"gpt-4o-2024-08-06",
		},
		"llama": {"llama-3.1-8b-instruct", "llama-3.1-70b-instruct", "llama-3.1-405b-instruct"},
		"gemma": {"gemma-2-2b-it", "gemma-2-9b-it", "gemma-2-27b-it"},
	}
}

// Subset returns the table of a set of models: "all" (or ""), one of [Sets], or
// models separated by commas.
func (t *Table) Subset(name string) (*Table, error) {
	if name == "" || name == "all" {
		return t, nil
	}
	models, known := Sets()[name]
	if !known {
		models = strings.Split(name, ",")
		for i := range models {
			models[i] = strings.TrimSpace(models[i])
		}
	}
	sub, err := t.Select(models...)
	if err != nil {
		return nil, fmt.Errorf("model set %q: %w", name, err)
	}
	return sub, nil
}
