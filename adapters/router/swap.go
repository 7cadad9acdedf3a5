package router

import (
	"context"
	"fmt"
	"sync"

	"github.com/stepfall/stepfall/policies"
)

// Swap replaces the current policy. The new policy is opened and its plugins are started while the old one
// keeps running; on an error the old one stays in force.
//
// Running steps complete under the old policy, whose plugins and files are closed after the last of them.
// Conversations stay with their models if the new policy has the same ones. Spending by runs, tenants and
// shadows so far counts towards the new caps. An account begins with its first cap, and an account
// in memory is not moved into or out of a ledger file. All circuits begin closed.
func (r *Router) Swap(ctx context.Context, p *policies.Policy) error {
	r.swapping.Lock()
	defer r.swapping.Unlock()
	if r.closed.Load() {
		return ErrClosed
	}
	old := r.current()
	next, err := r.newSetup(ctx, p, old)
	if err != nil {
		return err
	}
	if err := next.startPlugins(ctx); err != nil {
		if closing := next.close(); closing != nil {
			err = fmt.Errorf("%w; and closing it again: %w", err, closing)
		}
		return err
	}
	r.mu.Lock()
	r.active = next
	r.mu.Unlock()
	r.retiring.Go(func() { r.retire(old) })
	return nil
}

func (r *Router) retire(s *setup) {
	err := s.close()
	if err == nil {
		return
	}
	err = fmt.Errorf("closing the old policy %s: %w", s.policy.Path, err)
	if r.o.Logger != nil {
		r.o.Logger.Error("closing an old policy", "policy", s.policy.Path, "error", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, err)
}

func newWatching(ctx context.Context, path string, o Options) (*Router, error) {
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var r *Router
	options := policies.WatchOptions{Load: o.load(), Accept: func(_, next *policies.Policy) error { return r.Swap(watching, next) }}
	if o.Logger != nil {
		options.Logger = o.Logger
	}
	w, err := policies.NewWatcher(path, options)
	if err != nil {
		cancel()
		return nil, err
	}
	if r, err = New(ctx, w.Policy(), o); err != nil {
		cancel()
		w.Close()
		return nil, err
	}
	var running sync.WaitGroup
	running.Go(func() { w.Run(watching) })
	r.stopWatch = func() {
		cancel()
		running.Wait()
	}
	return r, nil
}
