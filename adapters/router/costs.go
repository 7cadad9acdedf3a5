package router

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// costEstimators are called in the order of the policy, the profile's last. For each model, the first estimate
// that is not an abstention counts; if all abstain, the model's price decides. The error joins the errors of
// the estimators that failed.
type costEstimators []costEstimator

type costEstimator struct {
	block *policies.Estimator
	sdk.CostEstimator
}

func (c costEstimators) EstimateCost(ctx context.Context, req *sdk.CostRequest) (*sdk.CostResponse, error) {
	out := &sdk.CostResponse{Estimates: make([]sdk.Estimate, len(req.Models))}
	for i := range out.Estimates {
		out.Estimates[i] = sdk.Abstain()
	}
	var faults error
	for _, e := range c {
		if e.CostEstimator == nil || !e.block.When.Matches(req.Query) {
			continue
		}
		resp, err := e.ask(ctx, req)
		if err != nil {
			if e.block.OnUnavailable == "fail" {
				return nil, fmt.Errorf("%w: %w", step.ErrEstimatorUnavailable, err)
			}
			faults = errors.Join(faults, err)
			continue
		}
		for i, estimate := range resp.Estimates {
			if out.Estimates[i].Abstains() && (e.block.Models == nil || slices.Contains(e.block.Models, req.Models[i].Name)) {
				out.Estimates[i] = estimate
			}
		}
	}
	return out, faults
}

func (e costEstimator) ask(ctx context.Context, req *sdk.CostRequest) (*sdk.CostResponse, error) {
	if e.block.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.block.Timeout)
		defer cancel()
	}
	resp, err := e.EstimateCost(ctx, req)
	if err == nil && (resp == nil || len(resp.Estimates) != len(req.Models)) {
		err = fmt.Errorf("want %d estimates", len(req.Models))
	}
	if err != nil {
		return nil, fmt.Errorf("estimator %s: %w", e.block.Name, err)
	}
	return resp, nil
}
