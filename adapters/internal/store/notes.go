package store

import (
	"context"
	"time"
)

// Notes are small records that processes share and that end by themselves: circuits that
// are open, which model a conversation is with.
type Notes interface {
	// Post writes a note over an earlier one of the same kind and name.
	Post(ctx context.Context, kind, name string, note []byte, ttl time.Duration) error
	// Claim writes a note unless there is one of the same kind and name that has not
	// ended, and reports whether it did.
	Claim(ctx context.Context, kind, name string, note []byte, ttl time.Duration) (bool, error)
	// Note returns a note that is there and has not ended, or nil.
	Note(ctx context.Context, kind, name string) ([]byte, error)
	// Notes returns all of a kind, by name.
	Notes(ctx context.Context, kind string) (map[string][]byte, error)
	// Add adds to numbers that all processes share and returns the sums. An empty
	// delta reads.
	Add(ctx context.Context, kind, name string, delta []float64) ([]float64, error)
}
