package postgres

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/pgtest"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// A database that goes silent without closing connections blocks callers for at most five seconds, and when it is
// back, the accounts are correct.
func TestADatabaseThatGoesSilent(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	proxy, address := pgtest.StartProxy(t, server.Database(t))
	shared := store.Share(opened(t, address), address, nil)
	ledger, q := shared.Ledger(step.Caps{RunUSD: 1}), &sdk.Query{Run: "r"}
	before, err := ledger.Reserve(t.Context(), q, 0.25)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Hang()
	for range 2 {
		began := time.Now()
		_, err := ledger.Reserve(t.Context(), q, 0.25)
		if took := time.Since(began); !errors.Is(err, sdk.ErrStoreUnavailable) || took > 5*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	}
	if err := before.Settle(t.Context(), 0.125); !errors.Is(err, sdk.ErrStoreUnavailable) {
		t.Errorf("settled: %v", err)
	}
	proxy.Resume()
	spent := func() (sum store.Balance) {
		all, err := shared.Balances(t.Context(), "run ", 0)
		if err != nil && !errors.Is(err, io.EOF) {
			t.Log(err)
		}
		for _, b := range all {
			sum = b
		}
		return sum
	}
	want := int64(0.125 * store.NanoUSD)
	got := spent()
	for until := time.Now().Add(20 * time.Second); (got.Spent != want || got.Reserved != 0) && time.Now().Before(until); got = spent() {
		time.Sleep(100 * time.Millisecond)
	}
	if got.Spent != want || got.Reserved != 0 {
		t.Errorf("%+v, want %d spent and nothing reserved", got, want)
	}
	if _, err := ledger.Reserve(t.Context(), q, 0.875); err != nil {
		t.Error(err)
	}
	if err := shared.Close(); err != nil {
		t.Error(err)
	}
}
