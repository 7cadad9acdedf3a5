package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/adapters/internal/view"
	"github.com/stepfall/stepfall/sdk/redact"
)

// sqliteMagic is the header of every SQLite file.
const sqliteMagic = "SQLite format 3\x00"

// traceSource is an open source of traces.
type traceSource struct {
	view.Options
	close func() error
}

// openTraces opens traces: a file of JSON lines, which is followed as it grows, a SQLite file, a store's URL, or "-"
// for standard input. It skips lines that are not traces, such as one cut off by a crash, with a warning.
func openTraces(ctx context.Context, s Streams, arg string) (*traceSource, error) {
	warn := func(name string) func(int) {
		return func(line int) { fmt.Fprintf(s.Err, "%s:%d: skipped: not a trace\n", say.Plain(name), line) }
	}
	if arg == "-" {
		lines, err := view.ReadLines(ctx, "standard input", s.In, warn("standard input"))
		if err != nil {
			return nil, err
		}
		return &traceSource{view.Options{Traces: lines, LeftOut: lines.LeftOut, Source: "standard input"}, lines.Close}, nil
	}
	if isStore(arg) {
		shared, err := full.OpenStore(ctx, arg, nil)
		if err != nil {
			return nil, err
		}
		return &traceSource{view.Options{Traces: shared, Source: redact.Addresses(arg)}, shared.Close}, nil
	}
	lines, err := view.OpenLines(ctx, arg, warn(arg))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w\nA policy with trace { file = %q } writes one; --file names another", err, arg)
	}
	if err != nil {
		return nil, err
	}
	return &traceSource{view.Options{Traces: lines, LeftOut: lines.LeftOut, Source: arg}, lines.Close}, nil
}

// checkTraces returns an error for a source that has lines but no traces.
func (t *traceSource) checkTraces(read int) error {
	if read == 0 && t.LeftOut != nil && t.LeftOut() > 0 {
		return fmt.Errorf("%s holds no traces", t.Source)
	}
	return nil
}

// isStore reports whether traces are in a database rather than in a file of lines.
func isStore(arg string) bool { return strings.Contains(arg, "://") || isSQLite(arg) }

func isSQLite(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false // the caller that opens it reports why
	}
	defer file.Close()
	head := make([]byte, len(sqliteMagic))
	_, err = io.ReadFull(file, head)
	return err == nil && string(head) == sqliteMagic
}
