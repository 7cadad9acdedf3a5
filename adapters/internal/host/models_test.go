//go:build unix

package host_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

func TestModelCallsAreMadeByTheHostAndCounted(t *testing.T) {
	type key struct{}
	h := newHost(t, host.Config{Models: wire.ModelCallerFunc(func(ctx context.Context, model string, q *sdk.Query) (*sdk.Answer, error) {
		if ctx.Value(key{}) != "caller" {
			t.Error("the model call has not the context of the verification")
		}
		return &sdk.Answer{Text: model + " says yes to " + q.LastUserText(), CostUSD: 0.25}, nil
	})})
	v := verifier(t, h, nil)
	ctx := context.WithValue(within(t, 2*time.Minute), key{}, "caller")
	got, err := v.Verify(ctx, &sdk.VerifyRequest{Query: query("q"), Answer: &sdk.Answer{Text: "judge 1"}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Evidence != "judge says yes to good?" || got.CostUSD != 0.75 {
		t.Errorf("evidence %q, cost %v", got.Evidence, got.CostUSD)
	}
}

func TestModelCallsNeedAHostThatOffersThem(t *testing.T) {
	v := verifier(t, newHost(t, host.Config{}), nil)
	_, err := v.Verify(within(t, 2*time.Minute), &sdk.VerifyRequest{Query: query("q"), Answer: &sdk.Answer{Text: "judge 1"}})
	var call *host.CallError
	if !errors.As(err, &call) || !strings.Contains(err.Error(), wire.ErrNoModelCalls.Error()) {
		t.Errorf("got %v", err)
	}
}

// quarter is a model whose calls cost a quarter of a dollar.
func quarter() wire.ModelCaller {
	return wire.ModelCallerFunc(func(context.Context, string, *sdk.Query) (*sdk.Answer, error) {
		return &sdk.Answer{Text: "yes", CostUSD: 0.25}, nil
	})
}

func judge(times string) *sdk.VerifyRequest {
	return &sdk.VerifyRequest{Query: query("q"), Answer: &sdk.Answer{Text: "judge " + times}}
}

func TestModelCallsAreLimited(t *testing.T) {
	for name, c := range map[string]struct {
		limits wire.ModelLimits
		budget float64
		want   string
		spent  float64
	}{
		"number":            {wire.ModelLimits{Calls: 3}, 0, "3 were made, as many as the policy allows", 0.75},
		"number by default": {wire.ModelLimits{}, 0, "20 were made", 5},
		"cost":              {wire.ModelLimits{CostUSD: 0.5}, 0, "0.5 USD were spent, and the policy allows 0.5", 0.5},
		"the caller's":      {wire.ModelLimits{CostUSD: 2}, 0.3, "0.5 USD were spent, and the policy allows 0.3", 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, host.Config{Models: quarter(), Plugins: map[string]host.PluginConfig{"test": {Models: c.limits}}})
			v := verifier(t, h, nil)
			ctx := within(t, 2*time.Minute)
			if c.budget > 0 {
				ctx = sdk.WithModelBudget(ctx, c.budget)
			}
			_, err := v.Verify(ctx, judge("30"))
			var call *host.CallError
			if !errors.As(err, &call) || !strings.Contains(err.Error(), "no further model calls are allowed: "+c.want) {
				t.Errorf("got %v", err)
			}
			budget := sdk.ModelBudgetOf(ctx)
			if got := budget != nil && budget.Spent.Load(); got != (c.budget > 0) {
				t.Errorf("the caller's budget is spent: %v", got)
			}
			if got := sdk.SpentUSD(err); got != c.spent {
				t.Errorf("%v USD were spent, want %v", got, c.spent)
			}
			if s := h.Stats()[0]; s.ModelUSD != c.spent || s.ModelCalls != int(c.spent/0.25) {
				t.Errorf("stats %+v", s)
			}
			if verdict, err := v.Verify(ctx, judge("1")); err != nil || verdict.CostUSD != 0.75 {
				t.Errorf("the next verification has its own limits: %+v, %v", verdict, err)
			}
		})
	}
}

