package view

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/stepfall/stepfall/adapters/internal/lookup"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

// sampler reads whole traces and caches them: traces never change.
type sampler struct {
	from store.TraceReader

	// reading is held while traces are read, so that a concurrent caller finds them in the cache.
	reading sync.Mutex

	mu     sync.Mutex
	traces map[string]*sdk.Trace
}

const maxCachedTraces = 8000

func (s *sampler) trace(ctx context.Context, id string) (*sdk.Trace, error) {
	if t := s.fromCache(id); t != nil {
		return t, nil
	}
	t, err := s.from.Trace(ctx, id)
	if err != nil {
		return nil, err
	}
	s.remember(t)
	return t, nil
}

func (s *sampler) fromCache(id string) *sdk.Trace {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.traces[id]
}

func (s *sampler) remember(t *sdk.Trace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lookup.MakeRoom(&s.traces, maxCachedTraces)
	s.traces[t.ID] = t
}

// newest returns the traces of the newest n steps that the filter selects, oldest first.
func (s *sampler) newest(ctx context.Context, f store.Filter, n int) ([]*sdk.Trace, error) {
	f.Limit = n
	lines, err := s.from.Steps(ctx, f)
	if err != nil {
		return nil, err
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	have := make(map[string]*sdk.Trace, len(lines))
	var missing []string
	for _, line := range lines {
		if have[line.ID] = s.fromCache(line.ID); have[line.ID] == nil {
			missing = append(missing, line.ID)
		}
	}
	read, err := s.read(ctx, missing)
	if err != nil {
		return nil, err
	}
	for _, t := range read {
		have[t.ID] = t
		s.remember(t)
	}
	list := make([]*sdk.Trace, 0, len(lines))
	for _, line := range slices.Backward(lines) {
		if t := have[line.ID]; t != nil { // it may have been pruned meanwhile
			list = append(list, t)
		}
	}
	return list, nil
}

// follow reads the steps recorded after the sequence number last, and their traces by id.
func (s *sampler) follow(ctx context.Context, last int64, f store.Filter) (lines []store.Step, byID map[string]*sdk.Trace, err error) {
	lines, err = s.from.Follow(ctx, last, f)
	if err != nil {
		return nil, nil, err
	}
	ids := make([]string, len(lines))
	for i := range lines {
		ids[i] = lines[i].ID
	}
	traces, err := s.read(ctx, ids)
	byID = make(map[string]*sdk.Trace, len(traces))
	for _, t := range traces {
		byID[t.ID] = t
	}
	return lines, byID, err
}

// read reads traces concurrently: decoding their JSON takes most of the time.
func (s *sampler) read(ctx context.Context, ids []string) ([]*sdk.Trace, error) {
	const part = 100
	parts := slices.Collect(slices.Chunk(ids, part))
	found := make([][]*sdk.Trace, len(parts))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, some := range parts {
		group.Go(func() (err error) {
			found[i], err = s.from.Whole(ctx, some)
			return err
		})
	}
	err := group.Wait()
	return slices.Concat(found...), err
}
