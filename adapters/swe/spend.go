package swe

import (
	"fmt"
	"sync"

	"github.com/stepfall/stepfall/sdk"
)

// Spend is the money of a run under a hard cap. The zero value has no cap. It is
// safe for concurrent use.
type Spend struct {
	// CapUSD is the most that may be spent; 0 is no cap.
	CapUSD float64

	mu             sync.Mutex
	spent, pending float64
}

// Add books what was spent without asking, such as what an earlier run spent.
func (s *Spend) Add(usd float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent += usd
}

// SpentUSD returns what was spent so far.
func (s *Spend) SpentUSD() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spent
}

// reserve sets aside what a call can cost at most. The caller settles it once.
func (s *Spend) reserve(worst float64) (settle func(usd float64), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.CapUSD > 0 && s.spent+s.pending+worst > s.CapUSD {
		return nil, fmt.Errorf("%.4f USD spent, up to %.4f more for the next call, cap %.4f: %w", s.spent, worst, s.CapUSD, sdk.ErrBudgetExhausted)
	}
	s.pending += worst
	return func(usd float64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pending -= worst
		s.spent += usd
	}, nil
}
