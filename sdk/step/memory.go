package step

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// Caps are hard limits in US dollars; 0 is no limit. A query without a [sdk.Query.RunName] counts against
// no run, and one without a tenant against the tenant "". Runs belong to tenants: two tenants' runs of
// the same name are different runs.
type Caps struct {
	RunUSD    float64
	TenantUSD float64
	// Tenants gives tenants their own caps, instead of TenantUSD.
	Tenants map[string]float64
	// TenantPeriod is the period after which a tenant's account is reset, counted from the Unix epoch; 0
	// is never.
	TenantPeriod time.Duration
}

// Any reports whether any account can have a cap.
func (c *Caps) Any() bool { return c.RunUSD > 0 || c.TenantUSD > 0 || len(c.Tenants) > 0 }

// ApplyTo reports whether the query's run or tenant has a cap.
func (c *Caps) ApplyTo(q *sdk.Query) bool {
	return c.RunUSD > 0 && q.RunName() != "" || c.TenantCap(q.Tenant) > 0
}

// TenantCap returns the cap of a tenant in US dollars, 0 for none.
func (c *Caps) TenantCap(name string) float64 {
	if usd, own := c.Tenants[name]; own {
		return usd
	}
	return c.TenantUSD
}

// Tenant returns the cap of a tenant, 0 for none, and the name of its account at that time.
func (c *Caps) Tenant(name string, now time.Time) (usd float64, account string) {
	usd = c.TenantCap(name)
	if c.TenantPeriod <= 0 {
		return usd, name
	}
	return usd, name + "@" + strconv.FormatInt(now.UnixNano()/int64(c.TenantPeriod), 10)
}

// Memory is a ledger in memory that is lost at exit. Accounts are counters without locks, in units of
// 1e-12 dollars, so sums are exact. A run's account is dropped once it has been idle for
// [Memory.RunIdle] and others arrive, a tenant's when its period is over.
type Memory struct {
	caps Caps
	// RunIdle is set before first use; 0 means 24 hours.
	RunIdle time.Duration
	// Now is the clock, set before first use; nil means time.Now.
	Now func() time.Time

	accounts *accounts
}

// accounts is shared by a ledger and those derived from it by With.
type accounts struct {
	runs, tenants sync.Map // name -> *account
	made          atomic.Int64
	latest        atomic.Int64 // the latest time seen, in Unix nanoseconds
}

// NewMemory returns an empty ledger with these caps.
func NewMemory(c Caps) *Memory { return &Memory{caps: c, accounts: &accounts{}} }

// With returns a ledger with other caps on the same accounts: spending and reservations through one count
// in both. Spending is counted only once an account has a cap.
func (m *Memory) With(c Caps) *Memory {
	return &Memory{caps: c, RunIdle: m.RunIdle, Now: m.Now, accounts: m.accounts}
}

// account counts picodollars. taken is the sum of what is spent and reserved.
type account struct {
	taken atomic.Int64
	spent atomic.Int64
	used  atomic.Int64 // Unix nanoseconds of the last reservation
}

const pico = 1e12

// ceilPico and nearestPico convert dollars to picodollars; reservations are rounded up.
func ceilPico(usd float64) int64 { return toPico(math.Ceil(usd * pico)) }

func nearestPico(usd float64) int64 { return toPico(math.Round(usd * pico)) }

func toPico(x float64) int64 {
	if !(x > 0) {
		return 0 // NaN as well
	}
	return int64(min(x, math.MaxInt64/4))
}

// take adds amount to taken, or nothing if that would exceed limit: then it returns how much is missing.
func (a *account) take(amount, limit int64) (missing int64) {
	for {
		taken := a.taken.Load()
		if amount > 0 && taken+amount > limit {
			return taken + amount - limit
		}
		if a.taken.CompareAndSwap(taken, taken+amount) {
			return 0
		}
	}
}

// now returns the time. It never goes backwards, even if the clock does, so that a period that has ended
// cannot start again with its unspent budget.
func (m *Memory) now() time.Time {
	now := time.Now()
	if m.Now != nil {
		now = m.Now()
	}
	for {
		latest := m.accounts.latest.Load()
		if now.UnixNano() <= latest {
			return time.Unix(0, latest)
		}
		if m.accounts.latest.CompareAndSwap(latest, now.UnixNano()) {
			return now
		}
	}
}

func runAccount(tenant, run string) string { return strconv.Quote(tenant) + " " + run }

type memoryReservation struct {
	run, tenant *account
	amount      int64
}

type capError struct {
	what    string
	missing int64 // picodollars
	ofRun   bool
}

func (e *capError) Error() string { return e.what + ": " + sdk.ErrBudgetExhausted.Error() }

func (e *capError) Unwrap() error { return sdk.ErrBudgetExhausted }

// MissingUSD implements [Shortage].
func (e *capError) MissingUSD() (usd float64, ofRun bool) {
	return float64(e.missing) / pico, e.ofRun
}

// HasCaps implements [CapReader].
func (m *Memory) HasCaps() bool { return m.caps.Any() }

// HasCapOn implements [CapReader].
func (m *Memory) HasCapOn(_ context.Context, q *sdk.Query) bool { return m.caps.ApplyTo(q) }

