package step_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

// slow returns a caller that answers after a second at the given cost.
func slow(cost float64) step.Caller {
	return caller(func(ctx context.Context, _ *step.Call) (*sdk.Answer, error) {
		select {
		case <-time.After(time.Second):
			return &sdk.Answer{Text: "yes", CostUSD: cost}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
}

type caller func(ctx context.Context, c *step.Call) (*sdk.Answer, error)

func (f caller) Call(ctx context.Context, c *step.Call) (*sdk.Answer, error) { return f(ctx, c) }

const worstCase = 0.1 // US dollars

func waiting(t *testing.T, caps step.Caps, wait time.Duration) (*step.Engine, *step.Memory) {
	t.Helper()
	ledger := step.NewMemory(caps)
	return engine(t, step.Config{Candidates: priced(worstCase), Strategy: index(t, 1), Ledger: slowLedger{ledger}, CapWait: wait}), ledger
}

// slowLedger grants reservations with a delay, like a remote store.
type slowLedger struct{ *step.Memory }

func (l slowLedger) Reserve(ctx context.Context, q *sdk.Query, usd float64) (step.Reservation, error) {
	held, err := l.Memory.Reserve(ctx, q, usd)
	if err == nil {
		time.Sleep(2 * time.Millisecond)
	}
	return held, err
}

func crowd(t *testing.T, e *step.Engine, clients int, query func(i int) *sdk.Query) (answered, refused int64, took time.Duration) {
	t.Helper()
	var yes, no atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for i := range clients {
		all.Go(func() {
			result, err := e.Run(t.Context(), step.Request{Query: query(i), Caller: slow(worstCase / 10)})
			switch {
			case err == nil && result.Answer != nil:
				yes.Add(1)
			case errors.Is(err, sdk.ErrBudgetExhausted):
				no.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	return yes.Load(), no.Load(), time.Since(began)
}

// A cap for two worst cases pays for eleven calls, in sequence if necessary, even from
// different runs; the last reservation still needs room for a whole worst case.
func TestStepsWaitForReservationsUnderWay(t *testing.T) {
	for name, run := range map[string]func(i int) string{"no runs": func(int) string { return "" }, "runs apart": strconv.Itoa} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, ledger := waiting(t, step.Caps{TenantUSD: 2 * worstCase}, time.Minute)
				answered, refused, took := crowd(t, e, 30, func(i int) *sdk.Query { return &sdk.Query{Tenant: "blue", Run: run(i)} })
				if answered != 11 || refused != 19 {
					t.Errorf("%d answered, %d refused", answered, refused)
				}
				if took > 12*time.Second {
					t.Errorf("it took %v: the money was gone before", took)
				}
				if _, spent := ledger.SpentUSD("", "blue"); spent > 2*worstCase {
					t.Errorf("%v USD were spent", spent)
				}
			})
		})
	}
}

func TestStepsDoNotWaitInVain(t *testing.T) {
	for name, tt := range map[string]struct {
		wait  time.Duration
		query func(i int) *sdk.Query
		caps  step.Caps
		want  int64 // answered
		most  time.Duration
	}{
		"not at all":                  {0, func(int) *sdk.Query { return &sdk.Query{Tenant: "blue"} }, step.Caps{TenantUSD: worstCase}, 1, time.Second},
		"no longer than they may":     {1500 * time.Millisecond, func(int) *sdk.Query { return &sdk.Query{Tenant: "blue"} }, step.Caps{TenantUSD: 1.2 * worstCase}, 2, 2 * time.Second},
		"not for what leaves no room": {time.Hour, func(int) *sdk.Query { return &sdk.Query{Tenant: "blue"} }, step.Caps{TenantUSD: worstCase}, 1, time.Second},
		"runs apart":                  {time.Hour, func(i int) *sdk.Query { return &sdk.Query{Tenant: "blue", Run: fmt.Sprint(i % 2)} }, step.Caps{RunUSD: 1.1 * worstCase, TenantUSD: 1}, 4, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, _ := waiting(t, tt.caps, tt.wait)
				if answered, _, took := crowd(t, e, 10, tt.query); answered != tt.want || took > tt.most+50*time.Millisecond { // a moment for each that waits
					t.Errorf("%d answered in %v", answered, took)
				}
			})
		})
	}
}

