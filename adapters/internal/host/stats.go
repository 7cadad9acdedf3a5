package host

import (
	"cmp"
	"context"

	"github.com/stepfall/stepfall/sdk"
)

// Stats are the statistics of an instance.
type Stats struct {
	Instance string `json:"instance"`
	Plugin   string `json:"plugin"`
	State    state  `json:"state"`
	// PID is the process id; 0 if there is no process.
	PID int `json:"pid,omitempty"`
	// Starts counts starts, failed ones included; Crashes counts processes that ended without being stopped.
	Starts  int `json:"starts"`
	Crashes int `json:"crashes"`
	Calls   int `json:"calls"`
	Errors  int `json:"errors"`
	Retries int `json:"retries"`
	// ModelCalls is the number of the plugin's model calls, ModelUSD their cost.
	ModelCalls int     `json:"model_calls,omitempty"`
	ModelUSD   float64 `json:"model_usd,omitempty"`
	// LastError is the reason why the instance is down.
	LastError string `json:"last_error,omitempty"`
}

// Stats returns the statistics of every instance, in the order of their creation.
func (h *Host) Stats() []Stats {
	h.mu.Lock()
	instances := append([]*instance(nil), h.instances...)
	h.mu.Unlock()
	out := make([]Stats, len(instances))
	for n, i := range instances {
		i.mu.Lock()
		s := &out[n]
		*s = i.stats
		s.Instance, s.Plugin, s.State = i.name, i.plugin, cmp.Or(i.state, Stopped)
		if i.session != nil {
			s.PID = i.session.PID()
		}
		if i.state != Ready && i.last != nil {
			s.LastError = i.last.Error()
		}
		i.mu.Unlock()
	}
	return out
}

func (i *instance) count(retried bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stats.Calls++
	if retried {
		i.stats.Retries++
	}
	if err != nil {
		i.stats.Errors++
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
