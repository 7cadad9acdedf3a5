package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/step"
)

// Reprice returns the table with the costs that its recorded tokens have at the
// prices of the policy, and true; or the table itself and false where tokens of an
// outcome are unknown. The table's models must be in the policy.
func Reprice(t *outcome.Table, p *policies.Policy) (*outcome.Table, bool) {
	priced := *t
	priced.CostUSD = make([][]float64, len(t.Queries))
	for q := range t.Queries {
		priced.CostUSD[q] = make([]float64, len(t.Models))
		for m, name := range t.Models {
			i := slices.IndexFunc(p.Models, func(x policies.Model) bool { return x.Name == name })
			in, out := outcome.At(t.InputTokens, q, m), outcome.At(t.OutputTokens, q, m)
			if i < 0 || math.IsNaN(in) || math.IsNaN(out) {
				return t, false
			}
			price := p.Models[i].Price
			priced.CostUSD[q][m] = (in*price.Input + out*price.Output) / 1e6
		}
	}
	return &priced, true
}

// CheckPolicy returns what about a policy cannot be replayed, and notes on what of it
// plays no part.
func CheckPolicy(p *policies.Policy) (notes []string, err error) {
	var faults []error
	for i := range p.Estimators {
		e := &p.Estimators[i]
		if e.OnUnavailable == "fail" {
			faults = append(faults, fmt.Errorf("%s: estimator %q is a plugin, whose estimates no table records, and on_unavailable says fail", p.Path, e.Name))
			continue
		}
		notes = append(notes, fmt.Sprintf("estimator %s abstains: it is a plugin, whose estimates no table records", e.Name))
	}
	if p.Mode != "enforce" {
		notes = append(notes, fmt.Sprintf("mode %s is replayed as enforce", p.Mode))
	}
	if p.Budget.TenantUSD > 0 || len(p.Budget.Tenants) > 0 {
		notes = append(notes, "caps of tenants have no effect: the table names none")
	}
	if p.Budget.RunUSD > 0 {
		notes = append(notes, "every query is a run of its own under run_usd")
	}
	if p.Session != nil {
		notes = append(notes, "sessions have no effect: the table names none")
	}
	return notes, errors.Join(faults...)
}

// recorded gives out the recorded verdicts in the place of a policy's verifiers.
type recorded struct{ table *outcome.Table }

// Verifier implements [router.Plugins].
func (r recorded) Verifier(string, string, map[string]any) (sdk.Verifier, error) {
	return Verifier(r.table).Verifier, nil
}

// QualityEstimator implements [router.Plugins].
func (r recorded) QualityEstimator(name, _ string, _ map[string]any) (sdk.QualityEstimator, error) {
	return nil, fmt.Errorf("estimator %s cannot be replayed", name)
}

// underPolicy wraps the replayed models by the middleware as the policy's router
// would, without its files, keys, servers and plugins.
func (c *Config) underPolicy(ctx context.Context) (model *middleware.Model, err error) {
	p := *c.Rules
	p.Mode, p.Baseline, p.Stream.Mode, p.Trace, p.Budget.Ledger = "enforce", "", "buffer", policies.Trace{}, ""
	p.Session, p.Shadow, p.Estimators = nil, nil, nil
	p.Models = slices.Clone(p.Models)
	replayed := map[string]llms.Model{}
	for i := range p.Models {
		m := &p.Models[i]
		answers, err := NewModel(c.Table, m.Name)
		if err != nil {
			return nil, err
		}
		answers.tokens = c.Repriced
		replayed[m.Name] = answers
		m.Provider, m.BaseURL, m.APIKey, m.Deployments, m.Timeout = "go", "", policies.Secret{}, nil, 0
		answers.limit(m)
	}
	r, err := router.New(ctx, &p, router.Options{Models: replayed, Plugins: recorded{c.Table}, Checks: []step.Check{}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	m := r.Config()
	m.Traces, m.Policy, m.Retry = c.Traces, c.Policy, step.Retry{MaxAttempts: 1}
	m.Coin = rand.New(rand.NewPCG(c.Seed, 0x1e91a4)).Float64
	if c.Estimator != nil {
		m.Quality, m.Cost = c.Estimator.QualityEstimator(), c.Estimator.CostEstimator()
	}
	if c.Verified && len(p.Verifiers) == 0 {
		m.Verifiers = []step.Verifier{Verifier(c.Table)}
	}
	return middleware.New(m)
}

// limit tells the policy's model how dear a call can be: the worst case under caps is
// the longest recorded answer, or without tokens the dearest recorded outcome.
func (m *Model) limit(as *policies.Model) {
	worst := 0.0
	for q := range m.table.Queries {
		v := m.cost(q)
		if m.tokens {
			v = outcome.At(m.table.OutputTokens, q, m.model)
		}
		if !math.IsNaN(v) {
			worst = max(worst, v)
		}
	}
	if m.tokens {
		if as.MaxOutputTokens == 0 {
			as.MaxOutputTokens = int(math.Ceil(worst))
		}
		return
	}
	nano := NanoPrice()
	as.Price = policies.Price{Input: nano.Input, Output: nano.Output}
	as.ContextTokens, as.MaxOutputTokens = 0, int(math.Ceil(worst*1e9))
}
