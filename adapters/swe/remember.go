package swe

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/stepfall/stepfall/plugins/host"
	"github.com/stepfall/stepfall/sdk"
)

// Remembering is a plugin host whose verifiers remember their verdicts by query and
// answer: for comparisons of strategies in which the same answer to the same query
// comes up again. The verdict that is given again has the duration of the first
// time. Queries are told apart by their ID. It is safe for concurrent use.
type Remembering struct {
	*host.Host

	mu       sync.Mutex
	verdicts map[string]*sdk.Verdict
}

// Remember returns h with a memory.
func Remember(h *host.Host) *Remembering {
	return &Remembering{Host: h, verdicts: map[string]*sdk.Verdict{}}
}

// Verifier returns the plugin with the memory.
func (m *Remembering) Verifier(name, plugin string, config map[string]any) (sdk.Verifier, error) {
	inner, err := m.Host.Verifier(name, plugin, config)
	if err != nil {
		return nil, err
	}
	return sdk.VerifierFunc(func(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		key := name + "\x00" + req.Query.ID + "\x00" + req.Answer.Text
		m.mu.Lock()
		known := m.verdicts[key]
		m.mu.Unlock()
		if known != nil {
			return known, nil
		}
		start := time.Now()
		verdict, err := inner.Verify(ctx, req)
		if err != nil || verdict == nil || verdict.Outcome == sdk.Inconclusive {
			return verdict, err
		}
		own := *verdict
		own.Duration = cmp.Or(own.Duration, time.Since(start))
		m.mu.Lock()
		defer m.mu.Unlock()
		m.verdicts[key] = &own
		return &own, nil
	}), nil
}
