package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// Store is a storage engine shared by processes. It is safe for concurrent use.
type Store interface {
	Accounts
	Traces
	Keys
	Notes
	// Prune deletes rows past their retention, at most most of each kind, and returns how many it deleted. Sums by
	// day are kept, and so is everything that a cap may still depend on.
	Prune(ctx context.Context, r Retention, most int) (PruneCounts, error)
	// Ping returns why the engine cannot be used, or nil.
	Ping(ctx context.Context) error
	// Close releases the engine.
	Close() error
}

// Accounts stores spend and reservations, in integer units.
type Accounts interface {
	// Reserve makes all the charges or none. The caller chooses id: random, and used once. Repeating a reservation
	// whose answer was lost changes nothing. A charge without room is refused with a [*RefusedError]. After ttl the
	// reservation counts as spent until it is settled.
	Reserve(ctx context.Context, id int64, charges []Charge, ttl time.Duration) error
	// Lease reserves a part of what is left under one cap: the charge's amount, or an eighth of what is left where
	// that is less, but no less than least. It returns the amount and when the account's period ends, zero for never.
	// It is refused like a reservation. Until [Accounts.Extend] updates it, 1/[LeaseShare] of the amount, and no less
	// than least, counts as handed out.
	Lease(ctx context.Context, id int64, c Charge, least int64, ttl time.Duration) (amount int64, until time.Time, err error)
	// Settle replaces the reservation id by the amounts spent, by account name, even after its ttl. An account that
	// is not in spent has spent nothing. A settled or unknown id is ignored.
	Settle(ctx context.Context, id int64, spent map[string]int64) error
	// Extend restarts the ttl of leases and stores their states, by id. It returns the leases that have already
	// expired, which it leaves unchanged.
	Extend(ctx context.Context, leases map[int64]LeaseState, ttl time.Duration) (ended []int64, err error)
	// Release frees what an account's unsettled reservations hold: expired ones now, the others when they expire. The
	// operator asserts that nothing was spent. A late settlement is still booked.
	Release(ctx context.Context, account string) error
	// Balances returns the current period of the accounts whose names begin with prefix, by name. With most > 0 it
	// returns at most that many, the largest spend and reservation first.
	Balances(ctx context.Context, prefix string, most int) ([]Balance, error)
}

// Charge is the most that one call may cost one account.
type Charge struct {
	Account string
	Amount  int64
	// Cap is the most that may ever be spent and reserved together; 0 means no limit.
	Cap int64
	// Period is the length of the account's periods, counted from the Unix epoch; 0 means a single one.
	Period time.Duration
	// Returns marks a reservation that is given back, not spent, when it is not settled in time: for slots such as
	// streams in flight, which end with their process.
	Returns bool
}

// Balance is the state of an account in its current period.
type Balance struct {
	Account         string
	Spent, Reserved int64
	// Unsettled is the part of Spent that was reserved and never settled: whether it was billed is unknown.
	Unsettled int64
	// Until is when the first part of Reserved counts as spent, or returns if it was leased, unless its process
	// settles or renews it; zero without reservations.
	Until time.Time
}

// LeaseState describes the use of a lease.
type LeaseState struct {
	// HandedOut is how much of the lease may have been handed out to calls. If the lease expires, this much counts as
	// spent and the rest is free again.
	HandedOut int64
	// Settled is how much of HandedOut is known to be spent; [Accounts.Release] does not return it.
	Settled int64
}

// RefusedError names the account that leaves no room. It wraps sdk.ErrBudgetExhausted.
type RefusedError struct {
	Account     string
	Left, Asked int64
	// Wait is how long it takes until the account's next period starts, by the engine's clock; 0 without periods.
	Wait time.Duration
}

// Error names the account.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s has %d left and %d are needed: %v", e.Account, max(0, e.Left), e.Asked, sdk.ErrBudgetExhausted)
}

// Unwrap returns sdk.ErrBudgetExhausted.
func (e *RefusedError) Unwrap() error { return sdk.ErrBudgetExhausted }

var (
	// ErrVersion is wrapped when the tables of a store have a version that this program cannot use.
	ErrVersion = errors.New("the store's tables have another version")
	// ErrNotFound is wrapped when the store has no such trace or key.
	ErrNotFound = errors.New("not in the store")
	// ErrReplaced is wrapped when the accounts are not those that the process started with: the database is empty or
	// another one. The spend is then unknown, and nothing is granted until the accounts are back. It wraps
	// sdk.ErrStoreUnavailable.
	ErrReplaced = fmt.Errorf("%w: the accounts are gone or were replaced", sdk.ErrStoreUnavailable)
)

// NanoUSD is the number of account units per US dollar.
const NanoUSD = 1e9

// MostUSD bounds amounts, far from where nano-dollars overflow an int64.
const MostUSD = 1e9

// nano converts US dollars to billionths, rounded up: rounding never exceeds a cap.
func nano(usd float64) (int64, error) {
	if math.IsNaN(usd) || usd < 0 || usd > MostUSD {
		return 0, fmt.Errorf("%v US dollars is not an amount to charge", usd)
	}
	// Below a millionth of the unit is rounding error of a float sum.
	return int64(math.Ceil(usd*NanoUSD - 1e-6)), nil
}

// LeaseShare bounds a lease to 1/LeaseShare of what is left, and what may be handed out of a new lease to
// 1/LeaseShare of it.
const LeaseShare = 8

// HandedOut returns how much of a new lease counts as handed out.
func HandedOut(amount, least int64) int64 { return max(least, amount/LeaseShare) }

// TenantAccount names the account of a tenant.
func TenantAccount(tenant string) string { return fmt.Sprintf("tenant %q", tenant) }

// RunAccount names the account of a tenant's run.
func RunAccount(tenant, run string) string { return fmt.Sprintf(runPrefix+"%q %q", tenant, run) }

const runPrefix = "run "

// Largest returns at most n accounts of tenants and keys, the largest spend and reservation first.
func Largest(ctx context.Context, a Accounts, n int) ([]Balance, error) {
	var list []Balance
	for _, prefix := range [...]string{"tenant ", "key "} {
		some, err := a.Balances(ctx, prefix, n)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	slices.SortStableFunc(list, func(a, b Balance) int { return cmp.Compare(b.Spent+b.Reserved, a.Spent+a.Reserved) })
	return list[:min(n, len(list))], nil
}

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

// Notes stores small records that processes share, such as open circuits and the model that serves a conversation. They
// expire by the engine's clock, so that processes whose clocks differ agree.
type Notes interface {
	// Post writes a note, replacing an earlier one of the same kind and name.
	Post(ctx context.Context, kind, name string, note []byte, ttl time.Duration) error
	// Claim writes a note unless an unexpired one of the same kind and name exists, and reports whether it did.
	Claim(ctx context.Context, kind, name string, note []byte, ttl time.Duration) (bool, error)
	// Note returns an unexpired note, or nil.
	Note(ctx context.Context, kind, name string) ([]byte, error)
	// Notes returns in how long each unexpired note of a kind expires, by name.
	Notes(ctx context.Context, kind string) (map[string]time.Duration, error)
	// Add adds delta to numbers that all processes share and returns the sums. An empty delta only reads.
	Add(ctx context.Context, kind, name string, delta []float64) ([]float64, error)
}
