package queue

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/pgtest"
)

// BenchmarkTenMilliseconds compares four workers, each running one ten-millisecond job at a time, with four plain
// loops. ratio is the workers' rate divided by the loops' rate.
func BenchmarkTenMilliseconds(b *testing.B) {
	c := pgtest.Start(b)
	url := c.Database(b)
	work := func() { time.Sleep(10 * time.Millisecond) }
	began := time.Now()
	var loops sync.WaitGroup
	for range 4 {
		loops.Go(func() {
			for range 100 {
				work()
			}
		})
	}
	loops.Wait()
	alone := 400 / time.Since(began).Seconds()

	ctx, cancel := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	for range 4 {
		q := opened(b, url)
		workers.Go(func() {
			_ = q.Work(ctx, WorkerOptions{Kinds: map[string]Kind{"k": {Parallel: 1, Do: func(context.Context, *Job) (Outcome, error) {
				work()
				return Outcome{}, nil
			}}}})
		})
	}
	q := opened(b, url)
	q.t = defaultTiming()
	r, err := q.Begin(ctx, "bench", RunOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close(ctx)
	slots := make(chan bool, 100)
	var jobs sync.WaitGroup
	b.ResetTimer()
	for i := range b.N {
		slots <- true
		jobs.Go(func() {
			if _, err := r.Do(ctx, Ticket{Kind: "k", Name: fmt.Sprint(i), Args: i}); err != nil {
				b.Error(err)
			}
			<-slots
		})
	}
	jobs.Wait()
	rate := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "jobs/s")
	b.ReportMetric(rate/alone, "ratio")
}