// A plugin that asks in parallel keeps the limits in US dollars as one that asks in turn.
func TestParallelModelCallsKeepTheLimitInUSD(t *testing.T) {
	for name, c := range map[string]struct{ limit, budget float64 }{"model_usd": {0.5, 0}, "max_usd": {0, 0.5}} {
		t.Run(name, func(t *testing.T) {
			slow := wire.ModelCallerFunc(func(context.Context, string, *sdk.Query) (*sdk.Answer, error) {
				time.Sleep(10 * time.Millisecond) // so that calls made at once would overlap
				return &sdk.Answer{Text: "yes", CostUSD: 0.25}, nil
			})
			h := newHost(t, host.Config{Models: slow, Plugins: map[string]host.PluginConfig{"test": {Models: wire.ModelLimits{CostUSD: c.limit}}}})
			v := verifier(t, h, nil)
			for range 2 {
				ctx := within(t, 2*time.Minute)
				if c.budget > 0 {
					ctx = sdk.WithModelBudget(ctx, c.budget)
				}
				got, err := v.Verify(ctx, &sdk.VerifyRequest{Query: query("q"), Answer: &sdk.Answer{Text: "panel 20"}})
				if err != nil || got.CostUSD != 0.5 || got.Evidence != "18 refused" {
					t.Errorf("%+v, %v", got, err)
				}
			}
		})
	}
}

// Without a limit in US dollars all model calls of a plugin run at once; far from it, all after the first.
func TestParallelModelCallsRunAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		limit float64
		alone int32
	}{"no limit": {0, 0}, "far from it": {1000, 1}} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			all := make(chan struct{})
			meet := wire.ModelCallerFunc(func(ctx context.Context, _ string, _ *sdk.Query) (*sdk.Answer, error) {
				switch n := asked.Add(1); {
				case n <= c.alone:
					return &sdk.Answer{CostUSD: 0.25}, nil
				case n == 20:
					close(all)
				}
				select {
				case <-all:
				case <-ctx.Done():
					t.Error("the others were not called meanwhile")
				}
				return &sdk.Answer{CostUSD: 0.25}, nil
			})
			h := newHost(t, host.Config{Models: meet, Plugins: map[string]host.PluginConfig{"test": {Models: wire.ModelLimits{CostUSD: c.limit}}}})
			got, err := verifier(t, h, nil).Verify(within(t, time.Minute), &sdk.VerifyRequest{Query: query("q"), Answer: &sdk.Answer{Text: "panel 20"}})
			if err != nil || got.CostUSD != 5 {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestAModelCallHasADeadline(t *testing.T) {
	hangs := wire.ModelCallerFunc(func(ctx context.Context, _ string, _ *sdk.Query) (*sdk.Answer, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	h := newHost(t, host.Config{Models: hangs, Plugins: map[string]host.PluginConfig{"test": {Models: wire.ModelLimits{Timeout: 20 * time.Millisecond}}}})
	_, err := verifier(t, h, nil).Verify(within(t, 2*time.Minute), judge("1"))
	var call *host.CallError
	if !errors.As(err, &call) || !strings.Contains(err.Error(), "deadline exceeded") {
		t.Errorf("got %v", err)
	}
}

// If a model call is cancelled, what the provider may bill counts as the verification's cost, whoever cancelled it.
func TestAModelCallThatIsCutOffCosts(t *testing.T) {
	bills := wire.ModelCallerFunc(func(ctx context.Context, _ string, _ *sdk.Query) (*sdk.Answer, error) {
		<-ctx.Done()
		return nil, &sdk.SpentError{Err: ctx.Err(), CostUSD: 0.25}
	})
	for name, limits := range map[string][2]time.Duration{"by the caller": {time.Minute, time.Second}, "by the limit": {20 * time.Millisecond, time.Minute}} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, host.Config{Models: bills, Plugins: map[string]host.PluginConfig{"test": {Models: wire.ModelLimits{Timeout: limits[0]}}}})
			v := verifier(t, h, nil)
			if err := h.Start(within(t, 2*time.Minute)); err != nil {
				t.Fatal(err)
			}
			_, err := v.Verify(within(t, limits[1]), judge("1"))
			if got := sdk.SpentUSD(err); got != 0.25 || h.Stats()[0].ModelUSD != 0.25 {
				t.Errorf("%v USD, stats %+v, %v", got, h.Stats()[0], err)
			}
		})
	}
}

func TestModelCallsOfEstimatorsAreCounted(t *testing.T) {
	h := newHost(t, host.Config{Models: quarter(), Plugins: map[string]host.PluginConfig{"test": {Models: wire.ModelLimits{Calls: 1}}}})
	req := &sdk.QualityRequest{Query: query("judge"), Models: []string{"a"}}
	got, err := estimator(t, h, nil).EstimateQuality(within(t, 2*time.Minute), req)
	if err != nil || got.CostUSD != 0.25 {
		t.Errorf("%+v, %v", got, err)
	}
}
