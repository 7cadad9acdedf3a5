package view

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stepfall/stepfall/adapters/store"
	"github.com/stepfall/stepfall/sdk"
)

// Sums implements [SumReader].
func (l *Lines) Sums(_ context.Context, by []store.Dimension, f store.Filter) ([]store.Sum, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(); err != nil {
		return nil, err
	}
	own := store.Filter{Tenant: f.Tenant, Key: f.Key, Policy: f.Policy}
	if !f.Since.IsZero() {
		own.Since = f.Since.UTC().Truncate(24 * time.Hour)
	}
	if !f.Until.IsZero() {
		own.Until = f.Until
	}
	byModel := slices.Contains(by, store.ByModel)
	sums := map[store.Sum]*store.Sum{}
	at := func(e *entry, model string) *store.Sum {
		key := store.Sum{}
		for _, d := range by {
			switch d {
			case store.ByDay:
				key.Day = e.Start.UTC().Format(time.DateOnly)
			case store.ByTenant:
				key.Tenant = e.Tenant
			case store.ByKey:
				key.Key = e.Key
			case store.ByPolicy:
				key.Policy = e.Policy
			case store.ByModel:
				key.Model = model
			}
		}
		if sums[key] == nil {
			sum := key
			sums[key] = &sum
		}
		return sums[key]
	}
	for _, e := range l.sorted {
		if !wants(&own, &e.Step) {
			continue
		}
		if !byModel && f.Model == "" {
			addStep(at(e, ""), e)
			continue
		}
		for i := range e.calls {
			if c := &e.calls[i]; f.Model == "" || f.Model == c.Model {
				addCall(at(e, c.Model), e, c)
			}
		}
	}
	list := make([]store.Sum, 0, len(sums))
	for _, s := range sums {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b store.Sum) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Model, b.Model))
	})
	return list, nil
}

func addStep(s *store.Sum, e *entry) {
	s.Steps++
	s.Calls += int64(e.Calls)
	if e.Chosen == "" {
		s.Failed++
	}
	if len(e.Asked) > 1 {
		s.Escalated++
	}
	addOutcome(s, e.Outcome)
	s.InputTokens += int64(e.InputTokens)
	s.OutputTokens += int64(e.OutputTokens)
	s.CostUSD += e.CostUSD
	s.Duration += e.Duration
	s.Overhead += e.Overhead
}

func addCall(s *store.Sum, e *entry, c *sdk.Call) {
	s.Calls++
	if c.Error != "" {
		s.Failed++
	}
	if c.Verdict != nil {
		addOutcome(s, c.Verdict.Outcome.String())
	}
	if c.Model == e.Chosen && c.Error == "" {
		s.Steps++
	}
	s.InputTokens += int64(c.Usage.InputTokens + c.Usage.CachedInputTokens + c.Usage.CacheWriteTokens)
	s.OutputTokens += int64(c.Usage.OutputTokens + c.Usage.ReasoningTokens)
	s.CostUSD += c.CostUSD
	s.Duration += c.Latency
}

func addOutcome(s *store.Sum, outcome string) {
	switch outcome {
	case sdk.Passed.String():
		s.Passed++
	case sdk.Failed.String():
		s.Rejected++
	case sdk.Inconclusive.String():
		s.Inconclusive++
	}
}

// Runs implements [SumReader].
func (l *Lines) Runs(_ context.Context, f store.Filter) ([]store.Sum, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refresh(); err != nil {
		return nil, err
	}
	own := store.Filter{Tenant: f.Tenant, Run: f.Run}
	sums := map[string]*store.Sum{}
	for _, e := range l.sorted {
		if e.Run == "" || !wants(&own, &e.Step) {
			continue
		}
		s := sums[e.Run]
		if s == nil {
			s = &store.Sum{Run: e.Run, Tenant: e.Tenant, First: e.Start}
			sums[e.Run] = s
		}
		s.Last = e.Start
		addStep(s, e)
	}
	var list []store.Sum
	for _, s := range sums {
		if (f.Since.IsZero() || !s.Last.Before(f.Since)) && (f.Until.IsZero() || s.Last.Before(f.Until)) {
			list = append(list, *s)
		}
	}
	slices.SortFunc(list, func(a, b store.Sum) int { return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Run, b.Run)) })
	list = list[min(f.Offset, len(list)):]
	return list[:min(cmp.Or(f.Limit, 100), len(list))], nil
}
