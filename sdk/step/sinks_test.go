package step_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/redact"
	"github.com/stepfall/stepfall/sdk/step"
)

// The newest maxFiles files are kept, and older ones from earlier settings are deleted.
func TestRotationKeepsAStatedNumberOfFiles(t *testing.T) {
	for _, keep := range []int{0, 1, 3} {
		path := filepath.Join(t.TempDir(), "traces.jsonl")
		if err := os.WriteFile(fmt.Sprintf("%s.%d", path, max(keep, 1)), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := step.OpenJSONLines(path, 1, keep)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 9 {
			j.Record(t.Context(), &sdk.Trace{ID: fmt.Sprint("id", i)})
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(path + "*")
		if err != nil || len(files) != keep+1 {
			t.Errorf("kept %v of %d: %v", files, keep, err)
		}
		for i, file := range files {
			if data, err := os.ReadFile(file); err != nil || !strings.Contains(string(data), fmt.Sprint("id", 8-i)) {
				t.Errorf("%s has %s, %v", file, data, err)
			}
		}
	}
}

// If the file is renamed or removed, a new one is created and no trace is lost.
func TestTheFileAtThePathIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	j, err := step.OpenJSONLines(path, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, put := range []func() error{func() error { return nil }, func() error { return os.Rename(path, path+".old") }, func() error { return os.Remove(path) }} {
		if err := put(); err != nil {
			t.Skip(err) // an open file cannot be moved here
		}
		j.Record(t.Context(), &sdk.Trace{ID: fmt.Sprint("id", i)})
		if data, err := os.ReadFile(path); err != nil || strings.Count(string(data), "\n") != 1 || !strings.Contains(string(data), fmt.Sprint("id", i)) {
			t.Errorf("%d: the file has %s, %v", i, data, err)
		}
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

func TestJSONLinesAreWholeUnderConcurrencyAndRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	// A crash left half a line.
	if err := os.WriteFile(path, []byte(`{"id":"cut`), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := step.OpenJSONLines(path, 20_000, 1)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for range 25 {
				j.Record(t.Context(), &sdk.Trace{ID: strings.Repeat("x", 10*(g+1)), Prompt: "line\nbreak"})
			}
		})
	}
	wg.Wait()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	whole := 0
	for _, file := range []string{path + ".1", path} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 20_000 {
			t.Errorf("%s has %d bytes", file, len(data))
		}
		for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
			var tr sdk.Trace
			if json.Unmarshal(lines.Bytes(), &tr) == nil {
				whole++
			} else if lines.Text() != `{"id":"cut` {
				t.Errorf("broken line %q", lines.Text())
			}
		}
	}
	if whole != 100 {
		t.Errorf("%d of 100 traces", whole)
	}
	j.Record(t.Context(), &sdk.Trace{}) // after Close: nothing happens
}

// Several processes can write to and rotate one file.
func TestSeveralWriteToOneTraceFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be moved here")
	}
	const maxSize = 5000
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	var wg sync.WaitGroup
	for range 3 {
		j, err := step.OpenJSONLines(path, maxSize, 200)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for range 300 {
				j.Record(t.Context(), &sdk.Trace{ID: strings.Repeat("x", 100)})
			}
			if err := j.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	lines := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if first, _, _ := bytes.Cut(data, []byte("\n")); len(data) > maxSize+2*(len(first)+1) { // a line of each of the others
			t.Errorf("%s has %d bytes", file, len(data))
		}
		for line := range bytes.Lines(data) {
			var tr sdk.Trace
			if json.Unmarshal(line, &tr) == nil { // an empty line may be between two
				lines++
			}
		}
	}
	if lines != 900 {
		t.Errorf("%d of 900 lines in %d files", lines, len(files))
	}
}

