package main

import (
	"context"
	"math"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
)

// estimator turns the agreement between answers into quality.
type estimator struct {
	agree, disagree float64
	weights         map[string]float64
	same            func(a, b *sdk.Answer) float64
}

// EstimateQuality estimates the models that have run once there are two answers.
func (e *estimator) EstimateQuality(_ context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
	response := &sdk.QualityResponse{Estimates: make([]sdk.Estimate, len(req.Models))}
	for i, model := range req.Models {
		response.Estimates[i] = e.estimate(model, req.Attempts)
	}
	return response, nil
}

// estimate goes by the model's last answer and its weighted agreement with all
// other answers, the model's own earlier ones included.
func (e *estimator) estimate(model string, attempts []sdk.Attempt) sdk.Estimate {
	at := -1
	for i := range attempts {
		if attempts[i].Answer.Model == model {
			at = i
		}
	}
	if at < 0 {
		return sdk.Abstain()
	}
	agreement, total := 0.0, 0.0
	for i := range attempts {
		if i == at {
			continue
		}
		weight, named := e.weights[attempts[i].Answer.Model]
		if !named {
			weight = 1
		}
		agreement += weight * e.same(&attempts[at].Answer, &attempts[i].Answer)
		total += weight
	}
	if total == 0 {
		return sdk.Abstain()
	}
	p := e.disagree + (e.agree-e.disagree)*agreement/total
	return sdk.Estimate{Mean: p, StdDev: math.Sqrt(p * (1 - p))}
}

// agreement compares two answers: tool calls, and texts where no other method is given,
// by [feature.AnswerKey], as the step engine and fits do. An empty answer agrees with none.
func agreement(m feature.Method) func(a, b *sdk.Answer) float64 {
	return func(a, b *sdk.Answer) float64 {
		if m != methodAnswer && len(a.ToolCalls)+len(b.ToolCalls) == 0 {
			return feature.Agree(m, a.Text, b.Text)
		}
		if key := feature.AnswerKey(a); key != "" && key == feature.AnswerKey(b) {
			return 1
		}
		return 0
	}
}

// methodAnswer compares answers in canonical form.
const methodAnswer = "answer"
