package store

import (
	"context"
	"time"
)

// Key is a key of the gateway and what it allows. Zero limits are none.
type Key struct {
	// ID names the key; it is no secret.
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	// Note is the operator's: whose it is, what for.
	Note    string    `json:"note,omitempty"`
	Created time.Time `json:"created"`
	// Expires and Revoked are when the key ends or has ended; zero for never.
	Expires time.Time `json:"expires,omitzero"`
	Revoked time.Time `json:"revoked,omitzero"`
	// CapUSD is the most that the key may spend in each CapPeriod, counted from the
	// Unix epoch; a period of 0 is for ever.
	CapUSD    float64       `json:"cap_usd,omitempty"`
	CapPeriod time.Duration `json:"cap_period_ns,omitempty"`
	// RequestsPerMinute and TokensPerMinute hold in all replicas together, by the
	// minute of the clock; Streams is how many requests may be under way at once.
	RequestsPerMinute int64 `json:"requests_per_minute,omitempty"`
	TokensPerMinute   int64 `json:"tokens_per_minute,omitempty"`
	Streams           int64 `json:"streams,omitempty"`
	// Operator keys may read the spending of everybody.
	Operator bool `json:"operator,omitempty"`
}

// Valid says whether the key may be used at that time.
func (k *Key) Valid(now time.Time) bool {
	return k != nil && k.Revoked.IsZero() && (k.Expires.IsZero() || now.Before(k.Expires))
}

// Keys keep keys by the digest of their secret: whoever reads the store has none.
type Keys interface {
	// PutKey writes a key, over an earlier one of the same ID. With a digest the key
	// has a new secret, and those before it end at that time.
	PutKey(ctx context.Context, k *Key, digest []byte, earlierUntil time.Time) error
	// KeyByDigest returns the key with this secret, valid or not, or an error that is
	// ErrNotFound.
	KeyByDigest(ctx context.Context, digest []byte) (*Key, error)
	// ListKeys returns all keys by ID, or the one with this ID.
	ListKeys(ctx context.Context, id string) ([]Key, error)
}