func TestJSONLinesKeepsItsFirstError(t *testing.T) {
	j, err := step.OpenJSONLines(filepath.Join(t.TempDir(), "traces.jsonl"), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	j.Record(t.Context(), &sdk.Trace{ID: "bad", CostUSD: math.NaN()})
	if err := j.Close(); err == nil || !strings.Contains(err.Error(), "trace bad") {
		t.Errorf("closing: %v", err)
	}
}

// On a full disk steps continue, and the loss of traces is reported once, not for each trace.
func TestLostTracesAreTold(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skip("no device that is always full")
	}
	j, err := step.OpenJSONLines(full, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var told []error
	j.Fault = func(err error) { told = append(told, err) }
	for range 3 {
		j.Record(t.Context(), &sdk.Trace{ID: "lost"})
	}
	if len(told) != 1 || !strings.Contains(told[0].Error(), "trace lost") {
		t.Errorf("told %v", told)
	}
	if err := j.Close(); err == nil {
		t.Error("closing forgets it")
	}
}

func TestRedactTakesSecretsOutOfACopy(t *testing.T) {
	trace := &sdk.Trace{
		Prompt: "my key is hunter2-hunter2", Error: "401: Incorrect API key provided: sk-abcdefghijklmnop1234",
		Calls: []sdk.Call{{Answer: "Authorization: Bearer abcdefghijklmnopqrst", Error: `{"api_key": "0123456789abcdef"}`,
			Served: "at https://u:hunter2-hunter2@host", StopReason: "hunter2-hunter2", NotSent: []string{"hunter2-hunter2"},
			Verdict: &sdk.Verdict{Evidence: "env: AKIAABCDEFGHIJKLMNOP", Isolation: []string{"hunter2-hunter2"},
				IsolationMissing: map[string]string{"hunter2-hunter2": "hunter2-hunter2"}, LeftOut: []string{"hunter2-hunter2"}}}},
		Run: "hunter2-hunter2", Session: "hunter2-hunter2", Tenant: "hunter2-hunter2", QueryID: "hunter2-hunter2", Group: "hunter2-hunter2",
		Labels: map[string]string{"hunter2-hunter2": "hunter2-hunter2"}, Tools: []string{"hunter2-hunter2"},
		Verdict:    &sdk.Verdict{Verifier: "hunter2-hunter2", Evidence: "env: AKIAABCDEFGHIJKLMNOP"},
		Decisions:  []sdk.Decision{{Note: "estimator: token=abcdef123456"}},
		Infeasible: []sdk.Infeasible{{Model: "m", Reason: "password: s3cr3ts3cr3t"}},
	}
	before, err := json.Marshal(trace)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	step.Redact(func(_ context.Context, tr *sdk.Trace) {
		data, err := json.Marshal(tr)
		if err != nil {
			t.Fatal(err)
		}
		got = string(data)
	}, redact.New("hunter2-hunter2", ""))(t.Context(), trace)
	for _, secret := range []string{"hunter2", "sk-abc", "abcdefghijklmnopqrst", "0123456789abcdef", "AKIAABC", "abcdef123456", "s3cr3t"} {
		if strings.Contains(got, secret) {
			t.Errorf("%s is still there: %s", secret, got)
		}
	}
	if !strings.Contains(got, "my key is [redacted]") || !strings.Contains(got, "Incorrect API key provided: [redacted]") {
		t.Errorf("too much is gone: %s", got)
	}
	if after, err := json.Marshal(trace); err != nil || !bytes.Equal(before, after) {
		t.Error("the trace itself was changed")
	}
}

func TestLogWritesOneLineWithoutTexts(t *testing.T) {
	var out bytes.Buffer
	sink := step.Tee(nil, step.Log(slog.New(slog.NewTextHandler(&out, nil))))
	e := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 1), Traces: sink, TracePrompts: true})
	if _, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()}); err != nil {
		t.Fatal(err)
	}
	line := out.String()
	if strings.Count(line, "\n") != 1 || !strings.Contains(line, "strategy=index chosen=") || strings.Contains(line, "what is it") || strings.Contains(line, "speaks") {
		t.Errorf("log %q", line)
	}
	if step.Tee(nil, nil) != nil {
		t.Error("no sinks are a sink")
	}
}

// A verdict on a run is not logged as a step, and its line has the outcome.
func TestLogOfAVerdictOnARun(t *testing.T) {
	var out bytes.Buffer
	verdict, err := step.VerdictTrace("r1", "blue", &sdk.Verdict{Outcome: sdk.Failed, Verifier: "support", Evidence: "the wrong item"})
	if err != nil {
		t.Fatal(err)
	}
	step.Log(slog.New(slog.NewTextHandler(&out, nil)))(t.Context(), verdict)
	if line := out.String(); !strings.Contains(line, `msg="verdict on a run"`) || !strings.Contains(line, "run=r1 tenant=blue mode=verdict outcome=failed verifier=support") ||
		strings.Contains(line, "calls=") || strings.Contains(line, "wrong item") {
		t.Errorf("log %q", line)
	}
}

func TestLogWarnsOfFailuresAndNotOfCancellation(t *testing.T) {
	var out bytes.Buffer
	sink := step.Log(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})))
	failed := &sdk.Trace{Error: "the model is gone"}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	sink(canceled, failed)
	if out.Len() > 0 {
		t.Errorf("a canceled step was logged as a failure: %s", &out)
	}
	sink(t.Context(), failed)
	if !strings.Contains(out.String(), "the model is gone") {
		t.Errorf("log %q", &out)
	}
}

