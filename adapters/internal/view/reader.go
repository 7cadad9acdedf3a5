package view

import (
	"context"

	"github.com/stepfall/stepfall/adapters/store"
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
