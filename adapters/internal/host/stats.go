package host

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// Stats counts what an instance did.
type Stats struct {
	Instance string `json:"instance"`
	Plugin   string `json:"plugin"`
	State    state  `json:"state"`
	// PID is the process's id; 0 when there is none.
	PID int `json:"pid,omitempty"`
	// Starts counts processes, failed starts included; Crashes counts those that
	// ended unasked.
	Starts  int `json:"starts"`
	Crashes int `json:"crashes"`
	Calls   int `json:"calls"`
	// Errors are the failed calls; Unavailable are those of them in which the
	// plugin could not be reached.
	Errors      int `json:"errors"`
	Unavailable int `json:"unavailable"`
	Retries     int `json:"retries"`
	// ModelCalls are those that the host made for the plugin, ModelUSD what they cost.
	ModelCalls int     `json:"model_calls,omitempty"`
	ModelUSD   float64 `json:"model_usd,omitempty"`
	// Time is that of all calls together, Longest that of the longest.
	Time    time.Duration `json:"time_ns"`
	Longest time.Duration `json:"longest_ns"`
	// LastError is why the instance is down.
	LastError string `json:"last_error,omitempty"`
}

// Stats returns the counts of every instance, in the order in which they were made.
func (h *Host) Stats() []Stats {
	h.mu.Lock()
	instances := append([]*instance(nil), h.instances...)
	h.mu.Unlock()
	out := make([]Stats, len(instances))
	for n, i := range instances {
		out[n] = i.snapshot()
	}
	return out
}

func (i *instance) snapshot() Stats {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.stats
	s.Instance, s.Plugin, s.State = i.name, i.plugin, i.state
	s.State = cmp.Or(s.State, Stopped)
	if i.session != nil {
		s.PID = i.session.PID()
	}
	if i.state != Ready && i.last != nil {
		s.LastError = i.last.Error()
	}
	return s
}

func (i *instance) count(begun time.Time, retried bool, err error) {
	took := time.Since(begun)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stats.Calls++
	i.stats.Time += took
	i.stats.Longest = max(i.stats.Longest, took)
	if retried {
		i.stats.Retries++
	}
	if err != nil {
		i.stats.Errors++
		if errors.Is(err, sdk.ErrPluginUnavailable) {
			i.stats.Unavailable++
		}
	}
}

func (i *instance) callModel(ctx context.Context, model string, query *sdk.Query) (*sdk.Answer, error) {
	answer, err := i.host.cfg.Models.CallModel(ctx, model, query)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stats.ModelCalls++
	if i.stats.ModelUSD += sdk.SpentUSD(err); answer != nil {
		i.stats.ModelUSD += answer.CostUSD
	}
	return answer, err
}
