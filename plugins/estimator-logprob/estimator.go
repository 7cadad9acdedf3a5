package main

import (
	"context"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/feature"
)

type estimator struct {
	classifier *estimate.Classifier
	classes    []string
}

// EstimateQuality estimates the models that have run, from their last answers, and abstains on the others.
func (e *estimator) EstimateQuality(_ context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
	response := &sdk.QualityResponse{Estimates: make([]sdk.Estimate, len(req.Models))}
	for i, model := range req.Models {
		response.Estimates[i] = sdk.Abstain()
		at := lastAttempt(req.Attempts, model)
		if at < 0 || len(req.Attempts[at].Answer.LogProbs) == 0 {
			continue
		}
		if p, ok := e.classifier.Predict(model, e.signals(req.Attempts, at)); ok {
			// An answer is right or wrong, so the estimate has the standard deviation of a Bernoulli variable.
			response.Estimates[i] = sdk.Estimate{Mean: p, StdDev: math.Sqrt(p * (1 - p))}
		}
	}
	return response, nil
}

func lastAttempt(attempts []sdk.Attempt, model string) int {
	for i, attempt := range slices.Backward(attempts) {
		if attempt.Answer.Model == model {
			return i
		}
	}
	return -1
}

// signals returns all signals of the answer: those measured by the step engine, such as the agreement with
// earlier answers; the features of its tokens and, prefixed with args_, of its tool call arguments; and the
// comparison of its classes with those of the other answers.
func (e *estimator) signals(attempts []sdk.Attempt, at int) map[string]float64 {
	answer := &attempts[at].Answer
	signals := feature.OfAnswer(answer)
	for name, v := range answer.Signals {
		if _, measured := signals[name]; !measured {
			signals[name] = v
		}
	}
	mine, haveClasses := feature.Classes(answer.LogProbs, e.classes)
	if !haveClasses {
		return signals
	}
	signals["class_entropy"] = feature.Entropy(mine)
	signals["class_top_prob"] = max(signals["class_top_prob"], slices.Max(mine))
	divergence, compared := 0.0, 0.0
	for i := range attempts {
		if i == at {
			continue
		}
		other := &attempts[i].Answer
		if theirs, ok := feature.Classes(other.LogProbs, e.classes); ok {
			divergence += feature.JensenShannon(mine, theirs)
			compared++
		}
	}
	if compared > 0 {
		signals["js_divergence"] = divergence / compared
	}
	return signals
}
