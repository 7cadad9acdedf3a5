package eval

import "github.com/stepfall/stepfall/sdk/estimate"

const (
	kindGaussian   = "gaussian"
	kindDifficulty = "difficulty"
	kindLogistic   = "logistic"
)

// qualityKinds are the estimates that can be asked for.
func qualityKinds() []string {
	return []string{estimate.KindMean, estimate.KindSignal, kindGaussian, kindDifficulty, kindLogistic}
}
