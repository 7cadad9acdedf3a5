package main

import (
	"context"
	"encoding/json"
	"math"
	"reflect"

	"github.com/stepfall/stepfall/sdk"
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

// sameCalls is 1 when both answers call the same tools with the same arguments,
// in the same order, and call any at all. Arguments are compared as JSON.
func sameCalls(a, b *sdk.Answer) float64 {
	if len(a.ToolCalls) == 0 || len(a.ToolCalls) != len(b.ToolCalls) {
		return 0
	}
	for i := range a.ToolCalls {
		x, y := a.ToolCalls[i], b.ToolCalls[i]
		if x.Name != y.Name || !reflect.DeepEqual(parsed(x.Arguments), parsed(y.Arguments)) {
			return 0
		}
	}
	return 1
}

// parsed returns the JSON value of a text, or the text when it is none.
func parsed(s string) any {
	var value any
	if json.Unmarshal([]byte(s), &value) != nil {
		return s
	}
	return value
}
