package step_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// clocked is a ledger whose clock the test controls.
type clocked struct {
	*step.Memory
	t   *testing.T
	now time.Time
}

func newClocked(t *testing.T, caps step.Caps) *clocked {
	c := &clocked{Memory: step.NewMemory(caps), t: t, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	c.Now = func() time.Time { return c.now }
	return c
}

// spend reserves and settles, and reports whether there was room.
func (c *clocked) spend(q *sdk.Query, usd float64) bool {
	c.t.Helper()
	held, err := c.Reserve(c.t.Context(), q, usd)
	if errors.Is(err, sdk.ErrBudgetExhausted) {
		return false
	}
	if err != nil {
		c.t.Fatal(err)
	}
	if err := held.Settle(c.t.Context(), usd); err != nil {
		c.t.Fatal(err)
	}
	return true
}

// crowd creates enough new accounts to trigger a sweep.
func (c *clocked) crowd(kind func(i int) *sdk.Query) {
	c.t.Helper()
	for i := range 2100 {
		if !c.spend(kind(i), 0.1) {
			c.t.Fatalf("newcomer %d has no room", i)
		}
	}
}

// A tenant's account is kept until its period ends, however many accounts are created, and
// starts empty in the next period.
func TestATenantsAccountHoldsThroughItsPeriod(t *testing.T) {
	crowd := 0
	newcomers := func(int) *sdk.Query { crowd++; return &sdk.Query{Tenant: fmt.Sprint("other ", crowd)} }
	ledger := newClocked(t, step.Caps{TenantUSD: 1, TenantPeriod: time.Hour})
	q := &sdk.Query{Tenant: "early"}
	if !ledger.spend(q, 0.9) {
		t.Fatal("no room in an empty account")
	}
	for _, later := range []time.Duration{time.Minute, 29 * time.Minute, 29 * time.Minute} {
		ledger.now = ledger.now.Add(later)
		ledger.crowd(newcomers)
		if ledger.spend(q, 0.2) {
			t.Fatalf("at %v the account of 0.9 USD is forgotten", ledger.now)
		}
		if _, usd := ledger.SpentUSD("", "early"); usd != 0.9 {
			t.Fatalf("at %v %v USD are spent, want 0.9", ledger.now, usd)
		}
	}
	ledger.now = ledger.now.Add(time.Minute)
	if !ledger.spend(q, 1) {
		t.Error("the next hour has no money of its own")
	}
}

// Without a period a tenant's account is never dropped.
func TestATenantsAccountWithoutAPeriodHoldsForEver(t *testing.T) {
	crowd := 0
	ledger := newClocked(t, step.Caps{TenantUSD: 1})
	q := &sdk.Query{Tenant: "early"}
	ledger.spend(q, 0.9)
	ledger.now = ledger.now.AddDate(5, 0, 0)
	ledger.crowd(func(int) *sdk.Query { crowd++; return &sdk.Query{Tenant: fmt.Sprint("other ", crowd)} })
	if ledger.spend(q, 0.2) {
		t.Error("after five years the account of 0.9 USD is forgotten")
	}
}

// A sweep drops a run's account that has been idle for longer than RunIdle, unless
// something is reserved on it.
func TestARunsAccountIsForgottenWhenIdle(t *testing.T) {
	for _, c := range []struct {
		limit, idle time.Duration
		forgotten   bool
	}{
		{0, 23 * time.Hour, false},
		{0, 24 * time.Hour, false},
		{0, 24*time.Hour + time.Second, true},
		{time.Hour, time.Hour, false},
		{time.Hour, time.Hour + time.Second, true},
		{48 * time.Hour, 25 * time.Hour, false},
	} {
		for _, open := range []bool{false, true} {
			crowd := 0
			ledger := newClocked(t, step.Caps{RunUSD: 1})
			ledger.RunIdle = c.limit
			q := &sdk.Query{Run: "old"}
			ledger.spend(q, 0.9)
			if open {
				if _, err := ledger.Reserve(t.Context(), q, 0.05); err != nil {
					t.Fatal(err)
				}
			}
			ledger.now = ledger.now.Add(c.idle)
			ledger.crowd(func(int) *sdk.Query { crowd++; return &sdk.Query{Run: fmt.Sprint("new ", crowd)} })
			if got, want := ledger.spend(q, 0.2), c.forgotten && !open; got != want {
				t.Errorf("idle for %v of %v, something reserved %v: forgotten %v, want %v", c.idle, c.limit, open, got, want)
			}
		}
	}
}

// A cap of 0 is no cap, a tenant's own cap replaces TenantUSD, and if one account refuses
// a reservation, nothing is reserved on the other.
func TestWhichCapsHold(t *testing.T) {
	ledger := newClocked(t, step.Caps{TenantUSD: 1, Tenants: map[string]float64{"rich": 5, "free": 0}})
	for _, c := range []struct {
		q    sdk.Query
		usd  float64
		want bool
	}{
		{sdk.Query{Run: "r", Tenant: "poor"}, 1.01, false},
		{sdk.Query{Run: "r", Tenant: "poor"}, 1, true},
		{sdk.Query{Run: "r", Tenant: "poor"}, 0.01, false},
		{sdk.Query{Run: "r", Tenant: "rich"}, 5, true},
		{sdk.Query{Run: "r", Tenant: "rich"}, 0.01, false},
		{sdk.Query{Run: "r", Tenant: "free"}, 1000, true},
		{sdk.Query{Run: "r"}, 1, true}, // the tenant ""
	} {
		if got := ledger.spend(&c.q, c.usd); got != c.want {
			t.Errorf("%v USD of %+v: room %v", c.usd, c.q, got)
		}
	}
	ledger = newClocked(t, step.Caps{RunUSD: 1, TenantUSD: 1})
	ledger.spend(&sdk.Query{Run: "first", Tenant: "t"}, 0.75)
	second := &sdk.Query{Run: "second", Tenant: "t"}
	for range 3 {
		if ledger.spend(second, 0.5) {
			t.Fatal("the tenant's cap of 1 let 1.25 through")
		}
	}
	if !ledger.spend(second, 0.25) {
		t.Error("what the tenant's cap refused still counts against the run")
	}
	for _, run := range []string{"", "r"} {
		unlimited := newClocked(t, step.Caps{})
		if !unlimited.spend(&sdk.Query{Run: run}, 1e6) {
			t.Errorf("run %q: there are no caps, and no room", run)
		}
	}
}

// A reservation of NaN or a negative amount changes nothing; a huge one is refused.
func TestAbsurdReservations(t *testing.T) {
	ledger := newClocked(t, step.Caps{RunUSD: 1})
	q := &sdk.Query{Run: "r"}
	for _, usd := range []float64{math.NaN(), -5, math.Inf(-1), 0} {
		if !ledger.spend(q, usd) {
			t.Errorf("%v USD are refused", usd)
		}
	}
	for _, usd := range []float64{math.Inf(1), 1e30, 1.01} {
		if ledger.spend(q, usd) {
			t.Errorf("%v USD pass a cap of 1", usd)
		}
	}
	if !ledger.spend(q, 1) || ledger.spend(q, 1e-9) {
		t.Error("the cap is not 1 USD any more")
	}
}

// A tenant's account is named after its period, counted from the Unix epoch.
func TestAccountsByPeriod(t *testing.T) {
	caps := step.Caps{TenantUSD: 2, TenantPeriod: time.Minute, Tenants: map[string]float64{"rich": 9}}
	for _, c := range []struct {
		tenant string
		at     int64 // seconds since the epoch
		usd    float64
		want   string
	}{
		{"poor", 0, 2, "poor@0"}, {"poor", 59, 2, "poor@0"}, {"poor", 60, 2, "poor@1"}, {"rich", 3661, 9, "rich@61"}, {"", 120, 2, "@2"},
	} {
		if usd, name := caps.Tenant(c.tenant, time.Unix(c.at, 0)); usd != c.usd || name != c.want {
			t.Errorf("%q at second %d: %v USD on %q, want %v on %q", c.tenant, c.at, usd, name, c.usd, c.want)
		}
	}
	caps.TenantPeriod = 0
	if _, name := caps.Tenant("poor", time.Unix(1e9, 0)); name != "poor" {
		t.Errorf("without a period the account is %q", name)
	}
}
