package middleware_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tmc/langchaingo/llms"
	"go.uber.org/goleak"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// TestThousandConcurrentSteps cancels a third of the steps while a model is answering, and checks the
// spending in four places.
func TestThousandConcurrentSteps(t *testing.T) {
	defer goleak.VerifyNone(t)
	const steps = 1000
	waiting := make(chan struct{}, steps)
	slow := &fake{say: func(ctx context.Context, messages []llms.MessageContent, _ *llms.CallOptions) (*llms.ContentResponse, error) {
		if messages[0].Parts[0].(llms.TextContent).Text == "wait" {
			waiting <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		resp := text("cut")
		resp.Choices[0].StopReason = "length"
		return resp, nil
	}}
	ledger := step.NewMemory(step.Caps{RunUSD: 1000, TenantUSD: 1000})
	var mu sync.Mutex
	traced, tracedUSD := 0, 0.0
	m := wrap(t, middleware.Config{
		Models: []middleware.Candidate{small(slow), large(says("right"))},
		Step: step.Config{Ledger: ledger, Traces: func(_ context.Context, tr *sdk.Trace) {
			mu.Lock()
			defer mu.Unlock()
			traced++
			tracedUSD += tr.CostUSD
		}},
	})
	base, rep := middleware.WithReport(middleware.WithInfo(t.Context(), middleware.Info{Run: "r", Tenant: "t", Session: "s"}))
	var wg sync.WaitGroup
	var answered, canceled atomic.Int64
	ctx, cancel := context.WithCancel(base)
	for i := range steps {
		wg.Go(func() {
			prompt, ctx := "go", ctx
			if i%3 == 0 {
				prompt = "wait"
			} else {
				ctx = base
			}
			resp, err := m.GenerateContent(ctx, human(prompt))
			switch {
			case err == nil && resp.Choices[0].Content == "right":
				answered.Add(1)
			case errors.Is(err, context.Canceled):
				canceled.Add(1)
			default:
				t.Errorf("step %d: %v, %v", i, resp, err)
			}
		})
	}
	for range (steps + 2) / 3 {
		<-waiting
	}
	cancel()
	wg.Wait()

	wantCanceled := int64((steps + 2) / 3)
	if canceled.Load() != wantCanceled || answered.Load() != steps-wantCanceled {
		t.Errorf("%d answered, %d canceled", answered.Load(), canceled.Load())
	}
	perStep := (100*1 + 10*2 + 100*10 + 10*20) / 1e6
	// A cancelled call may be billed: its prompt of 9 tokens and an answer of expected length.
	perCancel := (9*1 + 500*2) / 1e6
	want := float64(answered.Load())*perStep + float64(canceled.Load())*perCancel
	// Under the caps, its worst case counts: 36 bytes, the servers' overhead, and the longest answer.
	held := want + float64(canceled.Load())*((36.0/3+2000)*1/1e6+1000*2/1e6-perCancel)
	run, tenant := ledger.SpentUSD("r", "t")
	for name, c := range map[string][2]float64{"report": {rep.CostUSD(), want}, "traces": {tracedUSD, want}, "run": {run, held}, "tenant": {tenant, held}} {
		if math.Abs(c[0]-c[1]) > 1e-9 {
			t.Errorf("%s: %v USD, want %v", name, c[0], c[1])
		}
	}
	failed := 0
	for _, step := range rep.Steps() {
		if step.Chosen == "" {
			failed++
		}
	}
	if traced != steps || failed != int(wantCanceled) {
		t.Errorf("%d traces, %d failed", traced, failed)
	}
	// Nothing remains reserved: the whole cap except the spending is free.
	if held, err := ledger.Reserve(t.Context(), &sdk.Query{Run: "r", Tenant: "t"}, 1000-run-1e-6); err != nil {
		t.Errorf("money stays reserved: %v", err)
	} else if err := held.Settle(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

func TestConcurrentStepsNeverPassACap(t *testing.T) {
	const limit = 0.01
	ledger := step.NewMemory(step.Caps{TenantUSD: limit})
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(says("a")), large(says("b"))}, Step: step.Config{Ledger: ledger}})
	var wg sync.WaitGroup
	var refused atomic.Int64
	for range 8 {
		wg.Go(func() {
			for range 100 {
				_, err := m.GenerateContent(t.Context(), human("question"))
				if errors.Is(err, sdk.ErrBudgetExhausted) {
					refused.Add(1)
					if typed, ok := errors.AsType[*llms.Error](err); !ok || typed.Code != llms.ErrCodeQuotaExceeded {
						t.Errorf("error %v", err)
					}
				} else if err != nil {
					t.Error(err)
				}
				if _, spent := ledger.SpentUSD("", ""); spent > limit {
					t.Errorf("spent %v of %v", spent, limit)
				}
			}
		})
	}
	wg.Wait()
	if refused.Load() == 0 {
		t.Error("the cap was never reached: the test shows nothing")
	}
}
