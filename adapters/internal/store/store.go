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

// Store is an engine that processes share. It is safe for concurrent use.
type Store interface {
	Accounts
	Traces
	Keys
	Notes
	// Prune deletes what is older than is to be kept, at most so many of each kind, and
	// returns how many it deleted. Sums by day stay, and so does what a cap may still go by.
	Prune(ctx context.Context, r Retention, most int) (PruneCounts, error)
	// Ping returns what keeps the engine from being used, if anything.
	Ping(ctx context.Context) error
	// Close lets go of the engine. What was written stays.
	Close() error
}

// Accounts hold what is spent and what is set aside, in whole units.
type Accounts interface {
	// Reserve makes all the charges or none. The id is the caller's: random, and used
	// once; making the same reservation again, because an answer was lost, changes
	// nothing. What has no room is refused with a [*RefusedError]. After ttl the
	// reservation counts as spent, until it is settled.
	Reserve(ctx context.Context, id int64, charges []Charge, ttl time.Duration) error
	// Lease reserves a part of what is left under one cap: the charge's amount, or an
	// eighth of what is left where that is less, at least least. It returns how much
	// was reserved and when the account's period ends, zero for never. It is refused
	// like a reservation. Until [Accounts.Extend] says otherwise, 1/[LeaseShare] of it, at
	// least least, is taken for handed out.
	Lease(ctx context.Context, id int64, c Charge, least int64, ttl time.Duration) (amount int64, until time.Time, err error)
	// Settle books what was spent, by the account's name, in place of what was reserved
	// under the id, also after its ttl. An account that is not named has spent nothing.
	// An id that is settled or unknown changes nothing.
	Settle(ctx context.Context, id int64, spent map[string]int64) error
	// Extend makes the ttl of leases begin anew and notes their states, by the ids. It
	// returns those whose time is over already, and which it changes not.
	Extend(ctx context.Context, leases map[int64]LeaseState, ttl time.Duration) (ended []int64, err error)
	// Release has what an account's reservations hold come back where nobody settles them,
	// now where their time is over, else when it is: the operator knows that nothing was
	// spent. What is settled after all is booked all the same.
	Release(ctx context.Context, account string) error
	// Balances returns the accounts whose names begin with prefix, by name: the
	// present period of each. Where most is not 0 these are at most so many, those that
	// hold most, the largest first.
	Balances(ctx context.Context, prefix string, most int) ([]Balance, error)
}

// Charge is what one call may cost one account at most.
type Charge struct {
	Account string
	Amount  int64
	// Cap is the most that may ever be spent and reserved together; 0 is no limit.
	Cap int64
	// Period is after how long the account begins anew, counted from the Unix epoch;
	// 0 is never.
	Period time.Duration
	// Returns says that a reservation which is not settled in time counts as given
	// back, not as spent: for slots such as streams under way, which end with their process.
	Returns bool
}

// Balance is what an account holds.
type Balance struct {
	Account         string
	Spent, Reserved int64
	// Unsettled is what of Spent was reserved and never settled: nobody knows whether it
	// was billed.
	Unsettled int64
	// Until is when the first of what is Reserved counts as spent, or returns if it was leased, unless
	// its process settles or renews it; zero where nothing is.
	Until time.Time
}

// LeaseState says what became of a lease.
type LeaseState struct {
	// HandedOut is how much of it may have been handed out to calls: so much of one that is
	// not settled in time counts as spent, and the rest is free again.
	HandedOut int64
	// Settled is how much of HandedOut is known to be spent, which [Accounts.Release] does
	// not return.
	Settled int64
}

// RefusedError says which account leaves no room. It is sdk.ErrBudgetExhausted.
type RefusedError struct {
	Account     string
	Left, Asked int64
	// Until is when the account begins anew; zero for never.
	Until time.Time
}

// Error names the account.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s has %d left and %d are needed: %v", e.Account, max(0, e.Left), e.Asked, sdk.ErrBudgetExhausted)
}

// Unwrap returns sdk.ErrBudgetExhausted.
func (e *RefusedError) Unwrap() error { return sdk.ErrBudgetExhausted }

var (
	// ErrVersion is wrapped by the error of opening a store that this program is too
	// old for.
	ErrVersion = errors.New("the store's tables are of another version")
	// ErrNotFound is wrapped where the store has no such trace or key.
	ErrNotFound = errors.New("not in the store")
	// ErrReplaced is wrapped when the accounts are not those that the process began
	// with: an empty or another database has come in their place. What was spent is
	// not known, and nothing is granted until they are back: it is sdk.ErrStoreUnavailable.
	ErrReplaced = fmt.Errorf("%w: the accounts are gone or were replaced", sdk.ErrStoreUnavailable)
)

// NanoUSD is the unit in which accounts of money count: 1e9 to the dollar.
const NanoUSD = 1e9

// MostUSD is more than anybody spends, and far from where nano-dollars overflow.
const MostUSD = 1e9

// nano turns US dollars into billionths, rounded up: a cap is never passed by rounding.
func nano(usd float64) (int64, error) {
	if math.IsNaN(usd) || usd < 0 || usd > MostUSD {
		return 0, fmt.Errorf("%v US dollars is no amount to charge", usd)
	}
	// What a sum of floats adds below a millionth of the unit is no money.
	return int64(math.Ceil(usd*NanoUSD - 1e-6)), nil
}

// LeaseShare is how many leases of the size of one what is left would make, and how much
// of a lease may be handed out at first.
const LeaseShare = 8

// HandedOut is how much of a new lease is taken for handed out.
func HandedOut(amount, least int64) int64 { return max(least, amount/LeaseShare) }

// TenantAccount and RunAccount name the accounts of a tenant, and of a run, which is
// its tenant's.
func TenantAccount(tenant string) string { return fmt.Sprintf("tenant %q", tenant) }

// RunAccount names the account of a run.
func RunAccount(tenant, run string) string { return fmt.Sprintf(runPrefix+"%q %q", tenant, run) }

const runPrefix = "run "

// Largest returns the accounts of tenants and keys that hold most, at most n.
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
