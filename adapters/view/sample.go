package view

import (
	"context"
	"slices"
	"sync"

	"github.com/stepfall/stepfall/adapters/store"
	"github.com/stepfall/stepfall/sdk"
)

// sampler reads whole traces for what sums do not tell, and remembers those that it
// read: steps never change.
type sampler struct {
	from Reader

	mu     sync.Mutex
	traces map[string]*sdk.Trace
	older  map[string]*sdk.Trace // remembered, to be dropped first
}

// remembered bounds how many traces are kept in memory, twice.
const remembered = 4000

func (s *sampler) trace(ctx context.Context, id string) (*sdk.Trace, error) {
	s.mu.Lock()
	t := s.traces[id]
	if t == nil {
		t = s.older[id]
	}
	s.mu.Unlock()
	if t == nil {
		read, err := s.from.Trace(ctx, id)
		if err != nil {
			return nil, err
		}
		t = read
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.traces) >= remembered {
		s.older, s.traces = s.traces, nil
	}
	if s.traces == nil {
		s.traces = map[string]*sdk.Trace{}
	}
	s.traces[id] = t
	return t, nil
}

// newest returns the traces of the newest n steps that the filter selects, the oldest
// first, without texts being needed.
func (s *sampler) newest(ctx context.Context, f store.Filter, n int) ([]*sdk.Trace, error) {
	f.Limit = n
	lines, err := s.from.Steps(ctx, f)
	if err != nil {
		return nil, err
	}
	list := make([]*sdk.Trace, 0, len(lines))
	for _, line := range slices.Backward(lines) {
		t, err := s.trace(ctx, line.ID)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}
