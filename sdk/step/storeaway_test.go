package step_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// goesAway is a ledger whose store is unavailable from the n-th reservation on.
type goesAway struct {
	step.Ledger
	n, asked int
}

func (l *goesAway) Reserve(ctx context.Context, q *sdk.Query, usd float64) (step.Reservation, error) {
	if l.asked++; l.asked >= l.n {
		return nil, fmt.Errorf("disk full: %w", sdk.ErrStoreUnavailable)
	}
	return l.Ledger.Reserve(ctx, q, usd)
}

// An unavailable store is no failure of a model: no other model is tried, and an answer that
// is already paid for is returned.
func TestAStoreThatIsAwayEndsTheStep(t *testing.T) {
	for n, want := range map[int]string{1: "", 2: "small"} {
		ledger := &goesAway{Ledger: step.NewMemory(step.Caps{RunUSD: 100}), n: n}
		e := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 0.001), Ledger: ledger, Verifiers: []step.Verifier{verdicts(map[string]bool{"large": true})}})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if ledger.asked != n {
			t.Errorf("away from reservation %d: asked %d times", n, ledger.asked)
		}
		switch {
		case want == "" && !errors.Is(err, sdk.ErrStoreUnavailable):
			t.Errorf("away at once: %v", err)
		case want != "" && (err != nil || res.Answer.Model != want):
			t.Errorf("away later: %+v, %v", res.Answer, err)
		}
	}
}
