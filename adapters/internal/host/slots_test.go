//go:build unix

package host_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// A plugin gets as many concurrent calls as its MaxConcurrency allows, and no more: the test plugin allows four. Each
// call in flight waits here for a model.
func TestNoMoreCallsThanAPluginTakes(t *testing.T) {
	var inside, most atomic.Int64
	arrived, leave := make(chan struct{}, 12), make(chan struct{})
	h := newHost(t, host.Config{Models: wire.ModelCallerFunc(func(context.Context, string, *sdk.Query) (*sdk.Answer, error) {
		now := inside.Add(1)
		defer inside.Add(-1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); {
			seen = most.Load()
		}
		arrived <- struct{}{}
		<-leave
		return &sdk.Answer{Text: "yes"}, nil
	})})
	e := estimator(t, h, nil)
	ctx := within(t, 2*time.Minute)
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			if _, err := e.EstimateQuality(ctx, &sdk.QualityRequest{Query: query("judge"), Models: []string{"a"}}); err != nil {
				t.Error(err)
			}
		})
	}
	for n := range 4 {
		select {
		case <-arrived:
		case <-ctx.Done():
			t.Errorf("only %d calls are made at one time", n)
		}
	}
	select {
	case <-arrived:
		t.Error("a fifth call is made while four are under way")
	case <-time.After(100 * time.Millisecond):
	}
	close(leave)
	all.Wait()
	if got := most.Load(); got != 4 {
		t.Errorf("%d calls at one time, want 4", got)
	}
}