// A step whose context ends while it waits returns the context's error and leaves nothing reserved.
func TestWaitingEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ledger := waiting(t, step.Caps{TenantUSD: 1.5 * worstCase}, time.Hour)
		run := func(ctx context.Context) error {
			_, err := e.Run(ctx, step.Request{Query: &sdk.Query{}, Caller: slow(worstCase / 10)})
			return err
		}
		var all sync.WaitGroup
		all.Go(func() {
			if err := run(t.Context()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		all.Wait()
		if err := run(t.Context()); err != nil {
			t.Errorf("after that: %v", err)
		}
		if _, spent := ledger.SpentUSD("", ""); spent != 2*worstCase/10 {
			t.Errorf("%v USD were spent", spent)
		}
	})
}

// holdsFor starts a step that holds a worst case of its engine's last model for a time, and then fails without a bill.
func holdsFor(t *testing.T, e *step.Engine, q *sdk.Query, d time.Duration) {
	t.Helper()
	go func() {
		models := e.Models()
		_, err := e.Run(t.Context(), step.Request{Query: q, Only: models[len(models)-1].Name, Caller: caller(func(context.Context, *step.Call) (*sdk.Answer, error) {
			time.Sleep(d)
			return nil, &step.CallError{Err: errors.New("refused")}
		})})
		if err == nil {
			t.Error("no error")
		}
	}()
	synctest.Wait()
}

// If a cheaper model fits, it is called at once. A step waits if it can only go on with a model that needs as much room,
// or with none, and the trace notes it.
func TestACheaperModelIsAskedBeforeAnybodyWaits(t *testing.T) {
	for name, c := range map[string]struct {
		usd     []float64
		only    string
		without string
		atCap   bool
		called  string
		waits   time.Duration
	}{
		"a cheaper one":  {usd: []float64{worstCase / 50, worstCase}, called: "small"},
		"as dear a one":  {usd: []float64{worstCase, worstCase}, called: "middle", waits: 10 * time.Second},
		"only the first": {usd: []float64{worstCase, worstCase}, only: "small", called: "small", waits: 10 * time.Second},
		"only the last":  {usd: []float64{worstCase / 50, worstCase}, only: "middle", called: "middle", waits: 10 * time.Second},
		"no other":       {usd: []float64{worstCase / 50, worstCase}, without: "small", called: "middle", waits: 10 * time.Second},
		"or fail":        {usd: []float64{worstCase / 50, worstCase}, atCap: true, called: "middle", waits: 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ledger := step.NewMemory(step.Caps{TenantUSD: 1.5 * worstCase})
			e := engine(t, step.Config{Candidates: priced(c.usd...), Strategy: index(t, 0.001), Ledger: ledger, CapWait: time.Hour, FailAtCap: c.atCap})
			holdsFor(t, e, &sdk.Query{}, 10*time.Second)
			began := time.Now()
			result, err := e.Run(t.Context(), step.Request{Query: &sdk.Query{}, Caller: slow(worstCase / 100), Only: c.only, Exclude: func(i int) string {
				return map[bool]string{true: "away"}[e.Models()[i].Name == c.without]
			}})
			if took := time.Since(began); err != nil || called(result.Trace) != c.called || took != c.waits+time.Second {
				t.Errorf("%s: calls %q after %v, %v", name, called(result.Trace), took, err)
			}
			if isNoted := strings.Contains(notes(result.Trace), "waited 10s for room under a cap"); isNoted != (c.waits > 0) {
				t.Errorf("%s: notes %q", name, notes(result.Trace))
			}
			time.Sleep(10 * time.Second)
		})
	}
}

