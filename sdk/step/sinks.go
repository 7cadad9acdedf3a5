package step

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/redact"
)

// Sink receives traces: see Config.Traces. It must be safe for concurrent use and
// must not modify the trace.
type Sink = func(ctx context.Context, t *sdk.Trace)

// Tee returns a sink that passes each trace to all sinks that are not nil, in order, or nil if there are
// none.
func Tee(sinks ...Sink) Sink {
	sinks = slices.DeleteFunc(slices.Clone(sinks), func(s Sink) bool { return s == nil })
	switch len(sinks) {
	case 0:
		return nil
	case 1:
		return sinks[0]
	}
	return func(ctx context.Context, t *sdk.Trace) {
		for _, s := range sinks {
			s(ctx, t)
		}
	}
}

// logger is implemented by *slog.Logger and hclog.Logger. args are alternating keys and values.
type logger interface {
	Info(msg string, args ...any)
	Warn(msg string, args ...any)
}

// LogFailed is Log's message for a step that failed.
const LogFailed = "step failed"

// Log returns a sink that writes one line per step: at level info if it gave an answer or its caller
// cancelled it, as a warning if it failed. Of the steps that failed without a call, for example because a
// cap is spent or its store is away, one a second is logged, with the number left out since the last one.
// A verdict on a run is logged with its outcome. Prompts, answers and evidence are never logged.
func Log(l logger) Sink {
	var refused refusedSteps
	return func(ctx context.Context, t *sdk.Trace) {
		args := []any{"trace", t.ID}
		if sdk.IsStep(t.Mode) {
			args = append(args, "strategy", t.Strategy, "chosen", t.Chosen, "calls", len(t.Calls), "stop", string(t.Stop),
				"cost_usd", t.CostUSD, "duration", t.Duration)
		}
		for _, known := range [...]struct{ key, value string }{{"run", t.Run}, {"session", t.Session}, {"tenant", t.Tenant}, {"mode", t.Mode}} {
			if known.value != "" {
				args = append(args, known.key, known.value)
			}
		}
		switch {
		case !sdk.IsStep(t.Mode):
			if t.Verdict != nil {
				args = append(args, "outcome", t.Verdict.Outcome.String(), "verifier", t.Verdict.Verifier)
			}
			l.Info("verdict on a run", args...)
		case t.Error == "":
			l.Info("step", args...)
		case errors.Is(ctx.Err(), context.Canceled):
			l.Info("step canceled by its caller", args...)
		case len(t.Calls) > 0:
			l.Warn(LogFailed, append(args, "error", t.Error)...)
		default:
			leftOut, ok := refused.admit(time.Now())
			if leftOut > 0 {
				args = append(args, "left_out", leftOut)
			}
			if ok {
				l.Warn(LogFailed, append(args, "error", t.Error)...)
			}
		}
	}
}

// refusedSteps limits the lines about steps that failed without a call: clients can repeat them thousands of times a
// second.
type refusedSteps struct {
	mu      sync.Mutex
	logged  time.Time
	leftOut int
}

// admit reports whether to log a line, and how many were left out since the last one.
func (r *refusedSteps) admit(now time.Time) (leftOut int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.logged) < time.Second {
		r.leftOut++
		return 0, false
	}
	leftOut = r.leftOut
	r.logged, r.leftOut = now, 0
	return leftOut, true
}

// JSONLines writes traces to a file, one JSON object per line. It is safe for concurrent use, and
// appends whole lines only.
type JSONLines struct {
	// Fault is called with the error of the first trace that could not be written, and again with the first
	// one after a recovery; it may be nil. It must be set before the first trace.
	Fault func(error)

	path string

	mu       sync.Mutex
	maxSize  int64
	maxFiles int
	file     *os.File
	size     int64
	err      error
	// failing: the last trace could not be written; torn: the file ends with part of it.
	failing, torn, closed bool
}

// OpenJSONLines opens or creates the file, readable by its owner only. Before it would exceed maxSize
// bytes it is renamed to path.1, path.1 to path.2 and so on, and a new file begins; 0 is no limit. The
// newest maxFiles renamed files are kept. If another program renames or removes the file, a new one is
// created. Several processes can write to one file.
func OpenJSONLines(path string, maxSize int64, maxFiles int) (*JSONLines, error) {
	j := &JSONLines{path: path, maxSize: maxSize, maxFiles: maxFiles}
	if err := j.open(); err != nil {
		return nil, fmt.Errorf("opening the trace file: %w", err)
	}
	return j, nil
}

