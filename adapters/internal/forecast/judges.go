package forecast

import (
	"context"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// judges provides verifiers and estimators that replace the policy's plugins and answer from the world's records.
type judges struct{ r *rehearsal }

// Verifier implements [router.Plugins]. Qualities serve as verdicts; see verdictOf.
func (j judges) Verifier(name, _ string, _ map[string]any) (sdk.Verifier, error) {
	for i := range j.r.policy.Verifiers {
		switch v := &j.r.policy.Verifiers[i]; {
		case v.Name != name:
		case v.Rejects():
			return nil, nil // its findings are not recorded
		case !v.Judges():
			return j.signal(name), nil
		}
	}
	return j.truth(name), nil
}

// truth returns a verifier that repeats the recorded verdicts, at their recorded costs. Without any it judges by the
// quality, with the verifier's error rates.
func (j judges) truth(verifier string) sdk.Verifier {
	return sdk.VerifierFunc(func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		o, usd := j.r.truth[req.Answer.Model], j.r.verdictUSD(verifier, req.Answer.Model)
		v := o.Quality
		if o.Verdicts != nil {
			recorded, known := o.Verdicts[verifier]
			if !known {
				recorded, known = o.Verdicts[anyVerifier]
			}
			if !known {
				return j.r.missingVerdict(req.Answer.Model, usd), nil
			}
			v = recorded
		} else if rates := j.r.rates[verifier]; rates != nil && !o.Judged {
			v = j.r.drawVerdict(verifier, req.Answer.Model, o.truth() >= 0.5, *rates)
		}
		return verdictOf(v, usd), nil
	})
}

// verdictOf converts a quality to a verdict: passed from 0.5 up, with a confidence that grows with the distance from
// 0.5.
func verdictOf(quality, usd float64) *sdk.Verdict {
	if quality >= 0.5 {
		return &sdk.Verdict{Outcome: sdk.Passed, Score: quality, Confidence: quality, CostUSD: usd}
	}
	return &sdk.Verdict{Outcome: sdk.Failed, Score: quality, Confidence: 1 - quality, CostUSD: usd}
}

// missingVerdict returns an inconclusive verdict, and counts it if the world has the answer: the verifier may have
// been inconclusive or never asked.
func (r *rehearsal) missingVerdict(model string, usd float64) *sdk.Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.truth[model].Known {
		r.f.Unrecorded++
	}
	return &sdk.Verdict{CostUSD: usd}
}

// drawVerdict draws the verdict of a judge with these error rates; 1 is a pass.
func (r *rehearsal) drawVerdict(verifier, model string, isRight bool, rates cascade.Rates) float64 {
	ifRight, ifWrong := rates.Likelihoods(true)
	passes := ifWrong
	if isRight {
		passes = ifRight
	}
	return draw(r.seed, r.n, Model{Provider: verifier, Name: model, Verified: true}, sdk.Estimate{Mean: passes})
}

// verdictUSD returns the recorded cost of a verdict, or 0.
func (r *rehearsal) verdictUSD(verifier, model string) float64 {
	w, ok := r.world.(verdictCosts)
	if !ok {
		return 0
	}
	usd, _ := w.VerdictUSD(r.n, verifier, model)
	return usd
}

func (j judges) signal(name string) sdk.Verifier {
	return sdk.VerifierFunc(func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		recorded := j.r.verifierSignals[req.Answer.Model]
		usd := recorded[name+sdk.SignalCostUSD]
		if v, known := recorded[name]; known {
			return verdictOf(v, usd), nil
		}
		return j.r.missingVerdict(req.Answer.Model, usd), nil
	})
}

// QualityEstimator implements [router.Plugins]. It returns nil for a world without recorded estimates. The estimator
// returns the quality of the answers of models that have run, and the recorded belief about the others.
func (j judges) QualityEstimator(string, string, map[string]any) (sdk.QualityEstimator, error) {
	world, ok := j.r.world.(believer)
	if !ok {
		return nil, nil
	}
	return sdk.QualityEstimatorFunc(func(_ context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
		resp := &sdk.QualityResponse{Estimates: make([]sdk.Estimate, len(req.Models))}
		for i, name := range req.Models {
			resp.Estimates[i] = sdk.Abstain()
			if believed, ok := world.Belief(j.r.n, name); ok {
				resp.Estimates[i] = believed
			}
			for k := range req.Attempts {
				if req.Attempts[k].Answer.Model == name {
					resp.Estimates[i] = sdk.Estimate{Mean: j.r.truth[name].Quality}
				}
			}
		}
		return resp, nil
	}), nil
}

// CostEstimator implements [router.Plugins] and returns nil: costs are recorded, so no plugin has to predict them.
func (j judges) CostEstimator(string, string, map[string]any) (sdk.CostEstimator, error) {
	return nil, nil
}
