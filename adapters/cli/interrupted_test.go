package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stepfall/stepfall/adapters/programs"
	"github.com/stepfall/stepfall/adapters/scripted"
)

// A command that is interrupted by Ctrl-C says so, exits as shells expect, and leaves no file.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	table := filepath.Join("..", "..", "examples", "fit-and-evaluate", "outcomes.csv")
	for _, args := range [][]string{
		{"fit", "--outcomes", table, "--budget", "0.005", "--out", filepath.Join(dir, "profile.json")},
		{"dev", "eval", "--outcomes", table, "--json"},
	} {
		var out, said bytes.Buffer
		code := Run(ctx, args, Streams{In: strings.NewReader(""), Out: &out, Err: &said})
		if code != exitInterrupted || out.Len() > 0 || !strings.Contains(said.String(), "interrupted") || strings.Contains(said.String(), "context") {
			t.Errorf("%s: exit code %d, %q, %q", args[0], code, &out, &said)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// A collection that is interrupted while a model hangs keeps its complete outcomes; the same command does what is
// missing and repeats nothing.
func TestCollectInterrupted(t *testing.T) {
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("builds a plugin, whose verifier is a script of sh, and waits for a call under way")
	}
	t.Setenv("STEPFALL_PLUGIN_PATH", programs.Build(t, "verifier-command"))
	t.Setenv("TMPDIR", t.TempDir())
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var hangs atomic.Bool
	var asked atomic.Int64
	hangs.Store(true)
	server, err := scripted.Start(scripted.Options{Respond: func(ctx context.Context, _ *scripted.Request) scripted.Reply {
		if asked.Add(1) > 3 && hangs.Load() {
			asked.Add(-1) // it is never answered
			interrupt()
			<-ctx.Done()
		}
		return scripted.Reply{Text: "forty-two"}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var tasks strings.Builder
	for n := range 4 {
		fmt.Fprintf(&tasks, "{\"query_id\": \"q%d\", \"prompt\": \"What is %d?\"}\n", n, n)
	}
	model := func(name string) string {
		return fmt.Sprintf("model %q {\n  provider = \"openai\"\n  base_url = %q\n  price {\n    input_usd_per_million = 1\n    output_usd_per_million = 1\n  }\n}\n", name, server.URL())
	}
	args := []string{
		"collect", "--parallel", "2", "--out", filepath.Join(dir, "out.jsonl"), "--tasks", file("tasks.jsonl", tasks.String()),
		"--policy", file("policy.hcl", model("small")+model("large")+`
verifier "command" {
  plugin = "verifier-command"
  config {
    command = ["sh", "-c", "cat >/dev/null; echo '{\"outcome\": \"passed\"}'"]
  }
}
strategy "cascade_route" {
  worth_usd = 1
}
`),
	}
	var out, said bytes.Buffer
	if code := Run(ctx, args, Streams{In: strings.NewReader(""), Out: &out, Err: &said}); code != exitInterrupted || !strings.Contains(said.String(), "run the same command to continue") {
		t.Fatalf("exit code %d, %s%s", code, &out, &said)
	}
	had := outcomes(t, dir)
	if had < 1 || had > 3 { // the last is judged within two seconds, or given up
		t.Errorf("%d outcomes are kept, 3 calls were answered: %s%s", had, &out, &said)
	}
	hangs.Store(false)
	out.Reset()
	if code := Run(t.Context(), args, Streams{In: strings.NewReader(""), Out: &out, Err: &said}); code != 0 || !strings.Contains(out.String(), fmt.Sprintf("8 of 8 outcomes: %d already recorded, %d new", had, 8-had)) {
		t.Fatalf("exit code %d, %s%s", code, &out, &said)
	}
	if n := outcomes(t, dir); n != 8 || asked.Load() != int64(3+8-had) {
		t.Errorf("%d outcomes, %d calls after %d were there", n, asked.Load(), had)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// outcomes counts the lines of out.jsonl, each of which must be whole.
func outcomes(t *testing.T, dir string) (n int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "out.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if n++; !json.Valid(line) || !bytes.HasSuffix(line, []byte("\n")) {
			t.Errorf("line %d is not whole: %s", n, line)
		}
	}
	return n
}

// An interrupted demo says that nothing is kept, and nothing is.
func TestDemoInterrupted(t *testing.T) {
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("builds a plugin")
	}
	t.Setenv("STEPFALL_PLUGIN_PATH", programs.Build(t, "verifier-tests"))
	t.Setenv("TMPDIR", t.TempDir())
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	dir := filepath.Join(t.TempDir(), "demo-out")
	var out bytes.Buffer
	said := &watcher{word: "answers, tested", seen: interrupt}
	code := Run(ctx, []string{"demo", "--tasks", "4", "--out", dir}, Streams{In: strings.NewReader(""), Out: &out, Err: said})
	if code != exitInterrupted || out.Len() > 0 || !strings.Contains(said.String(), "interrupted: nothing is written; the demo always starts over") {
		t.Errorf("exit code %d, %s%s", code, &out, said)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s: %v", dir, err)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// watcher calls seen when a word has been written.
type watcher struct {
	bytes.Buffer

	word string
	seen func()
}

func (w *watcher) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), w.word) {
		w.seen()
	}
	return n, err
}
