package forecast

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/outcome"
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

// CheckOutcomes returns what of a policy outcomes cannot tell: what makes a forecast
// from a table impossible, and notes on what plays no part in it.
func CheckOutcomes(p *policies.Policy) (notes []string, err error) {
	var faults []error
	for i := range p.Estimators {
		e := &p.Estimators[i]
		if e.BuiltIn() {
			continue
		}
		if e.OnUnavailable == "fail" {
			faults = append(faults, fmt.Errorf("%s: estimator %q is a plugin, whose estimates no table records, and on_unavailable says fail", p.Path, e.Name))
			continue
		}
		notes = append(notes, fmt.Sprintf("estimator %s abstains: it is a plugin, whose estimates no table records", e.Name))
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