func (j *JSONLines) open() error {
	file, err := os.OpenFile(j.path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	j.file, j.size, j.torn = file, info.Size(), false
	if j.size == 0 {
		return nil
	}
	// A crash may have truncated the last line: begin a new one.
	var last [1]byte
	if _, err := file.ReadAt(last[:], j.size-1); err == nil && last[0] != '\n' {
		_, err = file.WriteString("\n")
		return err
	}
	return nil
}

// SetLimits changes the size in bytes at which a new file begins, and how many old files are kept.
func (j *JSONLines) SetLimits(maxSize int64, maxFiles int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.maxSize, j.maxFiles = maxSize, maxFiles
}

// staleLock is the age at which a lock file is assumed to be left by a process that died.
const staleLock = 10 * time.Second

// rotationPause is the initial backoff while another process rotates the file.
const rotationPause = time.Millisecond

// rotate renames the closed file unless another process does. Files beyond maxFiles are removed first,
// including those from a time when more were kept.
func (j *JSONLines) rotate() error {
	lock := j.path + ".rotating"
	if info, err := os.Stat(lock); err == nil && time.Since(info.ModTime()) > staleLock {
		os.Remove(lock)
	}
	held, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer os.Remove(lock)
	held.Close()
	if info, err := os.Stat(j.path); err != nil || info.Size() < j.size {
		return nil // another process has done it
	}
	name := func(n int) string {
		if n == 0 {
			return j.path
		}
		return fmt.Sprintf("%s.%d", j.path, n)
	}
	for n := j.maxFiles; n == 0 || n == j.maxFiles || fileExists(name(n)); n++ {
		if err := os.Remove(name(n)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	for n := j.maxFiles - 1; n >= 0; n-- {
		if err := os.Rename(name(n), name(n+1)); err != nil && (n == 0 || !errors.Is(err, os.ErrNotExist)) {
			return err
		}
	}
	return nil
}

func fileExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Record writes one trace: it is a [Sink]. A step does not fail because its trace could not be
// written; the first such error is kept for Close and passed to Fault.
func (j *JSONLines) Record(_ context.Context, t *sdk.Trace) {
	line, err := json.Marshal(t)
	line = append(line, '\n')
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	if err == nil && j.file == nil { // the last rotation failed
		err = j.open()
	}
	if err == nil {
		err = j.write(line)
	}
	failed := err != nil
	if failed {
		err = fmt.Errorf("writing trace %s: %w", t.ID, err)
		j.err = cmp.Or(j.err, err)
		if !j.failing && j.Fault != nil {
			j.Fault(err)
		}
	}
	j.failing = failed
}

// follow opens the file at the path if another program has renamed or removed the open one.
func (j *JSONLines) follow() error {
	opened, err := j.file.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Stat(j.path); err == nil && os.SameFile(now, opened) {
		j.size = now.Size() // another process may write to it too
		return nil
	}
	return j.reopen(func() error { return nil })
}

// reopen closes the file, calls between, and opens the path anew.
func (j *JSONLines) reopen(between func() error) error {
	err := j.file.Close()
	j.file = nil
	if err == nil {
		err = between()
	}
	if err == nil {
		err = j.open()
	}
	return err
}

func (j *JSONLines) write(line []byte) error {
	if err := j.follow(); err != nil {
		return err
	}
	isFull := func() bool { return j.maxSize > 0 && j.size > 0 && j.size+int64(len(line)) > j.maxSize }
	for wait := rotationPause; isFull() && wait < staleLock/10; wait *= 2 {
		if err := j.reopen(j.rotate); err != nil {
			return err
		}
		if isFull() { // another process is rotating it
			time.Sleep(wait)
		}
	}
	if j.torn {
		line = append([]byte("\n"), line...)
	}
	n, err := j.file.Write(line)
	j.size += int64(n)
	if n > 0 {
		j.torn = line[n-1] != '\n'
	}
	return err
}

// Close closes the file and returns the first error of any write.
func (j *JSONLines) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.err
	if j.file != nil {
		if closing := j.file.Close(); err == nil {
			err = closing
		}
		j.file = nil
	}
	j.closed = true
	return err
}

// Redact returns a sink that passes on a copy of each trace with secrets removed from its texts: those
// that r knows, and anything that looks like a credential. A nil r removes only the latter. Names of
// models are kept.
func Redact(next Sink, r *redact.Redactor) Sink {
	return func(ctx context.Context, t *sdk.Trace) { next(ctx, RedactTrace(t, r)) }
}

// RedactTrace returns a copy of a trace without the secrets that [Redact] removes.
func RedactTrace(t *sdk.Trace, r *redact.Redactor) *sdk.Trace {
	clean := r.Text
	all := func(texts []string) []string {
		return cleanEach(texts, func(text *string) { *text = clean(*text) })
	}
	labels := func(m map[string]string) map[string]string {
		if m == nil {
			return nil
		}
		own := make(map[string]string, len(m))
		for name, v := range m {
			own[clean(name)] = clean(v)
		}
		return own
	}
	verdict := func(v *sdk.Verdict) *sdk.Verdict {
		if v == nil {
			return nil
		}
		own := *v
		own.Verifier, own.Way, own.Evidence, own.LeftOut = clean(v.Verifier), clean(v.Way), clean(v.Evidence), all(v.LeftOut)
		own.Isolation, own.IsolationMissing = all(v.Isolation), labels(v.IsolationMissing)
		return &own
	}
	own := *t
	own.Verdict = verdict(t.Verdict)
	for _, text := range [...]*string{&own.QueryID, &own.Group, &own.Run, &own.Session, &own.Tenant, &own.Prompt, &own.Error} {
		*text = clean(*text)
	}
	own.Labels, own.Tools = labels(t.Labels), all(t.Tools)
	own.Infeasible = cleanEach(t.Infeasible, func(i *sdk.Infeasible) { i.Reason = clean(i.Reason) })
	own.Decisions = cleanEach(t.Decisions, func(d *sdk.Decision) { d.Note = clean(d.Note) })
	own.Calls = cleanEach(t.Calls, func(c *sdk.Call) {
		c.Answer, c.Error, c.Served, c.StopReason = clean(c.Answer), clean(c.Error), clean(c.Served), clean(c.StopReason)
		c.NotSent, c.Verdict = all(c.NotSent), verdict(c.Verdict)
	})
	return &own
}

func cleanEach[T any](list []T, clean func(*T)) []T {
	list = slices.Clone(list)
	for i := range list {
		clean(&list[i])
	}
	return list
}
