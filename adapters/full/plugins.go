package full

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

type pluginHosts struct{}

func (pluginHosts) Host(p *policies.Policy, ask func(ctx context.Context, model string, q *sdk.Query) (*sdk.Answer, error), logger hclog.Logger) (router.PluginHost, error) {
	c := hostConfig(p)
	c.Logger, c.Models = logger, wire.ModelCallerFunc(ask)
	h, err := host.New(c)
	if err != nil {
		return nil, err // a nil *Host in a PluginHost would not be nil
	}
	return h, nil
}

// Schemas implements [router.PluginHosts]. A plugin that is missing has no schema; on_unavailable then decides what
// happens, as with one that does not start.
func (pluginHosts) Schemas(ctx context.Context, policy string) policies.SchemaSource {
	source := Schemas(ctx, policy)
	return func(p policies.Plugin, role string) (*schema.Schema, error) {
		s, err := source(p, role)
		if errors.Is(err, policies.ErrNoPlugin) {
			err = nil
		}
		return s, err
	}
}

// PluginStat has the statistics of a plugin in one block of the policy. Its State is "stopped", "starting",
// "ready", "paused" or "open" (after crashes), "refused" or "closed".
type PluginStat = host.Stats

// PluginStats returns statistics about the plugins of the router's current policy, or nil if it has none or
// if the program provides its own.
func PluginStats(r *router.Router) []PluginStat {
	if h, ok := r.PluginHost().(*host.Host); ok {
		return h.Stats()
	}
	return nil
}

func hostConfig(p *policies.Policy) host.Config {
	c := host.Config{Plugins: map[string]host.PluginConfig{}}
	if !strings.HasPrefix(p.Path, "library:") {
		c.Dir = filepath.Dir(p.Path)
	}
	for i := range p.Plugins {
		b := &p.Plugins[i]
		c.Plugins[b.Name] = host.PluginConfig{
			PassEnv: b.Env, SHA256: b.Checksum, StartTimeout: b.StartTimeout, CallTimeout: b.CallTimeout, VerifyTimeout: b.CallTimeout,
			Path: b.Path, Isolation: b.Isolation, Memory: int64(b.Memory), Require: b.Require, Read: b.Read,
			Models: wire.ModelLimits{Calls: b.ModelCalls, CostUSD: b.ModelUSD, Timeout: b.ModelTimeout},
		}
	}
	// A plugin needs no block of its own. The verifier block's timeout limits each verification.
	for i := range p.Verifiers {
		v := &p.Verifiers[i]
		settings := c.Plugins[v.Plugin]
		settings.VerifyTimeout = max(settings.VerifyTimeout, cmp.Or(v.Timeout, settings.CallTimeout, host.VerifyTimeout))
		c.Plugins[v.Plugin] = settings
	}
	return c
}