// Reserve implements [Ledger].
func (m *Memory) Reserve(_ context.Context, q *sdk.Query, usd float64) (Reservation, error) {
	r := &memoryReservation{amount: ceilPico(usd)}
	if run := q.RunName(); m.caps.RunUSD > 0 && run != "" {
		r.run = m.account(&m.accounts.runs, runAccount(q.Tenant, run))
		if missing := r.run.take(r.amount, nearestPico(m.caps.RunUSD)); missing > 0 {
			return nil, &capError{fmt.Sprintf("run %s: cap of %.6g USD", run, m.caps.RunUSD), missing, true}
		}
	}
	if usd, name := m.caps.Tenant(q.Tenant, m.now()); usd > 0 {
		r.tenant = m.account(&m.accounts.tenants, name)
		if missing := r.tenant.take(r.amount, nearestPico(usd)); missing > 0 {
			if r.run != nil {
				r.run.taken.Add(-r.amount)
			}
			return nil, &capError{fmt.Sprintf("tenant %q: cap of %.6g USD", q.Tenant, usd), missing, false}
		}
	}
	return r, nil
}

// Settle implements [Reservation].
func (r *memoryReservation) Settle(_ context.Context, usd float64) error {
	spent := nearestPico(usd)
	for _, a := range [...]*account{r.run, r.tenant} {
		if a != nil {
			a.spent.Add(spent)
			a.taken.Add(spent - r.amount)
		}
	}
	return nil
}

// SpentUSD returns what a tenant's run and the tenant have spent so far. Accounts without a cap are not
// kept and return 0.
func (m *Memory) SpentUSD(run, tenant string) (runUSD, tenantUSD float64) {
	if a, ok := m.accounts.runs.Load(runAccount(tenant, run)); ok {
		runUSD = float64(a.(*account).spent.Load()) / pico
	}
	_, tenant = m.caps.Tenant(tenant, m.now())
	if a, ok := m.accounts.tenants.Load(tenant); ok {
		tenantUSD = float64(a.(*account).spent.Load()) / pico
	}
	return runUSD, tenantUSD
}

// sweepEvery is the number of new accounts between two sweeps.
const sweepEvery = 1024

func (m *Memory) account(in *sync.Map, name string) *account {
	found, ok := in.Load(name)
	if !ok {
		fresh := &account{}
		fresh.used.Store(m.now().UnixNano())
		found, ok = in.LoadOrStore(name, fresh)
		if !ok && m.accounts.made.Add(1)%sweepEvery == 0 {
			m.sweep()
		}
	}
	a := found.(*account)
	if ok {
		a.used.Store(m.now().UnixNano())
	}
	return a
}

// sweep drops the accounts of idle runs and of past periods.
func (m *Memory) sweep() {
	idle := m.RunIdle
	if idle == 0 {
		idle = 24 * time.Hour
	}
	dropIdle(&m.accounts.runs, m.now().Add(-idle))
	if m.caps.TenantPeriod > 0 {
		dropIdle(&m.accounts.tenants, m.now().Add(-2*m.caps.TenantPeriod))
	}
}

// dropIdle drops the accounts that have been idle since then and have nothing reserved.
func dropIdle(accounts *sync.Map, since time.Time) {
	before := since.UnixNano()
	accounts.Range(func(name, value any) bool {
		if a := value.(*account); a.used.Load() < before && a.taken.Load() == a.spent.Load() {
			accounts.Delete(name)
		}
		return true
	})
}

// Ledger enforces hard caps on spending. The query names its accounts (run, tenant). It must be safe for
// concurrent use.
type Ledger interface {
	// Reserve reserves usd on every account of the query that has a cap, on all or on none. If a cap
	// leaves no room, the error wraps sdk.ErrBudgetExhausted. A reservation of 0 is granted even then, so
	// that money already spent can be settled.
	Reserve(ctx context.Context, q *sdk.Query, usd float64) (Reservation, error)
}

// CapReader is an optional interface of a [Ledger] that has no cap on some queries. Their calls are made as without
// a ledger; with other ledgers every call is made as under a cap.
type CapReader interface {
	// HasCaps reports whether caps are known before any query: then each model with a price needs MaxOutputTokens.
	HasCaps() bool
	// HasCapOn reports whether any account of the query has a cap.
	HasCapOn(ctx context.Context, q *sdk.Query) bool
}

// Shortage is an optional interface of the errors of [Ledger.Reserve]: how much is missing, and whether
// under the cap of the query's run or of its tenant. A step does not wait for pending reservations that
// hold less than that.
type Shortage interface {
	MissingUSD() (usd float64, ofRun bool)
}

// Reservation is an amount that a [Ledger] reserved.
type Reservation interface {
	// Settle replaces the reserved amount by the actual cost, or by the worst case if the bill is unknown,
	// for instance that of a cancelled call. It is called exactly once, even if ctx has ended, and must
	// not wait on ctx.
	Settle(ctx context.Context, usd float64) error
}

// UncertainReservation is a Reservation that books known and possible spending separately. Other
// reservations book both as spent.
type UncertainReservation interface {
	// SettleUncertain is called instead of Settle if the bill is unknown: usd is known to be spent, and
	// most is the upper bound, both in US dollars.
	SettleUncertain(ctx context.Context, usd, most float64) error
}

// settle settles a reservation. The bill is unknown if most exceeds usd.
func settle(ctx context.Context, held Reservation, usd, most float64) error {
	if uncertain, ok := held.(UncertainReservation); ok && most > usd {
		return uncertain.SettleUncertain(ctx, usd, most)
	}
	return held.Settle(ctx, max(usd, most))
}
