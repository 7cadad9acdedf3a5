package host

import (
	"context"
	"errors"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// Verifier is a plugin as an sdk.Verifier.
type Verifier struct{ i *instance }

// Verify asks the plugin for a verdict.
func (v *Verifier) Verify(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	return v.VerifyWith(ctx, req, nil)
}

// VerifyWith is Verify with news of how far it is; events may be nil and is called
// from one goroutine, before VerifyWith returns.
func (v *Verifier) VerifyWith(ctx context.Context, req *sdk.VerifyRequest, events func(wire.Event)) (*sdk.Verdict, error) {
	var verdict *sdk.Verdict
	err := v.i.call(ctx, v.i.settings.VerifyTimeout, false, func(ctx context.Context, s *session) (err error) {
		verdict, err = s.Client().Verify(ctx, req, events)
		return err
	})
	if err != nil {
		return nil, err
	}
	if verdict.Verifier == "" {
		verdict.Verifier = v.i.name
	}
	return verdict, nil
}

// QualityEstimator is a plugin as an sdk.QualityEstimator. It takes batches too.
type QualityEstimator struct{ i *instance }

// EstimateQuality asks the plugin.
func (e *QualityEstimator) EstimateQuality(ctx context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
	out, err := e.EstimateQualityBatch(ctx, []*sdk.QualityRequest{req})
	if err != nil {
		return nil, err
	}
	if out[0].Err != nil {
		return nil, e.i.explain(ctx, nil, out[0].Err)
	}
	return &sdk.QualityResponse{Estimates: out[0].Estimates, CostUSD: out[0].CostUSD}, nil
}

// EstimateQualityBatch asks the plugin about several requests at once. It returns
// one result for each, in order; the error is for a failure of the whole.
func (e *QualityEstimator) EstimateQualityBatch(ctx context.Context, reqs []*sdk.QualityRequest) ([]wire.Result, error) {
	return batches(ctx, e.i, reqs, func(ctx context.Context, s *session, part []*sdk.QualityRequest) ([]wire.Result, error) {
		return s.Client().EstimateQuality(ctx, part)
	})
}

// CostEstimator is a plugin as an sdk.CostEstimator. It takes batches too.
type CostEstimator struct{ i *instance }

// EstimateCost asks the plugin.
func (e *CostEstimator) EstimateCost(ctx context.Context, req *sdk.CostRequest) (*sdk.CostResponse, error) {
	out, err := e.EstimateCostBatch(ctx, []*sdk.CostRequest{req})
	if err != nil {
		return nil, err
	}
	if out[0].Err != nil {
		return nil, e.i.explain(ctx, nil, out[0].Err)
	}
	return &sdk.CostResponse{Estimates: out[0].Estimates}, nil
}

// EstimateCostBatch asks the plugin about several requests at once, like
// [QualityEstimator.EstimateQualityBatch].
func (e *CostEstimator) EstimateCostBatch(ctx context.Context, reqs []*sdk.CostRequest) ([]wire.Result, error) {
	return batches(ctx, e.i, reqs, func(ctx context.Context, s *session, part []*sdk.CostRequest) ([]wire.Result, error) {
		return s.Client().EstimateCost(ctx, part)
	})
}

// batches sends requests in parts that the plugin takes.
func batches[R any](ctx context.Context, i *instance, reqs []R, estimate func(context.Context, *session, []R) ([]wire.Result, error)) ([]wire.Result, error) {
	var out []wire.Result
	err := i.call(ctx, i.settings.CallTimeout, true, func(ctx context.Context, s *session) error {
		size := s.info.MaxBatchSize
		if size == 0 || size >= len(reqs) {
			var err error
			out, err = estimate(ctx, s, reqs)
			return err
		}
		out = make([]wire.Result, 0, len(reqs))
		for len(out) < len(reqs) {
			part, err := estimate(ctx, s, reqs[len(out):min(len(out)+size, len(reqs))])
			if err != nil {
				return err
			}
			out = append(out, part...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// PluginError reports whether err is a plugin's fault or absence rather than the
// caller's: what on_unavailable decides about.
func PluginError(err error) bool {
	var call *CallError
	return errors.Is(err, sdk.ErrPluginUnavailable) || errors.As(err, &call) || permanent(err)
}
