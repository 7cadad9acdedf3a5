package outcome_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// gym writes files of reasoning-gym's evaluations and returns the pattern that names them.
func gym(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "*", "*", "*.json")
}

func TestReasoningGym(t *testing.T) {
	table, err := outcome.Open(gym(t, map[string]string{
		"meta-llama_llama-4-maverick_20250406_081553/algebra/sums.json": `{"name":"sums","category":"algebra","system_prompt":"Add.","results":[
			{"question":"1+1","completions":[{"model_answer":"2","full_model_response":"It is 2.","score":1},{"model_answer":null,"full_model_response":"","score":0.05}]},
			{"question":"1+1","completions":[{"model_answer":"3","full_model_response":"3","score":0}]}]}`,
		"openai_o3-mini_20250315_181742/algebra/sums.json": `{}`,
	}), outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(table.Models, table.Groups, table.Prompts, table.Quality, table.OutputTokens, table.Answers), "[llama-4-maverick llama-4-maverick#2] [algebra] [1+1] [[1 0]] [[2 0]] [[2 ]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// Seven bytes of prompt are two tokens at 0.2, and eight of the answer two at 0.6 USD per million.
	if cost := table.CostUSD[0]; cost[0] < 1.59e-6 || cost[0] > 1.61e-6 || cost[1] < 0.39e-6 || cost[1] > 0.41e-6 {
		t.Errorf("costs %v", cost)
	}
}

func TestReasoningGymFaults(t *testing.T) {
	if _, err := outcome.Open(gym(t, nil), outcome.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for name, want := range map[string]string{
		"meta-llama_llama-4-maverick_20250406_081553/a/b.json": "b.json: unexpected end",
		"llama/a/b.json": "is not in a folder MODEL_DATE_TIME",
		"openai_o3-mini_20250315_181742/a/b.json": "known price",
	} {
		if _, err := outcome.Open(gym(t, map[string]string{name: `{`}), outcome.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
