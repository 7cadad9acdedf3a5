// Command estimator-hedge is a plugin that lowers its estimate of an answer for each word of doubt in it.
package main

import (
	"context"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin"
)

func main() {
	plugin.Main(plugin.Plugin{
		Name: "estimator-hedge", Version: "1.0.0", Doc: "Trusts an answer less for each word of doubt.",
		Roles: []plugin.Role{plugin.QualityEstimator(newEstimator)},
	})
}

// Config is the plugin's config block in the policy.
type Config struct {
	Words   []string `stepfall:"words,required,min=1" doc:"Words of doubt."`
	Penalty float64  `stepfall:"penalty,min=0,max=1,default=0.3" doc:"Quality lost for each of them."`
}

func newEstimator(_ context.Context, c Config) (sdk.QualityEstimator, error) {
	return sdk.QualityEstimatorFunc(func(_ context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
		resp := &sdk.QualityResponse{Estimates: make([]sdk.Estimate, len(req.Models))}
		for i, model := range req.Models {
			resp.Estimates[i] = sdk.Abstain() // for a model that has not run, the policy's prior applies
			for _, a := range req.Attempts {
				if a.Answer.Model == model {
					resp.Estimates[i] = sdk.Estimate{Mean: c.quality(a.Answer.Text), StdDev: 0.1}
				}
			}
		}
		return resp, nil
	}), nil
}

func (c Config) quality(text string) float64 {
	quality := 0.95
	for _, word := range c.Words {
		quality -= c.Penalty * float64(strings.Count(strings.ToLower(text), word))
	}
	return max(0, quality)
}
