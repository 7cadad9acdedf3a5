package view

import (
	"context"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

// Reader is where the pages find steps: the reading part of [store.Traces]. It must
// be safe for concurrent use.
type Reader interface {
	StepReader
	SumReader
}

// StepReader reads steps; see [store.Traces].
type StepReader interface {
	// Trace returns the step with that id, whole.
	Trace(ctx context.Context, id string) (*sdk.Trace, error)
	// Whole returns the steps with these ids, whole, in any order.
	Whole(ctx context.Context, ids []string) ([]*sdk.Trace, error)
	// Steps lists steps, the newest first.
	Steps(ctx context.Context, f store.Filter) ([]store.Step, error)
	// Follow lists steps that came after a sequence number, the oldest first.
	Follow(ctx context.Context, after int64, f store.Filter) ([]store.Step, error)
}

// SumReader reads sums over steps; see [store.Traces].
type SumReader interface {
	// Sums adds up steps by dimensions.
	Sums(ctx context.Context, by []store.Dimension, f store.Filter) ([]store.Sum, error)
	// Runs adds up steps by run, the newest first.
	Runs(ctx context.Context, f store.Filter) ([]store.Sum, error)
}

// EachTrace calls yield with every step that the filter selects, whole, in the order in which
// they were recorded.
func EachTrace(ctx context.Context, r StepReader, f store.Filter, yield func(*sdk.Trace)) error {
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
