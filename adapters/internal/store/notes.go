package store

import (
	"context"
	"time"
)

// Notes stores small records with an expiry that processes share, such as open circuits and the model that serves a
// conversation.
type Notes interface {
	// Post writes a note, replacing an earlier one of the same kind and name.
	Post(ctx context.Context, kind, name string, note []byte, ttl time.Duration) error
	// Claim writes a note unless an unexpired one of the same kind and name exists, and reports whether it did.
	Claim(ctx context.Context, kind, name string, note []byte, ttl time.Duration) (bool, error)
	// Note returns an unexpired note, or nil.
	Note(ctx context.Context, kind, name string) ([]byte, error)
	// Notes returns all unexpired notes of a kind, by name.
	Notes(ctx context.Context, kind string) (map[string][]byte, error)
	// Add adds delta to numbers that all processes share and returns the sums. An empty delta only reads.
	Add(ctx context.Context, kind, name string, delta []float64) ([]float64, error)
}
