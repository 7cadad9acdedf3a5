package outcome

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/stepfall/stepfall/sdk"
)

// Options say how to read outcomes. The zero value reads every format.
type Options struct {
	// Prompts is a JSON lines file with query_id and prompt (and optionally group), for
	// tables without prompts.
	Prompts string
	// Verified marks the qualities as verdicts of a check that will also judge the
	// models in use.
	Verified bool
	// Chosen leaves out queries with missing models if none of their steps had a choice of models, for
	// instance because a holdout or the caller named one: the others are not missing because of their
	// estimates.
	Chosen bool
	// Prices are the prices of models, by name, to which the costs in traces are converted if they were
	// recorded at others; see [sdk.Price.ConvertUSD]. The costs of other models and formats stay as recorded.
	Prices map[string]sdk.Price
	// Converted, unless nil, is called at a model's first cost that is converted, with the price of that time.
	Converted func(model string, was sdk.Price)
	// LeftOut is called for lines of a trace file that are not traces, such as one truncated
	// by a crash; if it is nil, they are errors.
	LeftOut func(file string, line int)
	// Rotated, unless nil, is called for each older file of traces (path.1 and so on) that is read too.
	Rotated func(file string)
}

// Open reads the outcomes in the files at path as one table; see the package comment for
// the formats.
func Open(path string, o Options) (*Table, error) {
	return o.table(path, func(b *builder) error {
		if strings.Contains(path, "*") {
			return b.readEach(path)
		}
		for _, older := range olderTraces(path) {
			if o.Rotated != nil {
				o.Rotated(older)
			}
			if err := b.file(older, b.read); err != nil {
				return err
			}
		}
		return b.file(path, b.read)
	})
}

// Read is like [Open] for a stream; name is its name in errors. Options.Prompts still names
// a file.
func Read(r io.Reader, name string, o Options) (*Table, error) {
	return o.table(name, func(b *builder) error { return b.stream(r, name, b.read) })
}

func (o *Options) table(name string, read func(*builder) error) (*Table, error) {
	b := newBuilder()
	b.reportLeftOut, b.verified, b.spreadBlame, b.chosen = o.LeftOut, o.Verified, o.Verified, o.Chosen
	b.prices, b.reportConverted = o.Prices, o.Converted
	if err := read(b); err != nil {
		return nil, err
	}
	if o.Prompts != "" {
		if err := b.file(o.Prompts, b.readPrompts); err != nil {
			return nil, err
		}
	}
	t, err := b.table(name)
	if err != nil {
		return nil, err
	}
	t.Verified = o.Verified && len(t.Verdicts) == 0 // with separate verdicts, the quality is the truth
	return t, nil
}

// Error is an error at a position in a file of outcomes.
type Error struct {
	File string
	// Row counts from 1, including the header; 0 means the whole file.
	Row int
	// Column is the name of the column or field; "" means the whole row.
	Column string
	Err    error
}

// Error returns file:row: column "name": what is wrong.
func (e *Error) Error() string {
	place := e.File
	if e.Row > 0 {
		place = fmt.Sprintf("%s:%d", e.File, e.Row)
	}
	if e.Column != "" {
		place = fmt.Sprintf("%s: column %q", place, e.Column)
	}
	return fmt.Sprintf("%s: %v", place, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

type reader func(r *bufio.Reader, name string) error

func (b *builder) file(path string, read reader) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading outcomes: %w", err)
	}
	defer f.Close()
	return b.stream(f, path, read)
}

// stream reads r, which can be compressed with gzip.
func (b *builder) stream(r io.Reader, name string, read reader) error {
	buffered := bufio.NewReaderSize(&rows{r: r}, 1<<16)
	if magic, _ := buffered.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return &Error{File: name, Err: err}
		}
		defer unzipped.Close()
		buffered = bufio.NewReaderSize(&rows{r: unzipped}, 1<<16)
	}
	return read(buffered, name)
}

// maxRow is the length of the longest line that is read, since a small compressed file can contain one that
// fills the memory.
const maxRow = 64 << 20

// rows reads text, and fails on a line that is longer than maxRow.
type rows struct {
	r    io.Reader
	line int
}

// Read implements io.Reader.
func (r *rows) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if i := bytes.LastIndexByte(p[:n], '\n'); i >= 0 {
		r.line = n - i - 1
	} else {
		r.line += n
	}
	if r.line > maxRow {
		return 0, fmt.Errorf("a line of more than %d MiB", maxRow>>20)
	}
	return n, err
}

// read detects the format by the first byte and, for CSV, the header.
func (b *builder) read(r *bufio.Reader, name string) error {
	first, err := firstByte(r)
	switch {
	case errors.Is(err, io.EOF):
		return &Error{File: name, Err: fmt.Errorf("empty: no header and no rows")}
	case err != nil:
		return &Error{File: name, Err: err}
	}
	switch first {
	case '{':
		return b.readJSON(r, name)
	case '[':
		return &Error{File: name, Row: 1, Err: errors.New("a JSON array: want one object a line")}
	case 0xff, 0xfe, 0:
		return &Error{File: name, Row: 1, Err: errors.New("not UTF-8: save the file as UTF-8")}
	case 0x1f:
		return &Error{File: name, Err: errors.New("compressed twice")}
	}
	return b.readCSV(r, name)
}

// firstByte drops a byte-order mark and white space, and returns what follows
// without consuming it.
func firstByte(r *bufio.Reader) (byte, error) {
	if mark, _ := r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		if _, err := r.Discard(3); err != nil {
			return 0, err
		}
	}
	for {
		c, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if strings.IndexByte(" \n\r\t", c) < 0 {
			return c, r.UnreadByte()
		}
	}
}
