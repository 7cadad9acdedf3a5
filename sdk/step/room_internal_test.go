package step

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// Nothing is kept of reservations that are settled, and of steps that have waited.
func TestWaitingLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newWaitableLedger(NewMemory(Caps{RunUSD: 1}))
		q := &sdk.Query{Run: "r", Tenant: "t"}
		first, err := l.Reserve(t.Context(), q, 0.5)
		if err != nil {
			t.Fatal(err)
		}
		second, err := l.Reserve(t.Context(), q, 0.25)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			go func() {
				held, err := l.await(t.Context(), q, 0.5, time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second)
				if err := held.Settle(t.Context(), 0); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		if tenant, run := l.pending("t", runAccount("t", "r")); len(l.lines) != 1 || tenant != 0.75*pico || run != tenant {
			t.Errorf("%d queues, %d and %d picodollars pending", len(l.lines), tenant, run)
		}
		for _, held := range []Reservation{first, second} {
			if err := held.Settle(t.Context(), 0); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
		}
		if len(l.lines)+len(l.runs)+len(l.tenants) != 0 {
			t.Errorf("queues %v, runs %v, tenants %v", l.lines, l.runs, l.tenants)
		}
	})
}
