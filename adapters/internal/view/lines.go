package view

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/stepfall/stepfall/adapters/store"
	"github.com/stepfall/stepfall/sdk"
)

// Lines is a [Reader] of JSON lines: a file that may grow while it is read, or a
// stream. A line of each step is kept in memory, its whole record read again from
// the file. It is safe for concurrent use.
type Lines struct {
	path string

	mu      sync.Mutex
	file    *os.File // what is followed
	older   []*os.File
	size    int64 // of what was read
	entries []*entry
	byID    map[string]*entry
	sorted  []*entry // by start, the oldest first
	left    int
}

// entry is one step and where its record is.
type entry struct {
	store.Step
	calls []sdk.Call // without texts
	from  io.ReaderAt
	at    int64
	size  int
}

// OpenLines opens a file of JSON lines, and the one that it was renamed to when it
// had grown too large (path.1), if there is one.
func OpenLines(path string) (*Lines, error) {
	l := &Lines{path: path, byID: map[string]*entry{}}
	if older, err := os.Open(path + ".1"); err == nil {
		l.older = append(l.older, older)
		if _, err := l.read(older, 0); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.file = file
	if err := l.refresh(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// ReadLines reads JSON lines to their end and keeps them in memory.
func ReadLines(r io.Reader) (*Lines, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	l := &Lines{byID: map[string]*entry{}}
	if !bytes.HasSuffix(data, []byte("\n")) {
		data = append(data, '\n')
	}
	_, err = l.read(bytes.NewReader(data), 0)
	return l, err
}

// Close closes the file.
func (l *Lines) Close() error {
	var faults []error
	for _, f := range append(l.older, l.file) {
		if f != nil {
			faults = append(faults, f.Close())
		}
	}
	return errors.Join(faults...)
}

// LeftOut returns how many lines were no traces.
func (l *Lines) LeftOut() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left
}

// refresh reads what was added to the file, and begins anew with a file that took
// its place.
func (l *Lines) refresh() error {
	if l.file == nil {
		return nil
	}
	now, err := os.Stat(l.path)
	if err != nil {
		// It is being renamed; what was read stays.
		return nil //nolint:nilerr // the next look finds it
	}
	was, err := l.file.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(now, was) {
		if err := l.tail(); err != nil { // what came before it was renamed
			return err
		}
		next, err := os.Open(l.path)
		if err != nil {
			return nil //nolint:nilerr // renamed again
		}
		l.older, l.file, l.size = append(l.older, l.file), next, 0
	}
	return l.tail()
}

func (l *Lines) tail() error {
	size, err := l.read(l.file, l.size)
	l.size = size
	return err
}

// read adds the whole lines from an offset on and returns the offset behind them.
func (l *Lines) read(from io.ReaderAt, at int64) (int64, error) {
	r := bufio.NewReaderSize(io.NewSectionReader(from, at, 1<<62), 1<<16)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return at, nil // the rest of a line may still come
		}
		if err != nil {
			return at, fmt.Errorf("reading %s: %w", l.path, err)
		}
		l.add(from, at, line)
		at += int64(len(line))
	}
}

func (l *Lines) add(from io.ReaderAt, at int64, line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	var t sdk.Trace
	if err := json.Unmarshal(line, &t); err != nil || t.ID == "" {
		l.left++
		return
	}
	if l.byID[t.ID] != nil {
		return
	}
	e := &entry{Step: lineOf(&t), calls: t.Calls, from: from, at: at, size: len(line)}
	for i := range e.calls {
		c := &e.calls[i]
		c.Answer, c.Signals = "", nil
		if c.Verdict != nil {
			c.Verdict = &sdk.Verdict{Outcome: c.Verdict.Outcome}
		}
	}
	e.Seq = int64(len(l.entries)) + 1
	l.entries = append(l.entries, e)
	l.byID[t.ID] = e
	// Steps end nearly in the order in which they began.
	i := len(l.sorted)
	for i > 0 && older(e, l.sorted[i-1]) {
		i--
	}
	l.sorted = slices.Insert(l.sorted, i, e)
}

func older(a, b *entry) bool {
	return cmp.Or(a.Start.Compare(b.Start), -cmp.Compare(a.ID, b.ID)) < 0
}

