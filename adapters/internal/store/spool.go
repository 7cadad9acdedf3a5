package store

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/filelock"
	"github.com/stepfall/stepfall/sdk"
)

// spool holds waiting traces in files, so that they survive a kill of the process. A file is locked by its process,
// and free for any process when that one has ended.
type spool struct {
	dir     string
	files   []*spoolFile // the last one is open for writing
	failing bool         // the last write failed
	// overflow holds traces that are not in memory. Once it is unlocked, [spool.adopt] of any process writes them.
	// room bounds the folder, in bytes.
	overflow *spoolFile
	room     int64
}

// spoolFile is a file of traces, of which left are not yet in the store.
type spoolFile struct {
	file *os.File
	left int
	size int
}

// spooledTrace is one line of a spoolFile.
type spooledTrace struct {
	Key   string     `json:"key,omitempty"`
	Trace *sdk.Trace `json:"trace"`
}

const (
	spoolSuffix = ".traces.jsonl"
	// spoolSize is the size at which a new file is started, so that finished ones can be removed.
	spoolSize = 16 << 20
)

// keep writes a trace and returns its file. Of several failures in a row only the first returns an error; the others
// return nil, nil.
func (s *spool) keep(e Entry) (*spoolFile, error) {
	file, err := s.current()
	if err == nil {
		err = file.write(e)
	}
	if err == nil {
		s.failing = false
		return file, nil
	}
	if s.failing {
		return nil, nil //nolint:nilnil // it was told
	}
	s.failing = true
	return nil, fmt.Errorf("a trace is only in memory: %w", err)
}

func (f *spoolFile) write(e Entry) error {
	// The same as json.Marshal of a spooledTrace, without encoding the trace again.
	key, err := json.Marshal(e.Key)
	if err != nil {
		return err
	}
	n, err := f.file.Write(slices.Concat([]byte(`{"key":`), key, []byte(`,"trace":`), e.JSON, []byte("}\n")))
	f.size += n
	if err != nil {
		f.size = spoolSize // nothing is appended to a partial line
		return err
	}
	f.left++
	return nil
}

// writeOverflow writes a trace that memory has no room for to the overflow file.
func (s *spool) writeOverflow(e Entry) error {
	if s.overflow != nil && s.overflow.size >= spoolSize {
		if err := s.release(); err != nil {
			return err
		}
	}
	if s.overflow == nil {
		used, err := s.size()
		if err == nil && used+spoolSize > s.room {
			err = fmt.Errorf("%w: %d MB in %s", errFull, used>>20, s.dir)
		}
		if err != nil {
			return err
		}
		file, err := s.create()
		if err != nil {
			return err
		}
		s.overflow = &spoolFile{file: file}
	}
	return s.overflow.write(e)
}

// release unlocks the overflow file, so that adopt writes it.
func (s *spool) release() error {
	if s.overflow == nil {
		return nil
	}
	file := s.overflow.file
	s.overflow = nil
	return file.Close()
}

// size returns the size of the folder in bytes, files of all processes included.
func (s *spool) size() (sum int64, err error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else it was removed meanwhile
			sum += info.Size()
		}
	}
	return sum, err
}

func (s *spool) current() (*spoolFile, error) {
	if n := len(s.files); n > 0 {
		if last := s.files[n-1]; last.size < spoolSize {
			return last, nil
		} else if last.left == 0 {
			s.files = s.files[:n-1]
			if err := remove(last.file); err != nil {
				return nil, err
			}
		}
	}
	file, err := s.create()
	if err != nil {
		return nil, err
	}
	f := &spoolFile{file: file}
	s.files = append(s.files, f)
	return f, nil
}

// create makes and locks a file. It retries where another process adopted the file before it was locked.
func (s *spool) create() (*os.File, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	for range 100 {
		file, err := os.CreateTemp(s.dir, "*"+spoolSuffix)
		if err != nil {
			return nil, err
		}
		if filelock.Take(file) == nil && isAtPath(file) {
			return file, nil
		}
		file.Close()
	}
	return nil, fmt.Errorf("%s: cannot lock a file", s.dir)
}

func isAtPath(file *os.File) bool {
	here, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(file.Name())
	return err == nil && os.SameFile(here, there)
}

func (s *spool) markStored(f *spoolFile) error {
	if f.left--; f.left > 0 {
		return nil
	}
	if f == s.files[len(s.files)-1] {
		f.size = 0
		_, err := f.file.Seek(0, io.SeekStart)
		return errors.Join(f.file.Truncate(0), err)
	}
	s.files = slices.DeleteFunc(s.files, func(o *spoolFile) bool { return o == f })
	return remove(f.file)
}

// close unlocks the files with waiting traces for a later process, and removes the others.
func (s *spool) close() error {
	err := s.release()
	for _, f := range s.files {
		if f.left == 0 {
			err = errors.Join(err, remove(f.file))
		} else {
			err = errors.Join(err, f.file.Close())
		}
	}
	s.files = nil
	return err
}

// remove empties the file first: where open files cannot be removed, a process that opens it after the close finds
// nothing.
func remove(file *os.File) error {
	return errors.Join(file.Truncate(0), file.Close(), os.Remove(file.Name()))
}

// adopt passes the traces of ended processes to write, in batches, and removes each finished file. lost counts the
// lines that were no traces. It is safe to call concurrently with the other methods: it touches no file that is in
// use.
func (s *spool) adopt(ctx context.Context, batch int, write func([]Entry) error) (lost int, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	var faults []error
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), spoolSuffix) || !e.Type().IsRegular() {
			continue
		}
		file, err := os.OpenFile(filepath.Join(s.dir, e.Name()), os.O_RDWR|filelock.NoFollow, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue // another process adopted it
		}
		if err != nil {
			faults = append(faults, err) // such as another user's file; continue with the others
			continue
		}
		if filelock.Take(file) != nil {
			file.Close() // in use
			continue
		}
		bad, err := importFile(ctx, file, batch, write)
		if err != nil {
			return lost, errors.Join(append(faults, fmt.Errorf("traces left in %s: %w", file.Name(), err), file.Close())...)
		}
		if lost += bad; bad > 0 {
			faults = append(faults, fmt.Errorf("%d lines of %s were not traces and are lost", bad, file.Name()))
		}
		if err := remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			faults = append(faults, err)
		}
	}
	return lost, errors.Join(faults...)
}

// maxLineBytes is more than any line that is written.
const maxLineBytes = 128 << 20

// importFile writes the traces of a file and returns how many of its lines are not traces. The last line does not
// count: a killed process can have cut it off.
func importFile(ctx context.Context, file *os.File, batch int, write func([]Entry) error) (lost int, err error) {
	lines := bufio.NewReader(contextReader{ctx, file})
	for ended := false; !ended; {
		var entries []Entry
		for size := 0; len(entries) < batch && size < batchBytes && !ended; {
			line, err := readLine(lines)
			if ended = errors.Is(err, io.EOF); err != nil && !ended {
				return lost, err
			}
			var one spooledTrace
			switch {
			case json.Unmarshal(line, &one) == nil && one.Trace != nil:
				entries = append(entries, Entry{Trace: one.Trace, Key: one.Key})
				size += len(line)
			case !ended:
				lost++
			}
		}
		if len(entries) == 0 {
			continue
		}
		if err := write(entries); err != nil {
			return lost, err
		}
	}
	return lost, nil
}

// readLine reads a line; nil if it is longer than maxLineBytes.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line) <= maxLineBytes {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(line) > maxLineBytes {
			line = nil
		}
		return line, err
	}
}

// contextReader fails once its context has ended.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
