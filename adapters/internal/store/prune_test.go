package store_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
)

// pruned is a store that has rows to prune.
type pruned struct {
	store.Store
	rows  int64
	taken bool // another process prunes
	calls []time.Time
}

func (s *pruned) Notes(context.Context, string) (map[string]time.Duration, error) { return nil, nil }

func (s *pruned) Claim(context.Context, string, string, []byte, time.Duration) (bool, error) {
	return !s.taken, nil
}

func (s *pruned) Prune(_ context.Context, _ store.Retention, most int) (store.PruneCounts, error) {
	s.calls = append(s.calls, time.Now())
	time.Sleep(10 * time.Millisecond) // what the work takes
	n := min(s.rows, int64(most))
	s.rows -= n
	return store.PruneCounts{Traces: n}, nil
}

func (s *pruned) Close() error { return nil }

// A store is pruned at once and then every ten minutes, by one process, in batches with longer pauses in between.
func TestRetain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Setenv("XDG_CACHE_HOME", filepath.Join(t.TempDir()))
		s := &pruned{rows: 1000}
		shared := store.Share(s, "retain.db", nil)
		stop := shared.Retain(time.Hour, 0, 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.rows != 0 || len(s.calls) != 6 {
			t.Fatalf("%d rows are left after %d batches", s.rows, len(s.calls))
		}
		for i := range s.calls[1:] {
			if pause := s.calls[i+1].Sub(s.calls[i]) - 10*time.Millisecond; pause < 10*time.Millisecond {
				t.Errorf("a pause of %v after 10 ms of work", pause)
			}
		}
		s.rows = 10
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s.rows != 0 {
			t.Error("it was not pruned again")
		}
		s.rows, s.taken = 10, true
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s.taken = false
		if err := stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if s.rows != 10 {
			t.Error("it was pruned in another's turn, or after it was stopped")
		}
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
	})
}
