package view

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/sqlite"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Lines is a [store.TraceReader] of JSON lines: a file that can grow while it is read, or a stream. It keeps what it
// has read in a temporary store. It is safe for concurrent use.
type Lines struct {
	*sqlite.Temporary

	name string
	warn func(line int)

	mu    sync.Mutex
	file  *os.File // the file that is followed; nil for a stream
	size  int64    // offset behind the last line read
	line  int      // number of the last line read
	left  int
	batch []store.Entry
}

// OpenLines opens a file of JSON lines together with its rotated predecessors (path.1, path.2 and so on). warn, when
// not nil, is called with the number of each line that is not a trace, such as one cut off by a crash.
func OpenLines(ctx context.Context, path string, warn func(line int)) (*Lines, error) {
	l, err := newLines(ctx, path, warn)
	if err != nil {
		return nil, err
	}
	var older []string
	if l.file, err = os.Open(path); err == nil {
		older, err = outcome.RotatedFiles(path)
	}
	for _, name := range older {
		if err == nil {
			err = l.readWhole(ctx, name)
		}
	}
	if l.line = 0; err == nil {
		err = l.refresh(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// readWhole reads a file that no longer grows. It is no error if the file was renamed meanwhile.
func (l *Lines) readWhole(ctx context.Context, path string) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = l.read(ctx, file, 0)
	return errors.Join(err, file.Close())
}

// ReadLines reads JSON lines until EOF; the last one can lack its newline. See [OpenLines] for warn.
func ReadLines(ctx context.Context, name string, r io.Reader, warn func(line int)) (*Lines, error) {
	l, err := newLines(ctx, name, warn)
	if err != nil {
		return nil, err
	}
	if _, err := l.read(ctx, io.MultiReader(r, bytes.NewReader([]byte("\n"))), 0); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func newLines(ctx context.Context, name string, warn func(line int)) (*Lines, error) {
	db, err := sqlite.NewTemporary(ctx)
	if err != nil {
		return nil, err
	}
	return &Lines{Temporary: db, name: name, warn: warn}, nil
}

// Close closes the temporary store and the file.
func (l *Lines) Close() error {
	err := l.Temporary.Close()
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
	}
	return err
}

// LeftOut returns how many lines were not traces.
func (l *Lines) LeftOut() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left
}

// refresh reads what was appended to the file, and switches to the file that replaced it on rotation.
func (l *Lines) refresh(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	was, err := l.file.Stat()
	if err != nil {
		return err
	}
	// During the rename the path does not exist; then the old file stays open.
	if now, err := os.Stat(l.name); err == nil && !os.SameFile(now, was) {
		if err := l.tail(ctx); err != nil { // the lines written before the rename
			return err
		}
		if next, err := os.Open(l.name); err == nil {
			if err = l.readBetween(ctx, was, now); err == nil { // else the next refresh retries
				err = l.file.Close()
			}
			if err != nil {
				return errors.Join(err, next.Close())
			}
			l.file, l.size, l.line = next, 0, 0
		}
	}
	return l.tail(ctx)
}

// readBetween reads the rotated files between older and newer.
func (l *Lines) readBetween(ctx context.Context, older, newer os.FileInfo) error {
	names, err := outcome.RotatedFiles(l.name)
	if err != nil {
		return err
	}
	is := func(path string, file os.FileInfo) bool {
		info, err := os.Stat(path)
		return err == nil && os.SameFile(info, file)
	}
	at := slices.IndexFunc(names, func(path string) bool { return is(path, older) })
	for _, path := range names[at+1:] { // all of them if older is gone
		if is(path, newer) {
			break
		}
		if err := l.readWhole(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lines) tail(ctx context.Context) error {
	size, err := l.read(ctx, io.NewSectionReader(l.file, l.size, 1<<62), l.size)
	l.size = size
	return err
}

// batchLines bounds how many traces are written together.
const batchLines = 500

// read adds the complete lines from the offset at on, and returns the offset after them.
func (l *Lines) read(ctx context.Context, from io.Reader, at int64) (int64, error) {
	r := bufio.NewReaderSize(from, 1<<16)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return at, l.flush(ctx) // an incomplete line can still be completed
		}
		if err != nil {
			return at, fmt.Errorf("reading %s: %w", l.name, err)
		}
		l.add(line)
		at += int64(len(line))
		if len(l.batch) >= batchLines {
			if err := l.flush(ctx); err != nil {
				return at, err
			}
		}
	}
}

func (l *Lines) add(line []byte) {
	l.line++
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	t := new(sdk.Trace)
	if err := json.Unmarshal(line, t); err != nil || t.ID == "" || !t.HasCosts() {
		l.left++
		if l.warn != nil {
			l.warn(l.line)
		}
		return
	}
	l.batch = append(l.batch, store.Entry{Trace: t, JSON: line})
}

func (l *Lines) flush(ctx context.Context) error {
	if len(l.batch) == 0 {
		return nil
	}
	err := l.Record(ctx, l.batch)
	if out, some := errors.AsType[*store.LeftOutError](err); some {
		l.left += len(out.Reasons)
	} else if err != nil { // the next refresh retries
		return err
	}
	l.batch = l.batch[:0]
	return nil
}

// readCurrent calls read after a refresh.
func readCurrent[T any](ctx context.Context, l *Lines, read func() (T, error)) (found T, err error) {
	if err := l.refresh(ctx); err != nil {
		return found, err
	}
	return read()
}

// Trace implements [store.TraceReader].
func (l *Lines) Trace(ctx context.Context, id string) (*sdk.Trace, error) {
	return readCurrent(ctx, l, func() (*sdk.Trace, error) { return l.Temporary.Trace(ctx, id) })
}

// Steps implements [store.TraceReader].
func (l *Lines) Steps(ctx context.Context, f store.Filter) ([]store.Step, error) {
	return readCurrent(ctx, l, func() ([]store.Step, error) { return l.Temporary.Steps(ctx, f) })
}

// Follow implements [store.TraceReader].
func (l *Lines) Follow(ctx context.Context, after int64, f store.Filter) ([]store.Step, error) {
	return readCurrent(ctx, l, func() ([]store.Step, error) { return l.Temporary.Follow(ctx, after, f) })
}

// LastSeq implements [store.TraceReader].
func (l *Lines) LastSeq(ctx context.Context) (int64, error) {
	return readCurrent(ctx, l, func() (int64, error) { return l.Temporary.LastSeq(ctx) })
}

// Sums implements [store.TraceReader].
func (l *Lines) Sums(ctx context.Context, by []store.Dimension, f store.Filter) ([]store.Sum, error) {
	return readCurrent(ctx, l, func() ([]store.Sum, error) { return l.Temporary.Sums(ctx, by, f) })
}

// Runs implements [store.TraceReader].
func (l *Lines) Runs(ctx context.Context, f store.Filter) ([]store.Sum, error) {
	return readCurrent(ctx, l, func() ([]store.Sum, error) { return l.Temporary.Runs(ctx, f) })
}

// firstBytes returns the first n bytes of a text, or fewer so as not to split a character.
func firstBytes(text string, n int) string {
	return strings.ToValidUTF8(text[:min(n, len(text))], "")
}