// A step waits as long as reservations under way hold exactly what is missing, whichever of them is settled first, and
// whether under the cap of its run or its tenant.
func TestAStepWaitsForTheLastReservation(t *testing.T) {
	for name, caps := range map[string]step.Caps{"run": {RunUSD: 2 * worstCase}, "tenant": {TenantUSD: 2 * worstCase}} {
		synctest.Test(t, func(t *testing.T) {
			q := &sdk.Query{Run: "r", Tenant: "t"}
			e := engine(t, step.Config{Candidates: priced(worstCase), Strategy: index(t, 1), Ledger: step.NewMemory(caps), CapWait: time.Minute})
			go func() {
				if _, err := e.Run(t.Context(), step.Request{Query: q, Caller: slow(worstCase)}); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
			holdsFor(t, e, q, 5*time.Second)
			began := time.Now()
			_, err := e.Run(t.Context(), step.Request{Query: q, Caller: slow(worstCase)})
			if took := time.Since(began); err != nil || took != 6*time.Second {
				t.Errorf("%s: after %v: %v", name, took, err)
			}
		})
	}
}

// threshold returns a strategy that runs all models in order, however good their answers are.
func threshold(t *testing.T, order ...int) cascade.Strategy {
	t.Helper()
	s, err := cascade.New(cascade.NameThreshold, cascade.Params{Thresholds: []float64{0.99, 0.99}, Order: order})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Steps that have an answer wait too, while only pending reservations fill a cap: each ends with the
// model that its strategy chose, and the cap holds. If the money is spent, they end at once.
func TestStepsWithAnAnswerWait(t *testing.T) {
	const clients, room = 30, 4 * worstCase
	for name, tt := range map[string]struct {
		wait  time.Duration
		caps  step.Caps
		fail  bool
		order []int
		want  int // steps that end with the large model's answer
		exact bool
		most  time.Duration
	}{
		"they wait":       {time.Minute, step.Caps{TenantUSD: room}, false, []int{0, 1}, clients, true, 30 * time.Second},
		"or fail":         {time.Minute, step.Caps{TenantUSD: room}, true, []int{0, 1}, clients, true, 30 * time.Second},
		"the dear first":  {time.Minute, step.Caps{TenantUSD: room}, true, []int{1, 0}, clients, true, 30 * time.Second},
		"they may not":    {0, step.Caps{TenantUSD: room}, false, []int{0, 1}, clients / 2, false, 3 * time.Second},
		"the runs are up": {time.Hour, step.Caps{TenantUSD: 100, RunUSD: 0.9 * worstCase}, false, []int{0, 1}, 0, true, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ledger := step.NewMemory(tt.caps)
				e := engine(t, step.Config{
					Candidates: priced(worstCase/50, worstCase), Strategy: threshold(t, tt.order...), Ledger: slowLedger{ledger}, CapWait: tt.wait, FailAtCap: tt.fail,
					Verifiers: []step.Verifier{verdicts(map[string]bool{"middle": true})},
				})
				var large atomic.Int64
				var all sync.WaitGroup
				began := time.Now()
				for i := range clients {
					all.Go(func() {
						result, err := e.Run(t.Context(), step.Request{Query: &sdk.Query{Tenant: "blue", Run: strconv.Itoa(i)}, Caller: slow(worstCase / 100)})
						if err != nil {
							t.Error(err)
						} else if result.Answer.Model == "middle" {
							large.Add(1)
						}
					})
				}
				all.Wait()
				took := time.Since(began)
				if got := int(large.Load()); got > tt.want || tt.exact && got != tt.want {
					t.Errorf("%d of %d steps ended with the large model's answer, want %d", got, clients, tt.want)
				}
				if _, spent := ledger.SpentUSD("", "blue"); spent > tt.caps.TenantUSD {
					t.Errorf("%v USD were spent", spent)
				}
				if took > tt.most {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// refusing is a ledger that refuses the first reservations after some others, including repeated ones.
type refusing struct{ granted, first int }

func (l *refusing) Reserve(_ context.Context, _ *sdk.Query, usd float64) (step.Reservation, error) {
	if l.granted--; l.granted >= 0 {
		return step.NewMemory(step.Caps{}).Reserve(context.Background(), &sdk.Query{}, usd)
	}
	if l.first--; l.first >= 0 && usd > 0 {
		return nil, fmt.Errorf("it is full: %w", sdk.ErrBudgetExhausted)
	}
	return step.NewMemory(step.Caps{}).Reserve(context.Background(), &sdk.Query{}, usd)
}

// A step that ends with the answer of the most expensive model has not failed at a cap, whatever the cap
// excluded before or after; one that ends with a cheaper answer has.
func TestAnAnswerAfterACapIsNoFailure(t *testing.T) {
	for _, tt := range []struct {
		order   []int
		granted int
		fails   bool
		want    sdk.StopReason
	}{{[]int{0, 1}, 0, false, sdk.StopExhausted}, {[]int{1, 0}, 0, true, sdk.StopBudget}, {[]int{0, 1}, 1, true, sdk.StopBudget}, {[]int{1, 0}, 1, false, sdk.StopExhausted}} {
		for _, fail := range []bool{false, true} {
			e := engine(t, step.Config{Candidates: priced(worstCase/50, worstCase), Strategy: threshold(t, tt.order...), Ledger: &refusing{tt.granted, 2}, CapWait: time.Minute, FailAtCap: fail, Verifiers: []step.Verifier{verdicts(nil)}})
			result, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
			if fails := fail && tt.fails; errors.Is(err, sdk.ErrBudgetExhausted) != fails || err != nil && !fails || result.Trace.Stop != tt.want || len(result.Trace.Calls) != 1 {
				t.Errorf("order %v, at_cap fail %v: calls %q, stop %s, %v", tt.order, fail, called(result.Trace), result.Trace.Stop, err)
			}
		}
	}
}

// A step waits for CapWait in total, however many models do not fit.
func TestAStepWaitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := step.NewMemory(step.Caps{TenantUSD: worstCase})
		e := engine(t, step.Config{Candidates: priced(worstCase, worstCase, worstCase), Strategy: threshold(t, 0, 1, 2), Ledger: ledger, CapWait: 10 * time.Second})
		var other sync.WaitGroup
		other.Go(func() {
			_, _ = e.Run(t.Context(), step.Request{Query: &sdk.Query{}, Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
				time.Sleep(time.Hour)
				return &sdk.Answer{Text: "late"}, nil
			})})
		})
		synctest.Wait()
		began := time.Now()
		if _, err := e.Run(t.Context(), step.Request{Query: &sdk.Query{}, Caller: says()}); !errors.Is(err, sdk.ErrBudgetExhausted) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("it waited %v", took)
		}
		other.Wait()
	})
}

// The time that a step waited for one model is no longer available for the next.
func TestAStepWaitsForCapWaitInTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, step.Config{Candidates: priced(worstCase, worstCase), Strategy: threshold(t, 0, 1), Ledger: step.NewMemory(step.Caps{TenantUSD: 2 * worstCase}), CapWait: 10 * time.Second, Verifiers: []step.Verifier{verdicts(nil)}})
		holdsFor(t, e, &sdk.Query{}, 6*time.Second)
		holdsFor(t, e, &sdk.Query{}, time.Hour)
		began := time.Now()
		result, err := e.Run(t.Context(), step.Request{Query: &sdk.Query{}, Caller: slow(worstCase / 10)})
		if took := time.Since(began); err != nil || called(result.Trace) != "small" || len(result.Trace.Infeasible) != 1 || took != 11*time.Second {
			t.Errorf("calls %q, out %v after %v, %v", called(result.Trace), result.Trace.Infeasible, took, err)
		}
		time.Sleep(time.Hour)
	})
}
