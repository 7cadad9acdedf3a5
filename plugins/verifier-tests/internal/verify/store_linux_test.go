package verify_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// stored returns the only file in the state folder that contains the text.
func stored(t *testing.T, state, what string) (path string, data []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(state, "preflight", "*.json"))
	for _, file := range files {
		text, readErr := os.ReadFile(file)
		if err = errors.Join(err, readErr); bytes.Contains(text, []byte(what)) {
			path, data = file, text
		}
	}
	if err != nil || path == "" {
		t.Fatalf("stored: %v %v", files, err)
	}
	return path, data
}

// TestVerdictIsShared: the same changes to trees with the same content share a verdict, also in later processes; other
// changes have their own.
func TestVerdictIsShared(t *testing.T) {
	config := verify.Config{Command: []string{"grep", "right", "answer.txt"}, CacheDir: t.TempDir()}
	files := map[string]string{"answer.txt": "wrong\n"}
	right, other := file("answer.txt", "right"), file("answer.txt", "right, too")
	first := judge(t, open(t, config), &sdk.Query{WorkDir: write(t, files)}, right)
	path, data := stored(t, config.CacheDir, `"outcome":"passed"`)
	if err := os.WriteFile(path, bytes.Replace(data, []byte("passed"), []byte("failed"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if again := judge(t, open(t, config), &sdk.Query{WorkDir: write(t, files)}, right); first.Outcome != sdk.Passed || again.Outcome != sdk.Failed || again.Evidence != first.Evidence {
		t.Errorf("judged anew: %+v", again)
	}
	if verdict := judge(t, open(t, config), &sdk.Query{WorkDir: write(t, files)}, other); verdict.Outcome != sdk.Passed {
		t.Errorf("another answer is not judged: %+v", verdict)
	}
}

// TestPreflightIsShared: trees with the same content share a pre-flight, whatever their path, also in later processes. The
// stored report is changed to one that no run would produce.
func TestPreflightIsShared(t *testing.T) {
	state := t.TempDir()
	config := verify.Config{Command: []string{"grep", "right", "answer.txt"}, CacheDir: state}
	files := map[string]string{"answer.txt": "wrong\n", "sub/other": "x"}
	answer := "```text path=answer.txt\nright\n```\n"
	if verdict := judge(t, open(t, config), &sdk.Query{WorkDir: write(t, files)}, answer); verdict.Outcome != sdk.Passed {
		t.Fatal("the right answer")
	}
	path, data := stored(t, state, `"ExitCode":1`)
	forged := bytes.Replace(data, []byte(`"ExitCode":1`), []byte(`"ExitCode":127`), 1)
	if err := os.WriteFile(path, forged, 0o600); err != nil {
		t.Fatal(err)
	}
	if verdict := judge(t, open(t, config), &sdk.Query{WorkDir: write(t, files)}, answer); verdict.Outcome != sdk.Inconclusive {
		t.Error("another tree with the same content had a pre-flight of its own")
	}
	files["sub/other"] = "y"
	if verdict := judge(t, open(t, config), &sdk.Query{WorkDir: write(t, files)}, answer); verdict.Outcome != sdk.Passed {
		t.Error("a tree with other content did not")
	}
	if err := os.WriteFile(path, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	files["sub/other"] = "x"
	if verdict := judge(t, open(t, config), &sdk.Query{WorkDir: write(t, files)}, answer); verdict.Outcome != sdk.Passed {
		t.Error("half a file was believed")
	}
}

// TestPreflightOfABrokenMachineIsNotKept: the machine may be repaired before the next attempt.
func TestPreflightOfABrokenMachineIsNotKept(t *testing.T) {
	for name, command := range map[string][]string{"no such command": {"stepfall-no-such-command"}, "not runnable": {"sh", "-c", "exec ./none"}} {
		state := t.TempDir()
		verdict := judge(t, open(t, verify.Config{Command: command, CacheDir: state}), &sdk.Query{WorkDir: write(t, map[string]string{"answer.txt": "wrong\n"})}, "```text path=answer.txt\nright\n```\n")
		if files, err := filepath.Glob(filepath.Join(state, "preflight", "*.json")); err != nil || len(files) != 0 || verdict.Outcome != sdk.Inconclusive {
			t.Errorf("%s: %s, kept %v, %v", name, verdict.Outcome, files, err)
		}
	}
}
