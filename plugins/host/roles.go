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
	v.i.attest(verdict)
	return verdict, nil
}

// QualityEstimator is a plugin as an sdk.QualityEstimator.
type QualityEstimator struct{ i *instance }

// EstimateQuality asks the plugin.
func (e *QualityEstimator) EstimateQuality(ctx context.Context, req *sdk.QualityRequest) (out *sdk.QualityResponse, err error) {
	err = e.i.call(ctx, e.i.settings.CallTimeout, true, func(ctx context.Context, s *session) (err error) {
		out, err = s.Client().EstimateQuality(ctx, req)
		return err
	})
	return out, err
}

// CostEstimator is a plugin as an sdk.CostEstimator.
type CostEstimator struct{ i *instance }

// EstimateCost asks the plugin.
func (e *CostEstimator) EstimateCost(ctx context.Context, req *sdk.CostRequest) (out *sdk.CostResponse, err error) {
	err = e.i.call(ctx, e.i.settings.CallTimeout, true, func(ctx context.Context, s *session) (err error) {
		out, err = s.Client().EstimateCost(ctx, req)
		return err
	})
	return out, err
}

// PluginError reports whether err is a plugin's fault or absence rather than the
// caller's: what on_unavailable decides about.
func PluginError(err error) bool {
	var call *CallError
	return errors.Is(err, sdk.ErrPluginUnavailable) || errors.As(err, &call) || permanent(err)
}
