package store

import (
	"context"
	"time"
)

// Retention is how long a store keeps what nobody needs any more; 0 is for ever.
type Retention struct {
	// Traces counts from when a step began; Accounts from when an account was begun, and
	// from the newest step of the sums of a run; Sessions from when a note ended.
	Traces, Accounts, Sessions time.Duration
}

// PruneCounts counts what was deleted.
type PruneCounts struct {
	Traces   int64 `json:"traces"`
	Accounts int64 `json:"accounts"`
	Sessions int64 `json:"sessions"`
}

const (
	// pruneBatch is how many rows of a kind are deleted at once: few enough that nobody
	// waits long for the locks.
	pruneBatch = 200
	// pruneEvery is how often a store is pruned, by one of its processes.
	pruneEvery = 10 * time.Minute
	kindPrune  = "prune"
)

// PruneAll deletes all that is older than is to be kept, in small batches with pauses that
// are longer than they, so that others are not held up.
func PruneAll(ctx context.Context, s Store, r Retention) (total PruneCounts, err error) {
	for {
		began := time.Now()
		some, err := s.Prune(ctx, r, pruneBatch)
		total.Traces, total.Accounts, total.Sessions = total.Traces+some.Traces, total.Accounts+some.Accounts, total.Sessions+some.Sessions
		if err != nil || some == (PruneCounts{}) {
			return total, err
		}
		pause := time.NewTimer(2 * time.Since(began))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return total, ctx.Err()
		}
	}
}

// Retain prunes the store every ten minutes, unless another process has done so, until the
// returned function is called.
func (s *Shared) Retain(traces, accounts, sessions time.Duration) (stop func() error) {
	r := Retention{Traces: traces, Accounts: accounts, Sessions: sessions}
	ctx, cancel := context.WithCancel(context.Background())
	s.running.Go(func() {
		ticker := time.NewTicker(pruneEvery)
		defer ticker.Stop()
		for {
			turn, err := s.Claim(ctx, kindPrune, "", []byte("1"), pruneEvery-time.Second)
			if err == nil && turn {
				_, err = PruneAll(ctx, s.Store, r)
			}
			if err != nil && ctx.Err() == nil {
				s.logger.Warn("pruning the store", "error", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	s.running.Go(func() {
		select {
		case <-ctx.Done():
		case <-s.closed:
			cancel()
		}
	})
	return func() error { cancel(); return nil }
}
