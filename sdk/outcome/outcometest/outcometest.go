package outcometest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// envData is the environment variable that names the folder of outcomes.
const envData = "STEPFALL_DATA"

// File returns the path of a file of outcomes, or skips the test.
func File(t testing.TB, name string) string {
	t.Helper()
	folder := os.Getenv(envData)
	if folder == "" {
		folder = dataFolder(t)
	}
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no %s: set %s to the folder of outcomes", name, envData)
	}
	return path
}

// dataFolder returns ../shared/data relative to the folder of go.mod.
func dataFolder(t testing.TB) string {
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return filepath.Join(filepath.Dir(folder), "shared", "data")
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			t.Skipf("no go.mod above the test: set %s to the folder of outcomes", envData)
		}
		folder = parent
	}
}

// Swebench returns the SWE-bench Verified outcomes of 24 models, verified by tests.
func Swebench(t testing.TB) *outcome.Table {
	t.Helper()
	return open(t, File(t, "swebench_verified.csv"), outcome.Options{Verified: true})
}

// Zeroeval returns the ZeroEval outcomes of a set of models, with their prompts;
// see [outcome.Table.Subset] for the names.
func Zeroeval(t testing.TB, set string) *outcome.Table {
	t.Helper()
	all := open(t, File(t, "zeroeval.csv"), outcome.Options{Prompts: File(t, "zeroeval_queries.jsonl")})
	table, err := all.Subset(set)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func open(t testing.TB, path string, o outcome.Options) *outcome.Table {
	t.Helper()
	table, err := outcome.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// Load returns the outcomes of a file.
func Load(t testing.TB, name string) *outcome.Table {
	t.Helper()
	return open(t, File(t, name), outcome.Options{})
}
