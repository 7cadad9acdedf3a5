package store

import (
	"context"
	"time"
)

// Retention is how long a store keeps old rows; 0 means for ever.
type Retention struct {
	// Traces counts from the start of a step; Accounts from the start of an account's period, and for the sums of a
	// run from its newest step; Sessions from the expiry of a note.
	Traces, Accounts, Sessions time.Duration
}

// PruneCounts counts deleted rows.
type PruneCounts struct {
	Traces   int64 `json:"traces"`
	Accounts int64 `json:"accounts"`
	Sessions int64 `json:"sessions"`
}

const (
	// pruneBatch bounds the rows of a kind that are deleted at once, so that locks are short.
	pruneBatch = 200
	// pruneEvery is how often one of a store's processes prunes it.
	pruneEvery = 10 * time.Minute
	kindPrune  = "prune"
)

// PruneAll deletes everything past its retention, in small batches with pauses twice as long, so that other users of
// the store are not held up.
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

// Retain prunes the store every ten minutes, unless another process has just done so, until the returned function is
// called.
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
