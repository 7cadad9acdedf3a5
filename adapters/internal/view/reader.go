package view

import (
	"context"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

// EachTrace calls yield with every step that the filter selects, whole, in the order in which
// they were recorded.
func EachTrace(ctx context.Context, r store.TraceReader, f store.Filter, yield func(*sdk.Trace)) error {
	const page = 500
	f.Limit = page
	for last := int64(0); ; {
		lines, err := r.Follow(ctx, last, f)
		if err != nil || len(lines) == 0 {
			return err
		}
		ids := make([]string, len(lines))
		for i := range lines {
			ids[i] = lines[i].ID
		}
		whole, err := r.Whole(ctx, ids)
		if err != nil {
			return err
		}
		byID := make(map[string]*sdk.Trace, len(whole))
		for _, t := range whole {
			byID[t.ID] = t
		}
		for i := range lines {
			if t := byID[lines[i].ID]; t != nil { // it may just have been pruned
				yield(t)
			}
			last = lines[i].Seq
		}
	}
}
