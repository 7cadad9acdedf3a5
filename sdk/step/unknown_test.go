package step_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// Cancelled calls can be billed in full: the sum of their worst cases must stay under the
// cap, however little of the answers arrived.
func TestCancelledCallsNeverPassACap(t *testing.T) {
	const worst = 0.5
	models := priced(worst)
	limit := 3.5 * worst
	for name, seen := range map[string]sdk.Usage{"nothing was seen": {}, "a part was seen": {OutputTokens: 3, Estimated: true}, "a part was counted": {OutputTokens: 1}} {
		ledger := step.NewMemory(step.Caps{RunUSD: limit})
		e := engine(t, step.Config{Candidates: models, Strategy: index(t, 1), Ledger: ledger, Retry: step.Retry{MaxAttempts: 1}})
		asked := 0
		caller := step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
			asked++
			return nil, &step.CallError{Err: context.Canceled, Billed: true, Usage: seen}
		})
		q := query()
		for range 20 {
			if _, err := e.Run(t.Context(), step.Request{Query: q, Caller: caller}); err == nil {
				t.Fatal("an answer came of a cancelled call")
			}
		}
		if billed := float64(asked) * worst; billed > limit || asked != 3 {
			t.Errorf("%s: %d calls, %v USD billed under a cap of %v", name, asked, billed, limit)
		}
	}
}

func TestAVerifierThatIsCutOffCountsInFull(t *testing.T) {
	slow := step.Verifier{Name: "judge", MaxCostUSD: 0.5, Timeout: time.Millisecond, Verifier: sdk.VerifierFunc(
		func(ctx context.Context, _ *sdk.VerifyRequest) (*sdk.Verdict, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})}
	ledger := step.NewMemory(step.Caps{RunUSD: 100})
	e := engine(t, step.Config{Candidates: candidates()[:1], Strategy: index(t, 1), Ledger: ledger, Verifiers: []step.Verifier{slow}})
	if _, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()}); err != nil {
		t.Fatal(err)
	}
	if run, _ := ledger.SpentUSD("r", "t"); run < 0.5 {
		t.Errorf("%v USD stand for a judge that may have cost 0.5", run)
	}
}

func TestTwoTenantsRunsOfOneNameAreTwo(t *testing.T) {
	ledger := step.NewMemory(step.Caps{RunUSD: 1})
	if _, err := ledger.Reserve(t.Context(), &sdk.Query{Run: "agent-7", Tenant: "blue"}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.Reserve(t.Context(), &sdk.Query{Run: "agent-7", Tenant: "red"}, 1); err != nil {
		t.Errorf("blue's run is red's: %v", err)
	}
}

func TestAClockThatGoesBackOpensNoPeriodAgain(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 30, 0, time.UTC)
	ledger := step.NewMemory(step.Caps{TenantUSD: 1, TenantPeriod: time.Minute})
	ledger.Now = func() time.Time { return now }
	take := func() error { _, err := ledger.Reserve(t.Context(), &sdk.Query{Tenant: "t"}, 1); return err }
	if err := take(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(-time.Hour)
	if err := take(); !errors.Is(err, sdk.ErrBudgetExhausted) {
		t.Errorf("an hour ago there is money: %v", err)
	}
	now = now.Add(time.Hour + time.Minute)
	if err := take(); err != nil {
		t.Errorf("in the next minute: %v", err)
	}
}
