package router_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// tariff provides cost estimators by the name of their block.
type tariff struct {
	inProcess

	byName map[string]sdk.CostEstimatorFunc
}

func (t tariff) CostEstimator(name, _ string, _ map[string]any) (sdk.CostEstimator, error) {
	return t.byName[name], nil
}

// costs estimates the costs of models in order; NaN abstains.
func costs(usd ...float64) sdk.CostEstimatorFunc {
	return func(context.Context, *sdk.CostRequest) (*sdk.CostResponse, error) {
		out := &sdk.CostResponse{}
		for _, v := range usd {
			estimate := sdk.Estimate{Mean: v}
			if math.IsNaN(v) {
				estimate = sdk.Abstain()
			}
			out.Estimates = append(out.Estimates, estimate)
		}
		return out, nil
	}
}

// A policy's cost estimators are called in order: the first estimate for a model counts, and an estimator that is
// unavailable or does not apply is skipped.
func TestPolicyReachesCostEstimators(t *testing.T) {
	p, err := policies.Parse("policy.hcl", []byte(`
model "small" {
  provider = "go"
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 1
  }
}
model "large" {
  provider = "go"
  price {
    input_usd_per_million  = 10
    output_usd_per_million = 10
  }
}
strategy "route" {
  lambda = 1
}
estimator "gone" {
  plugin    = "p"
  estimates = "cost"
}
estimator "for-legal" {
  plugin    = "p"
  estimates = "cost"
  when {
    groups = ["legal"]
  }
}
estimator "small-only" {
  plugin    = "p"
  estimates = "cost"
  models    = ["small"]
}
estimator "all" {
  plugin    = "p"
  estimates = "cost"
}
`), policies.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := router.Assemble(p, 1, time.Now, tariff{byName: map[string]sdk.CostEstimatorFunc{
		"gone":      func(context.Context, *sdk.CostRequest) (*sdk.CostResponse, error) { return nil, errors.New("gone") },
		"for-legal": costs(7, 7), "small-only": costs(0.25, 0.5), "all": costs(3, math.NaN()),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Step.Estimators) != 0 {
		t.Errorf("%d quality estimators", len(a.Step.Estimators))
	}
	for group, want := range map[string][2]float64{"": {0.25, math.NaN()}, "legal": {7, 7}} {
		got, err := a.Step.Cost.EstimateCost(t.Context(), &sdk.CostRequest{Query: &sdk.Query{Group: group}, Models: []sdk.Model{{Name: "small"}, {Name: "large"}}})
		if got == nil || err == nil || err.Error() != "estimator gone: gone" {
			t.Fatalf("%+v, %v; want estimates, and what is not to be had", got, err)
		}
		for i, e := range got.Estimates {
			if e.Mean != want[i] && !(e.Abstains() && math.IsNaN(want[i])) {
				t.Errorf("group %q, model %d: %v, want %v", group, i, e.Mean, want[i])
			}
		}
	}
	p.Estimators[0].OnUnavailable = "fail"
	if _, err := a.Step.Cost.EstimateCost(t.Context(), &sdk.CostRequest{Query: &sdk.Query{}, Models: make([]sdk.Model, 2)}); !errors.Is(err, step.ErrEstimatorUnavailable) {
		t.Errorf("an estimator that must be had: %v", err)
	}
}