// lineOf returns the line of a list that is about the trace.
func lineOf(t *sdk.Trace) store.Step {
	s := store.Step{
		ID: t.ID, Start: t.Start, Policy: t.Policy, Mode: t.Mode, Strategy: t.Strategy, Tenant: t.Tenant,
		Run: t.Run, Session: t.Session, Query: t.QueryID, Chosen: t.Chosen, Stop: t.Stop, Error: t.Error,
		Prompt: begin(t.Prompt, 400), Calls: len(t.Calls), CostUSD: t.CostUSD, Duration: t.Duration, Overhead: t.Overhead,
		InputTokens:  t.Usage.InputTokens + t.Usage.CachedInputTokens + t.Usage.CacheWriteTokens,
		OutputTokens: t.Usage.OutputTokens + t.Usage.ReasoningTokens,
	}
	for i := range t.Calls {
		c := &t.Calls[i]
		if !slices.Contains(s.Asked, c.Model) {
			s.Asked = append(s.Asked, c.Model)
		}
		if c.Model == t.Chosen && c.Error == "" && c.Verdict != nil {
			s.Outcome = c.Verdict.Outcome.String()
		}
	}
	return s
}

// begin returns the first n bytes of a text, cut between characters.
func begin(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n]
}

// Trace implements [StepReader].
func (l *Lines) Trace(_ context.Context, id string) (*sdk.Trace, error) {
	l.mu.Lock()
	e := l.byID[id]
	if e == nil && id != "" {
		for full, other := range l.byID {
			if strings.HasPrefix(full, id) {
				if e != nil {
					l.mu.Unlock()
					return nil, fmt.Errorf("several steps begin with %s: %w", id, store.ErrNotFound)
				}
				e = other
			}
		}
	}
	l.mu.Unlock()
	if e == nil {
		return nil, fmt.Errorf("step %s: %w", id, store.ErrNotFound)
	}
	line := make([]byte, e.size)
	if _, err := e.from.ReadAt(line, e.at); err != nil {
		return nil, fmt.Errorf("reading step %s again: %w", id, err)
	}
	t := new(sdk.Trace)
	if err := json.Unmarshal(line, t); err != nil {
		return nil, fmt.Errorf("reading step %s again: %w", id, err)
	}
	return t, nil
}

// Whole implements [StepReader].
func (l *Lines) Whole(ctx context.Context, ids []string) (found []*sdk.Trace, err error) {
	for _, id := range ids {
		t, err := l.Trace(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, t)
	}
	return found, nil
}

// wants says whether the filter selects the step.
func wants(f *store.Filter, s *store.Step) bool {
	for _, c := range [...]struct{ want, is string }{
		{f.Run, s.Run}, {f.Session, s.Session}, {f.Tenant, s.Tenant}, {f.Key, s.Key}, {f.Policy, s.Policy},
		{f.Mode, s.Mode}, {f.Query, s.Query}, {f.Chosen, s.Chosen}, {string(f.Stop), string(s.Stop)}, {f.Outcome, s.Outcome},
	} {
		if c.want != "" && c.want != c.is {
			return false
		}
	}
	switch {
	case f.Model != "" && !slices.Contains(s.Asked, f.Model),
		f.Failed && s.Chosen != "",
		f.Escalated && len(s.Asked) < 2,
		!f.Since.IsZero() && s.Start.Before(f.Since),
		!f.Until.IsZero() && !s.Start.Before(f.Until):
		return false
	}
	if f.Text == "" {
		return true
	}
	text := strings.ToLower(f.Text)
	for _, in := range [...]string{s.Prompt, s.ID, s.Query, s.Error} {
		if strings.Contains(strings.ToLower(in), text) {
			return true
		}
	}
	return false
}

// Steps implements [StepReader].
func (l *Lines) Steps(_ context.Context, f store.Filter) ([]store.Step, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(); err != nil {
		return nil, err
	}
	limit := cmp.Or(f.Limit, 100)
	var found []store.Step
	for _, e := range slices.Backward(l.sorted) {
		if f.Before != nil && !older(e, &entry{Step: *f.Before}) || !wants(&f, &e.Step) {
			continue
		}
		if found = append(found, e.Step); len(found) == limit {
			break
		}
	}
	return found, nil
}

// Follow implements [StepReader].
func (l *Lines) Follow(_ context.Context, after int64, f store.Filter) ([]store.Step, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(); err != nil {
		return nil, err
	}
	limit := cmp.Or(f.Limit, 100)
	var found []store.Step
	for i := max(after, 0); i < int64(len(l.entries)) && len(found) < limit; i++ {
		if e := l.entries[i]; wants(&f, &e.Step) {
			found = append(found, e.Step)
		}
	}
	return found, nil
}
