package step_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

func TestConcurrentReservationsNeverPassACap(t *testing.T) {
	const limit, price = 1.0, 0.003
	ledger := step.NewMemory(step.Caps{RunUSD: limit, TenantUSD: 2 * limit})
	var wg sync.WaitGroup
	for g := range 8 {
		q := &sdk.Query{Run: string(rune('a' + g%3)), Tenant: "t"}
		wg.Go(func() {
			for range 200 {
				held, err := ledger.Reserve(t.Context(), q, price)
				if err != nil {
					if !errors.Is(err, sdk.ErrBudgetExhausted) {
						t.Error(err)
					}
					continue
				}
				if err := held.Settle(t.Context(), price); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	total := 0.0
	for _, run := range []string{"a", "b", "c"} {
		spent, _ := ledger.SpentUSD(run, "t")
		if spent > limit {
			t.Errorf("run %s spent %v of %v", run, spent, limit)
		}
		total += spent
	}
	_, tenant := ledger.SpentUSD("a", "t")
	if tenant > 2*limit || math.Abs(total-tenant) > 1e-12 {
		t.Errorf("tenant spent %v, its runs %v", tenant, total)
	}
	if want := math.Floor(2*limit/price) * price; math.Abs(tenant-want) > 1e-9 {
		t.Errorf("tenant spent %v, room for %v", tenant, want)
	}
}

// Without a run, the session counts as the run. Steps with neither are not counted together.
func TestRunCapCountsSessions(t *testing.T) {
	ledger := step.NewMemory(step.Caps{RunUSD: 1})
	for _, c := range []struct {
		q        sdk.Query
		isCapped bool
	}{
		{sdk.Query{Session: "chat-7"}, true},
		{sdk.Query{Run: "a", Session: "chat-8"}, true},
		{sdk.Query{Run: "b", Session: "chat-8"}, true}, // another run of that session
		{sdk.Query{Session: "chat-7", Tenant: "other"}, true},
		{sdk.Query{Conversation: "begins alike"}, false},
	} {
		if _, err := ledger.Reserve(t.Context(), &c.q, 0.7); err != nil {
			t.Errorf("%+v: %v", c.q, err)
		}
		if _, err := ledger.Reserve(t.Context(), &c.q, 0.7); errors.Is(err, sdk.ErrBudgetExhausted) != c.isCapped {
			t.Errorf("%+v, again: %v", c.q, err)
		}
	}
}

func TestLedgersWithOtherCapsShareTheirAccounts(t *testing.T) {
	first := step.NewMemory(step.Caps{RunUSD: 1, TenantUSD: 10})
	q := &sdk.Query{Run: "r", Tenant: "t"}
	held, err := first.Reserve(t.Context(), q, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	lower := first.With(step.Caps{RunUSD: 0.8, TenantUSD: 10})
	if _, err := lower.Reserve(t.Context(), q, 0.4); !errors.Is(err, sdk.ErrBudgetExhausted) {
		t.Errorf("0.5 are reserved under the other caps, and 0.4 of 0.8 were given: %v", err)
	}
	if err := held.Settle(t.Context(), 0.1); err != nil {
		t.Fatal(err)
	}
	if run, tenant := lower.SpentUSD("r", "t"); run != 0.1 || tenant != 0.1 {
		t.Errorf("spent %v and %v, want what was spent under the other caps", run, tenant)
	}
	if _, err := lower.Reserve(t.Context(), q, 0.4); err != nil {
		t.Error(err)
	}
}

func TestSettlingLessGivesTheRestBack(t *testing.T) {
	ledger := step.NewMemory(step.Caps{RunUSD: 1})
	q := &sdk.Query{Run: "r"}
	for range 5 {
		held, err := ledger.Reserve(t.Context(), q, 0.9)
		if err != nil {
			t.Fatal(err)
		}
		if err := held.Settle(t.Context(), 0.02); err != nil {
			t.Fatal(err)
		}
	}
	if spent, _ := ledger.SpentUSD("r", ""); math.Abs(spent-0.1) > 1e-12 {
		t.Errorf("spent %v, want 0.1", spent)
	}
	if _, err := ledger.Reserve(t.Context(), q, 0.91); !errors.Is(err, sdk.ErrBudgetExhausted) {
		t.Errorf("0.1 spent and 0.91 reserved under a cap of 1: %v", err)
	}
}

func TestAccountsThatAreOverAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := step.NewMemory(step.Caps{TenantUSD: 1, TenantPeriod: time.Minute})
		reserve := func(tenant string) {
			t.Helper()
			held, err := ledger.Reserve(t.Context(), &sdk.Query{Tenant: tenant}, 0.9)
			if err != nil {
				t.Fatal(err)
			}
			if err := held.Settle(t.Context(), 0.9); err != nil {
				t.Fatal(err)
			}
		}
		reserve("early")
		var before, after runtime.MemStats
		measure := func(m *runtime.MemStats) {
			runtime.GC()
			runtime.ReadMemStats(m)
		}
		fill := func() {
			for i := range 20000 {
				reserve(fmt.Sprint("tenant ", i))
				if i%1000 == 999 {
					time.Sleep(time.Minute)
				}
			}
		}
		fill()
		measure(&before)
		fill()
		fill()
		measure(&after)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
			t.Errorf("40,000 accounts of periods that are over hold %d KiB", grown>>10)
		}
		reserve("early")
		if _, err := ledger.Reserve(t.Context(), &sdk.Query{Tenant: "early"}, 0.2); !errors.Is(err, sdk.ErrBudgetExhausted) {
			t.Errorf("the period's own cap: %v", err)
		}
	})
}
