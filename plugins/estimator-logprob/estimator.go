package main

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/estimate/classifier"
	"github.com/stepfall/stepfall/sdk/feature"
)

// estimator predicts from signals by a trained classifier.
type estimator struct {
	classifier *classifier.Classifier
	classes    []string
	agreement  feature.Method
}

// EstimateQuality estimates the models that have run, by their last answer, and
// abstains on the others.
func (e *estimator) EstimateQuality(_ context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
	response := &sdk.QualityResponse{Estimates: make([]sdk.Estimate, len(req.Models))}
	for i, model := range req.Models {
		response.Estimates[i] = sdk.Abstain()
		at := lastAttempt(req.Attempts, model)
		if at < 0 || len(req.Attempts[at].Answer.LogProbs) == 0 {
			continue
		}
		if p, ok := e.classifier.Predict(model, e.signals(req.Attempts, at)); ok {
			// What remains unknown about an answer that is right or wrong.
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

// signals returns all that is measured on the answer: what was measured before
// it came here, the features of its tokens, those of its tool calls' arguments
// with args_ before their names, and how it stands to the other answers.
func (e *estimator) signals(attempts []sdk.Attempt, at int) map[string]float64 {
	answer := &attempts[at].Answer
	signals := feature.OfAnswer(answer)
	for name, v := range answer.Signals {
		if _, measured := signals[name]; !measured {
			signals[name] = v
		}
	}
	mine, haveClasses := feature.Classes(answer.LogProbs, e.classes)
	if haveClasses {
		signals["class_entropy"] = feature.Entropy(mine)
		for _, p := range mine {
			signals["class_top_prob"] = max(signals["class_top_prob"], p)
		}
	}
	agreement, others := 0.0, 0.0
	divergence, compared := 0.0, 0.0
	for i := range attempts {
		if i == at {
			continue
		}
		other := &attempts[i].Answer
		agreement += feature.Agree(e.agreement, said(answer), said(other))
		others++
		if theirs, ok := feature.Classes(other.LogProbs, e.classes); ok && haveClasses {
			divergence += feature.JensenShannon(mine, theirs)
			compared++
		}
	}
	if others > 0 {
		signals["agreement"] = agreement / others
	}
	if compared > 0 {
		signals["js_divergence"] = divergence / compared
	}
	return signals
}

// said is what an answer says: its text, or its tool calls.
func said(answer *sdk.Answer) string {
	if len(answer.ToolCalls) == 0 {
		return answer.Text
	}
	var b strings.Builder
	for _, call := range answer.ToolCalls {
		b.WriteString(call.Name + " " + call.Arguments + "\n")
	}
	return b.String()
}