// Clients that repeat at once what fails without a call, at a spent cap for instance, do not flood the log.
func TestLogOfManyStepsWithoutACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		sink := step.Log(slog.New(slog.NewTextHandler(&out, nil)))
		log := func(n int, trace *sdk.Trace) (lines string) {
			out.Reset()
			for range n {
				sink(t.Context(), trace)
			}
			return out.String()
		}
		refused := &sdk.Trace{Error: "the cap is spent"}
		if lines := log(5, refused); strings.Count(lines, "\n") != 1 || !strings.Contains(lines, "the cap is spent") {
			t.Errorf("in one second %q", lines)
		}
		if lines := log(3, &sdk.Trace{Error: "the model is gone", Calls: []sdk.Call{{}}}); strings.Count(lines, "\n") != 3 {
			t.Errorf("of three failed calls %q", lines)
		}
		time.Sleep(time.Second)
		if lines := log(2, refused); strings.Count(lines, "\n") != 1 || !strings.Contains(lines, "left_out=4") {
			t.Errorf("a second later %q", lines)
		}
	})
}

func TestTracesHoldTextsOnlyWhenAsked(t *testing.T) {
	for _, texts := range []bool{false, true} {
		var got *sdk.Trace
		e := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 1), TracePrompts: texts, TraceAnswers: texts, Explain: texts,
			Traces: func(_ context.Context, tr *sdk.Trace) { got = tr }})
		if _, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()}); err != nil {
			t.Fatal(err)
		}
		if (got.Prompt != "") != texts || (got.Calls[0].Answer != "") != texts || (len(got.Decisions[0].Alternatives) > 0) != texts {
			t.Errorf("texts %v: %+v", texts, got)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Error(err)
		}
	}
}

// A trace without secrets is passed on as it is.
func TestRedactKeepsWhatIsNoSecret(t *testing.T) {
	verdict := &sdk.Verdict{Verifier: "tests", Outcome: sdk.Passed, Score: 1, Evidence: "12 passed", IsolationMissing: map[string]string{"network": "no namespaces"}, LeftOut: []string{"slow"}}
	for _, trace := range []*sdk.Trace{
		{},
		{Calls: []sdk.Call{{}}, Decisions: []sdk.Decision{{}}},
		{ID: "1", Labels: map[string]string{"team": "blue"}, Tools: []string{"find"}, Verdict: verdict, Prompt: "what is it?", Calls: []sdk.Call{{Model: "m", Answer: "it", Verdict: verdict}}},
	} {
		if got := step.RedactTrace(trace, redact.New("hunter2-hunter2")); !reflect.DeepEqual(got, trace) {
			t.Errorf("%+v became %+v", trace, got)
		}
	}
}

// After a rotation that failed, the next trace opens the file again. Nothing stays open after Close.
func TestTracesAfterARotationThatFailed(t *testing.T) {
	open := func() int {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(files)
	}
	before := open()
	for range 10 {
		path := filepath.Join(t.TempDir(), "traces.jsonl")
		j, err := step.OpenJSONLines(path, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		var faults []error
		j.Fault = func(err error) { faults = append(faults, err) }
		record := func(id string) { j.Record(t.Context(), &sdk.Trace{ID: id}) }
		if err := os.MkdirAll(filepath.Join(path+".1", "in the way"), 0o700); err != nil {
			t.Fatal(err)
		}
		record("first")
		record("lost")
		if err := os.RemoveAll(path + ".1"); err != nil {
			t.Fatal(err)
		}
		record("second")
		if err := j.Close(); err == nil || len(faults) != 1 || !strings.Contains(faults[0].Error(), "trace lost") {
			t.Errorf("%v, closing: %v", faults, err)
		}
		for name, want := range map[string]string{path + ".1": "first", path: "second"} {
			if data, err := os.ReadFile(name); err != nil || !strings.Contains(string(data), want) {
				t.Errorf("%s has %s, %v", name, data, err)
			}
		}
	}
	if after := open(); after > before {
		t.Errorf("%d files are open, %d before", after, before)
	}
}

// While another process rotates a file, it is waited for about a second, and a lock that is left over is removed after
// ten seconds.
func TestRotationsByOthersAreWaitedFor(t *testing.T) {
	for _, c := range []struct {
		age, most time.Duration
		isRotated bool
	}{{10 * time.Second, 1100 * time.Millisecond, false}, {10*time.Second + time.Nanosecond, 0, true}} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "traces.jsonl")
			j, err := step.OpenJSONLines(path, 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			j.Record(t.Context(), &sdk.Trace{ID: "first"})
			lock, age := path+".rotating", time.Now().Add(-c.age)
			if err := errors.Join(os.WriteFile(lock, nil, 0o600), os.Chtimes(lock, age, age)); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if c.most > 0 {
				time.AfterFunc(time.Nanosecond, func() { _ = os.Chtimes(lock, time.Now(), time.Now().Add(time.Hour)) })
			}
			j.Record(t.Context(), &sdk.Trace{ID: "second"})
			if waited := time.Since(began); waited > c.most || waited < c.most/2 {
				t.Errorf("%v: waited %v", c.age, waited)
			}
			if _, err := os.Stat(path + ".1"); (err == nil) != c.isRotated {
				t.Errorf("%v: %v", c.age, err)
			}
			if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), "second") {
				t.Errorf("%v: %s, %v", c.age, data, err)
			}
			if err := j.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
