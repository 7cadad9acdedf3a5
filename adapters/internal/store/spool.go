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

// spool keeps traces that wait for the store in files of its folder, so that they
// outlive the process: what was written to a file is there also when the process is
// killed. A file is locked by its process, and belongs to anybody when that has ended.
type spool struct {
	dir     string
	files   []*spoolFile // the last one is written to
	failing bool         // the last trace could not be kept
	// aside has traces that are nowhere else: whoever looks for what was left behind writes
	// them, this process too, once it is let go. room is how much the folder may hold.
	aside *spoolFile
	room  int64
}

// spoolFile is a file with traces, of which left wait for the store.
type spoolFile struct {
	file *os.File
	left int
	size int
}

// spoolStore is a line of the file.
type spoolStore struct {
	Key   string     `json:"key,omitempty"`
	Trace *sdk.Trace `json:"trace"`
}

const (
	spoolSuffix = ".traces.jsonl"
	// spoolSize is how long a file gets before another one is begun, so that those
	// whose traces are written can go.
	spoolSize = 16 << 20
)

// keep writes a trace and returns the file that it is in. It returns an error only for
// the first of several that cannot be kept.
func (s *spool) keep(e Entry) (*spoolFile, error) {
	file, err := s.append(e)
	if err == nil {
		s.failing = false
		return file, nil
	}
	if s.failing {
		return nil, nil //nolint:nilnil // it was told
	}
	s.failing = true
	return nil, fmt.Errorf("a trace is in memory alone: %w", err)
}

func (s *spool) append(e Entry) (*spoolFile, error) {
	file, err := s.current()
	if err == nil {
		err = file.write(e)
	}
	if err != nil {
		return nil, err
	}
	return file, nil
}

func (f *spoolFile) write(e Entry) error {
	// As Marshal of spooled would write it.
	key, err := json.Marshal(e.Key)
	if err != nil {
		return err
	}
	n, err := f.file.Write(slices.Concat([]byte(`{"key":`), key, []byte(`,"trace":`), e.JSON, []byte("}\n")))
	f.size += n
	if err != nil {
		f.size = spoolSize // nothing is written behind half a line
		return err
	}
	f.left++
	return nil
}

// setAside writes a trace that memory has no room for.
func (s *spool) setAside(e Entry) error {
	if s.aside != nil && s.aside.size >= spoolSize {
		if err := s.release(); err != nil {
			return err
		}
	}
	if s.aside == nil {
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
		s.aside = &spoolFile{file: file}
	}
	return s.aside.write(e)
}

// release lets go of what was set aside, so that it is written.
func (s *spool) release() error {
	if s.aside == nil {
		return nil
	}
	file := s.aside.file
	s.aside = nil
	return file.Close()
}

// size is how much the folder holds, of all processes.
func (s *spool) size() (sum int64, err error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else it is gone
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

// create makes a file that is locked before anybody else could take it for left behind.
func (s *spool) create() (*os.File, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	for range 100 {
		file, err := os.CreateTemp(s.dir, "*"+spoolSuffix)
		if err != nil {
			return nil, err
		}
		if filelock.Take(file) == nil && stillThere(file) {
			return file, nil
		}
		file.Close()
	}
	return nil, fmt.Errorf("%s: no file can be locked", s.dir)
}

func stillThere(file *os.File) bool {
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

// close leaves the files in which something waits to whoever comes next.
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

// remove empties the file first: where open files cannot be removed, whoever takes it
// between the two steps finds nothing.
func remove(file *os.File) error {
	return errors.Join(file.Truncate(0), file.Close(), os.Remove(file.Name()))
}

// adopt gives what processes that have ended left in the folder to write, in batches,
// and removes each file whose traces were written. It returns how many lines were no
// traces and are lost. It may be called beside the other methods: it touches no file
// that is in use.
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
			continue // another was quicker
		}
		if err != nil {
			faults = append(faults, err) // another user's; the others are not held up
			continue
		}
		if filelock.Take(file) != nil {
			file.Close() // it is in use
			continue
		}
		bad, err := importFile(ctx, file, batch, write)
		if err != nil {
			return lost, errors.Join(append(faults, fmt.Errorf("traces left in %s: %w", file.Name(), err), file.Close())...)
		}
		if lost += bad; bad > 0 {
			faults = append(faults, fmt.Errorf("%d lines of %s were no traces and are lost", bad, file.Name()))
		}
		if err := remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			faults = append(faults, err)
		}
	}
	return lost, errors.Join(faults...)
}

// lineBytes is longer than any line that is written.
const lineBytes = 128 << 20

// importFile writes the traces of a file and returns how many of its lines are none. The last
// line may be cut: the process may have ended while it wrote it.
func importFile(ctx context.Context, file *os.File, batch int, write func([]Entry) error) (lost int, err error) {
	lines := bufio.NewReader(untilDone{ctx, file})
	for ended := false; !ended; {
		var entries []Entry
		for size := 0; len(entries) < batch && size < batchBytes && !ended; {
			line, err := readLine(lines)
			if ended = errors.Is(err, io.EOF); err != nil && !ended {
				return lost, err
			}
			var one spoolStore
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

// readLine reads a line; of one that is longer than any that was written it keeps nothing.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line) <= lineBytes {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(line) > lineBytes {
			line = nil
		}
		return line, err
	}
}

// untilDone reads until its context ends.
type untilDone struct {
	ctx context.Context
	io.Reader
}

func (r untilDone) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
