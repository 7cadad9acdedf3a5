package host

import (
	"context"
	"fmt"

	"github.com/stepfall/stepfall/sdk"
)

// Mode is what a policy wants when a plugin fails: its on_unavailable.
type Mode string

// The modes.
const (
	// Abstain: go on without the plugin's word. This is the default.
	Abstain Mode = "abstain"
	// Fail: the step fails.
	Fail Mode = "fail"
	// Accept: take the answer as good.
	Accept Mode = "accept"
)

// ParseMode reads a mode; empty means Abstain.
func ParseMode(text string) (Mode, error) {
	switch m := Mode(text); m {
	case "":
		return Abstain, nil
	case Abstain, Fail, Accept:
		return m, nil
	}
	return "", fmt.Errorf("on_unavailable is %q: it must be abstain, fail or accept", text)
}

// OrVerifier returns v with the failures of its plugin turned into what the mode
// says: an inconclusive verdict, the error itself, or a verdict that passes. The
// evidence says that the answer was not checked.
func OrVerifier(v sdk.Verifier, mode Mode) sdk.Verifier {
	if mode == Fail {
		return v
	}
	return sdk.VerifierFunc(func(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		verdict, err := v.Verify(ctx, req)
		if err == nil || !PluginError(err) {
			return verdict, err
		}
		if mode == Accept {
			return &sdk.Verdict{Outcome: sdk.Passed, Score: 1, Evidence: "accepted unchecked: " + err.Error(), CostUSD: sdk.SpentUSD(err)}, nil
		}
		return &sdk.Verdict{Outcome: sdk.Inconclusive, Evidence: "not checked: " + err.Error(), CostUSD: sdk.SpentUSD(err)}, nil
	})
}

// OrQualityEstimator does the same for a quality estimator: it abstains, fails, or
// takes the answers of models that have run as good and abstains on the others.
func OrQualityEstimator(e sdk.QualityEstimator, mode Mode) sdk.QualityEstimator {
	if mode == Fail {
		return e
	}
	return sdk.QualityEstimatorFunc(func(ctx context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
		reply, err := e.EstimateQuality(ctx, req)
		if err == nil || !PluginError(err) {
			return reply, err
		}
		out := &sdk.QualityResponse{Estimates: make([]sdk.Estimate, len(req.Models)), CostUSD: sdk.SpentUSD(err)}
		for i, model := range req.Models {
			out.Estimates[i] = sdk.Abstain()
			if mode == Accept && ran(req.Attempts, model) {
				out.Estimates[i] = sdk.Estimate{Mean: 1}
			}
		}
		return out, nil
	})
}

func ran(attempts []sdk.Attempt, model string) bool {
	for i := range attempts {
		if attempts[i].Answer.Model == model {
			return true
		}
	}
	return false
}

// OrCostEstimator does the same for a cost estimator; there is nothing to accept,
// so that it abstains unless it fails.
func OrCostEstimator(e sdk.CostEstimator, mode Mode) sdk.CostEstimator {
	if mode == Fail {
		return e
	}
	return sdk.CostEstimatorFunc(func(ctx context.Context, req *sdk.CostRequest) (*sdk.CostResponse, error) {
		reply, err := e.EstimateCost(ctx, req)
		if err == nil || !PluginError(err) {
			return reply, err
		}
		out := &sdk.CostResponse{Estimates: make([]sdk.Estimate, len(req.Models))}
		for i := range out.Estimates {
			out.Estimates[i] = sdk.Abstain()
		}
		return out, nil
	})
}
