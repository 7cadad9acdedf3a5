package store

import (
	"context"
	"time"
)

// Key is a gateway key with its limits. A zero limit means none.
type Key struct {
	// ID identifies the key; it is not secret.
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	// Note is free text of the operator.
	Note    string    `json:"note,omitempty"`
	Created time.Time `json:"created"`
	// Expires is when the key ends and Revoked when it was revoked; zero means never.
	Expires time.Time `json:"expires,omitzero"`
	Revoked time.Time `json:"revoked,omitzero"`
	// CapUSD is the most that the key may spend in each CapPeriod, counted from the Unix epoch; a period of 0 never
	// ends.
	CapUSD    float64       `json:"cap_usd,omitempty"`
	CapPeriod time.Duration `json:"cap_period_ns,omitempty"`
	// RequestsPerMinute and TokensPerMinute are shared by all replicas and count clock minutes; Streams bounds the
	// requests in flight.
	RequestsPerMinute int64 `json:"requests_per_minute,omitempty"`
	TokensPerMinute   int64 `json:"tokens_per_minute,omitempty"`
	Streams           int64 `json:"streams,omitempty"`
	// Operator allows the key to read the spend of all tenants.
	Operator bool `json:"operator,omitempty"`
}

// Valid reports whether the key may be used at now.
func (k *Key) Valid(now time.Time) bool {
	return k != nil && k.Revoked.IsZero() && (k.Expires.IsZero() || now.Before(k.Expires))
}

// Keys stores keys by the digest of their secret, so that reading the store reveals no secret.
type Keys interface {
	// PutKey writes a key, replacing an earlier one of the same ID. A non-empty digest gives the key a new secret;
	// its earlier secrets stop working at earlierUntil.
	PutKey(ctx context.Context, k *Key, digest []byte, earlierUntil time.Time) error
	// KeyByDigest returns the key with this secret, valid or not, or an error that wraps ErrNotFound.
	KeyByDigest(ctx context.Context, digest []byte) (*Key, error)
	// ListKeys returns all keys in the order of their IDs, or only the one with this id.
	ListKeys(ctx context.Context, id string) ([]Key, error)
}
