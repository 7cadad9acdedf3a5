package outcome_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// index writes files of an OpenHands index and returns the pattern that names them.
func index(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for model, text := range files {
		folder := filepath.Join(dir, "results", model, "instance_results")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "swe-bench.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "results", "*", "instance_results", "swe-bench.json")
}

func TestOpenHandsIndex(t *testing.T) {
	table, err := outcome.Open(index(t, map[string]string{
		"large": `{"a__b-1":{"cost":0.5,"resolved":true},"a__b-2":{"cost":null,"resolved":true},"a__b-3":{"cost":1.5,"resolved":false}}`,
		"small": `{"a__b-1":{"cost":0.1,"resolved":false},"a__b-2":{"cost":0.2,"resolved":true},"a__b-3":{"cost":0,"resolved":true}}`,
		"few":   `{"a__b-1":{"cost":0.1,"resolved":true}}`,
		"free":  `{"a__b-1":{"resolved":true},"a__b-2":{"resolved":true},"a__b-3":{"resolved":true}}`,
	}), outcome.Options{Verified: true})
	if err != nil {
		t.Fatal(err)
	}
	want := &outcome.Table{
		Models: []string{"large", "small"}, Queries: []string{"a__b-1", "a__b-2", "a__b-3"}, Groups: []string{"a/b", "a/b", "a/b"},
		Quality: [][]float64{{1, 0}, {1, 1}, {0, 1}}, CostUSD: [][]float64{{0.5, 0.1}, {1, 0.2}, {1.5, 0.15000000000000002}}, Verified: true,
	}
	if diff := cmp.Diff(want, table, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

// A pattern may be relative, from here or by a detour.
func TestOpenHandsIndexFromHere(t *testing.T) {
	runs := `{"a__b-1":{"cost":0.5,"resolved":true}}`
	pattern := index(t, map[string]string{"large": runs, "small": runs})
	dir, _, _ := strings.Cut(pattern, "results")
	t.Chdir(dir)
	for _, before := range []string{"", "./", "results/../"} {
		table, err := outcome.Open(before+"results/*/instance_results/swe-bench.json", outcome.Options{})
		if err != nil || !slices.Equal(table.Models, []string{"large", "small"}) {
			t.Errorf("from %q: %v, %+v", before, err, table)
		}
	}
}

func TestOpenHandsIndexFaults(t *testing.T) {
	if _, err := outcome.Open(index(t, nil), outcome.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]string{
		`{`:                            "swe-bench.json",
		`{"a__b-1":{"resolved":true}}`: "known costs",
		`{"a__b-1":{"cost":-1}}`:       "not a finite number of at least 0",
	} {
		if _, err := outcome.Open(index(t, map[string]string{"m": text}), outcome.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestWriteCSVIsReadAgain(t *testing.T) {
	const text = "query_id,group,model,quality,cost_usd,output_tokens,latency_seconds,perplexity,prompt,answer\n" +
		"q1,a,small,0.5,0.001,10,,1.5,\"Why,\n\"\"so\"\"?\",\"x, y\"\nq1,a,large,1,0.01,,2.5,,,\nq2,b,small,,0.002,7,,2,How?,z\n"
	table, err := outcome.Read(strings.NewReader(text), "in.csv", outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := table.WriteCSV(&out); err != nil {
		t.Fatal(err)
	}
	again, err := outcome.Read(&out, "out.csv", outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(table, again, cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
}
