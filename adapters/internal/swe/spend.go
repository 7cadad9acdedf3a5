package swe

import (
	"context"
	"fmt"
	"sync"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// Spend tracks the spend of a run under a hard cap. The zero value has no cap. It is safe for concurrent use.
type Spend struct {
	// CapUSD is the most that may be spent; 0 means no cap.
	CapUSD float64
	// Ledger, when not nil, must also accept each reservation: it holds the cap of a run, named Run, that is shared
	// by several processes.
	Ledger step.Ledger
	Run    string

	mu             sync.Mutex
	spent, pending float64
}

// Add books spend without a reservation, such as that of an earlier run.
func (s *Spend) Add(usd float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent += usd
}

// SpentUSD returns what is booked.
func (s *Spend) SpentUSD() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spent
}

func (s *Spend) hasCap() bool { return s.CapUSD > 0 || s.Ledger != nil }

// reserve reserves the most that a call can cost. The caller calls settle once.
func (s *Spend) reserve(ctx context.Context, worst float64) (settle func(usd float64), err error) {
	own, err := s.reserveLocal(worst)
	if err != nil || s.Ledger == nil {
		return own, err
	}
	held, err := s.Ledger.Reserve(ctx, &sdk.Query{Run: s.Run}, worst)
	if err != nil {
		own(0)
		return nil, err
	}
	return func(usd float64) {
		// The ledger retries a failed settlement; until then the worst case stays reserved.
		_ = held.Settle(context.WithoutCancel(ctx), usd)
		own(usd)
	}, nil
}

// reserveLocal is reserve without the ledger.
func (s *Spend) reserveLocal(worst float64) (settle func(usd float64), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.CapUSD > 0 && s.spent+s.pending+worst > s.CapUSD {
		return nil, fmt.Errorf("%.6g USD spent, up to %.6g more for the next call, cap %.6g: %w", s.spent, worst, s.CapUSD, sdk.ErrBudgetExhausted)
	}
	s.pending += worst
	return func(usd float64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pending -= worst
		s.spent += usd
	}, nil
}
