package view

import (
	"context"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

// EachTrace calls yield with the whole trace of every step that the filter selects, in the order of recording.
func EachTrace(ctx context.Context, r store.TraceReader, f store.Filter, yield func(*sdk.Trace)) error {
	const page = 500
	f.Limit = page
	from := &sampler{from: r}
	for last := int64(0); ; {
		lines, traces, err := from.follow(ctx, last, f)
		if err != nil || len(lines) == 0 {
			return err
		}
		for i := range lines {
			if t := traces[lines[i].ID]; t != nil { // it may have been pruned meanwhile
				yield(t)
			}
			last = lines[i].Seq
		}
	}
}
