package router

import (
	"context"
	"math"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
)

// doubtingEstimator lowers the estimate of an agreement for tools whose answers often differ: to at most
// 1 - d^(n-1) if n answers agree and answers that call the tool differ in a share d of the steps.
type doubtingEstimator struct{ sdk.QualityEstimator }

func (e doubtingEstimator) EstimateQuality(ctx context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
	resp, err := e.QualityEstimator.EstimateQuality(ctx, req)
	if err != nil || len(req.Attempts) < 2 {
		return resp, err
	}
	for i := range req.Attempts {
		answer, agree := &req.Attempts[i].Answer, -1
		for k := range req.Attempts {
			if req.Attempts[k].Answer.Key == answer.Key {
				agree++
			}
		}
		doubt := feature.AnswerDoubt(req.Query.Features, answer)
		if agree == 0 || doubt == 0 {
			continue
		}
		most := 1 - math.Pow(doubt, float64(agree))
		for m, name := range req.Models {
			if name == answer.Model {
				resp.Estimates[m].Mean = min(resp.Estimates[m].Mean, most)
			}
		}
	}
	return resp, nil
}
