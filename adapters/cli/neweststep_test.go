package cli

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/sqlite"
	"github.com/stepfall/stepfall/sdk"
)

// countedLines counts the lines read from a list.
type countedLines struct {
	store.TraceReader
	lines int
}

func (c *countedLines) Steps(ctx context.Context, f store.Filter) ([]store.Step, error) {
	list, err := c.TraceReader.Steps(ctx, f)
	c.lines += len(list)
	return list, err
}

func (c *countedLines) Follow(ctx context.Context, after int64, f store.Filter) ([]store.Step, error) {
	list, err := c.TraceReader.Follow(ctx, after, f)
	c.lines += len(list)
	return list, err
}

// The newest step is found without reading the others, even below later verdicts.
func TestNewestStepIsFoundWithoutReadingAll(t *testing.T) {
	db, err := sqlite.NewTemporary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	from := &countedLines{TraceReader: db}
	if id, err := newestStep(t.Context(), from); id != "" || err != nil {
		t.Errorf("of none: %q, %v", id, err)
	}
	const steps, verdicts = 1000, 150
	for i := range steps + verdicts {
		tr := &sdk.Trace{ID: fmt.Sprint("step", i), Start: time.Unix(int64(i), 0)}
		if i >= steps {
			tr.Mode = sdk.ModeVerdict
		}
		if err := db.Record(t.Context(), []store.Entry{{Trace: tr, JSON: []byte("{}")}}); err != nil {
			t.Fatal(err)
		}
	}
	if id, err := newestStep(t.Context(), from); id != fmt.Sprint("step", steps-1) || err != nil || from.lines > verdicts+100 {
		t.Errorf("%q after %d lines, %v", id, from.lines, err)
	}
}
