package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

func script(t *testing.T, c Config, text string) sdk.Verifier {
	t.Helper()
	c.Command = []string{"sh", "-c", text}
	if c.Timeout == 0 {
		c.Timeout = 20 * time.Second
	}
	if c.Contract == "" {
		c.Contract = "json"
	}
	if c.Isolation == "" {
		c.Isolation = "held"
	}
	c.Parallel, c.OutputKiB = 2, 64
	v, err := open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVerify(t *testing.T) {
	for _, test := range []struct {
		name   string
		config Config
		script string
		want   sdk.Outcome
		score  float64
		says   string
	}{
		{"passed", Config{}, `echo '{"outcome": "passed", "evidence": "fine"}'`, sdk.Passed, 1, "fine"},
		{"failed in part", Config{}, `echo '{"outcome": "failed", "score": 0.25}'`, sdk.Failed, 0.25, ""},
		{"reads the answer", Config{}, `grep -q '"text":"yes"' && echo '{"outcome": "passed"}'`, sdk.Passed, 1, ""},
		{"reads the query", Config{}, `grep -q '"group":"g"' && echo '{"outcome": "passed"}'`, sdk.Passed, 1, ""},
		{"does not read", Config{}, `exec <&-; echo '{"outcome": "passed"}'`, sdk.Passed, 1, ""},
		{"no JSON", Config{}, `echo fine`, sdk.Inconclusive, 0, "not a verdict"},
		{"no outcome", Config{}, `echo '{}'`, sdk.Inconclusive, 0, "outcome"},
		{"unknown outcome", Config{}, `echo '{"outcome": "good"}'`, sdk.Inconclusive, 0, "good"},
		{"score out of range", Config{}, `echo '{"outcome": "passed", "score": 7}'`, sdk.Inconclusive, 0, "score"},
		{"breaks", Config{}, `echo broken >&2; exit 3`, sdk.Inconclusive, 0, "broken"},
		{"floods", Config{}, `yes`, sdk.Inconclusive, 0, "its output limit"},
		{"too slow", Config{Timeout: 50 * time.Millisecond}, `sleep 60`, sdk.Inconclusive, 0, "in time"},
		{"exit code 0", Config{Contract: "exit_code"}, `echo fine`, sdk.Passed, 1, "fine"},
		{"exit code 1", Config{Contract: "exit_code"}, `echo wrong; exit 1`, sdk.Failed, 0, "wrong"},
		{"exit code 2", Config{Contract: "exit_code"}, `exit 2`, sdk.Inconclusive, 0, "2"},
		{"environment", Config{Env: map[string]string{"LIMIT": "3"}}, `test "$LIMIT" = 3 && test -z "$SECRET" && echo '{"outcome": "passed"}'`, sdk.Passed, 1, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("SECRET", "s")
			request := &sdk.VerifyRequest{Query: &sdk.Query{Group: "g"}, Answer: &sdk.Answer{Text: "yes"}}
			verdict, err := script(t, test.config, test.script).Verify(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if verdict.Outcome != test.want || verdict.Score != test.score || !strings.Contains(verdict.Evidence, test.says) || verdict.Duration <= 0 {
				t.Errorf("%+v", verdict)
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := script(t, Config{}, "sleep 60").Verify(ctx, &sdk.VerifyRequest{Answer: &sdk.Answer{}})
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 50*time.Second && !testing.Short() {
		t.Errorf("%v after %s", err, time.Since(start))
	}
}

func TestLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	held := filepath.Join(t.TempDir(), "held")
	// What is left behind holds the file open, and ends with the run.
	text := `setsid sleep 600 3>` + held + ` & echo '{"outcome": "passed"}'`
	verdict, err := script(t, Config{}, text).Verify(t.Context(), &sdk.VerifyRequest{Answer: &sdk.Answer{}})
	if err != nil || verdict.Outcome != sdk.Passed {
		t.Fatalf("%+v %v", verdict, err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left %v %v", left, err)
	}
	for deadline := time.Now().Add(time.Minute); holders(held) > 0; {
		if time.Now().After(deadline) {
			t.Fatal("a process is left")
		}
	}
}

// holders counts the processes that have the file open, if there is /proc.
func holders(path string) int {
	n := 0
	links, _ := filepath.Glob("/proc/[0-9]*/fd/3")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == path {
			n++
		}
	}
	return n
}

func TestWorkDir(t *testing.T) {
	dir := t.TempDir()
	v := script(t, Config{Contract: "exit_code"}, "pwd")
	verdict, err := v.Verify(t.Context(), &sdk.VerifyRequest{Query: &sdk.Query{WorkDir: dir}, Answer: &sdk.Answer{}})
	if err != nil || !strings.Contains(verdict.Evidence, filepath.Base(dir)) {
		t.Errorf("%+v %v", verdict, err)
	}
}

func TestNoProgram(t *testing.T) {
	if _, err := open(t.Context(), Config{Command: []string{"stepfall-no-such-program"}, Parallel: 1}); err == nil {
		t.Error("a program that does not exist was accepted")
	}
}

func TestIsolation(t *testing.T) {
	request := &sdk.VerifyRequest{Query: &sdk.Query{WorkDir: t.TempDir()}, Answer: &sdk.Answer{}}
	verify := func(c Config, text string) *sdk.Verdict {
		t.Helper()
		c.Contract = "exit_code"
		verdict, err := script(t, c, text).Verify(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		return verdict
	}
	walls, err := jail.Open(t.Context(), jail.Options{})
	if err != nil {
		t.Fatal(err)
	}
	layers, _ := walls.Layers()
	if lacks := jail.Lacks([]string{"filesystem"}, layers); len(lacks) > 0 {
		t.Skip("files cannot be confined here")
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	if held := verify(Config{}, "cat "+secret); held.Outcome != sdk.Passed || len(held.Isolation) == 0 {
		t.Errorf("held: %+v", held)
	}
	sandboxed := verify(Config{Isolation: "sandboxed", Require: []string{"filesystem"}}, "touch $TMPDIR/mine && ! touch here && ! cat "+secret)
	if sandboxed.Outcome != sdk.Passed || len(sandboxed.Isolation) < 4 {
		t.Errorf("sandboxed: %+v", sandboxed)
	}
	lacking := verify(Config{Require: []string{jail.LayerNetwork}}, "true")
	if lacking.Outcome != sdk.Inconclusive || !strings.Contains(lacking.Evidence, "network") {
		t.Errorf("lacking: %+v", lacking)
	}
}

// Each layer that does not exist is reported, not only the first.
func TestUnknownLayersAreAllReported(t *testing.T) {
	_, err := open(t.Context(), Config{Command: []string{"true"}, Require: []string{"walls", "network", "moat"}})
	if err == nil || !strings.Contains(err.Error(), "walls") || !strings.Contains(err.Error(), "moat") {
		t.Errorf("got %v, want both", err)
	}
}
