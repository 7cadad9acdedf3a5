package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/pgtest"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

func BenchmarkSQLite(b *testing.B) { benchmarkEngine(b, openSQLite) }

// BenchmarkPostgres lets the server sync to disk, as in production.
func BenchmarkPostgres(b *testing.B) {
	c := pgtest.Start(b)
	benchmarkEngine(b, func(t testing.TB) engine { return openPostgres(c.Database(t), "") })
}

// benchmarkEngine measures an engine: reservations and settlements on one hot account, from one process and from four
// (each with connections and leases of its own), on ten thousand cold ones, and traces in batches.
func benchmarkEngine(b *testing.B, fresh func(t testing.TB) engine) {
	b.Run("hot/1", func(b *testing.B) {
		reserveAll(b, fresh(b), 1, 8, func(int64) string { return "hot" }, store.LeaseOptions{})
	})
	b.Run("hot/4", func(b *testing.B) {
		reserveAll(b, fresh(b), 4, 8, func(int64) string { return "hot" }, store.LeaseOptions{})
	})
	b.Run("hot/1/without-leases", func(b *testing.B) {
		reserveAll(b, fresh(b), 1, 16, func(int64) string { return "hot" }, store.LeaseOptions{Direct: true})
	})
	b.Run("cold/10000", func(b *testing.B) {
		reserveAll(b, fresh(b), 1, 16, func(i int64) string { return fmt.Sprint("cold", i*7919%10000) }, store.LeaseOptions{})
	})
	for _, n := range []int{50_000, 500_000} {
		b.Run(fmt.Sprint("largest/", n), func(b *testing.B) { readLargest(b, fresh(b).Open(b), n) })
	}
	b.Run("traces", func(b *testing.B) { recordAll(b, fresh(b)) })
}

// readLargest reads the largest of n accounts.
func readLargest(b *testing.B, s store.Store, n int) {
	const part = 1000
	for i := range n / part {
		charges := make([]store.Charge, part)
		for k := range charges {
			charges[k] = store.Charge{Account: store.TenantAccount(fmt.Sprintf("%08d", i*part+k)), Amount: int64(1 + i*7919%1000)}
		}
		if err := s.Reserve(b.Context(), int64(i+1), charges, time.Hour); err != nil {
			b.Fatal(err)
		}
		if err := s.Settle(b.Context(), int64(i+1), nil); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if list, err := store.Largest(b.Context(), s, 100); err != nil || len(list) != 100 {
			b.Fatal(len(list), err)
		}
	}
}

func reserveAll(b *testing.B, e engine, processes, callers int, account func(int64) string, o store.LeaseOptions) {
	shared := make([]*store.LeasedAccounts, processes)
	for i := range shared {
		shared[i] = store.NewLeasedAccounts(e.Open(b), o)
		defer shared[i].Close()
	}
	var next atomic.Int64
	took := make([][]time.Duration, processes*callers)
	var wg sync.WaitGroup
	b.ResetTimer()
	for w := range processes * callers {
		wg.Go(func() {
			leased := shared[w%processes]
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				from := time.Now()
				held, err := leased.Take(context.Background(), []store.Charge{{Account: account(i), Amount: 1000, Cap: 1 << 55}})
				took[w] = append(took[w], time.Since(from))
				if err == nil {
					err = held.Settle(context.Background(), 300)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reservations/s")
	if len(all) > 0 {
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-us")
	}
}

func recordAll(b *testing.B, e engine) {
	s := e.Open(b)
	written := 0
	b.ResetTimer()
	for written < b.N {
		batch := make([]*sdk.Trace, min(500, b.N-written))
		for i := range batch {
			batch[i] = trace(written + i)
		}
		if err := s.Record(context.Background(), entriesOf(batch)); err != nil {
			b.Fatal(err)
		}
		written += len(batch)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "traces/s")
}
