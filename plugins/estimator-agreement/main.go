// Command estimator-agreement is a stepfall plugin: it estimates the quality of
// answers by how far the answers of several models, or several answers of one,
// agree.
package main

import (
	"context"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/plugin"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// Config is the config block of the policy.
type Config struct {
	Method   string             `stepfall:"method,enum=answer|exact|numeric|code|ngram,default=answer" doc:"How texts are compared: by the final answer in them, as the step engine compares answers; or the same text, the same last number, the same code but for comments and space, shared character trigrams. Tool calls are always compared in canonical form."`
	Agree    float64            `stepfall:"agree,min=0,max=1,default=0.9" doc:"Quality of an answer with which all others agree."`
	Disagree float64            `stepfall:"disagree,min=0,max=1,default=0.3" doc:"Quality of an answer with which no other agrees; between the two, quality is linear in the share that agrees."`
	Weights  map[string]float64 `stepfall:"weights" doc:"What the agreement of a model counts; 1 for models that are not named."`
}

func main() {
	plugin.Main(description())
}

func description() plugin.Plugin {
	return plugin.Plugin{
		Name: "estimator-agreement", Version: "1.0.0",
		Doc:   "Estimates the quality of answers by their agreement with the other answers to the same query. Abstains on models that have not run, and while there is only one answer.",
		Roles: []plugin.Role{plugin.QualityEstimator(open)},
	}
}

func open(_ context.Context, c Config) (sdk.QualityEstimator, error) {
	if c.Disagree > c.Agree {
		return nil, schema.Errorf([]string{"disagree"}, "%v is above agree, %v: agreement would count against an answer", c.Disagree, c.Agree)
	}
	for model, weight := range c.Weights {
		if !(weight >= 0) {
			return nil, schema.Errorf([]string{"weights", model}, "%v is negative", weight)
		}
	}
	return &estimator{agree: c.Agree, disagree: c.Disagree, weights: c.Weights, same: agreement(feature.Method(c.Method))}, nil
}
