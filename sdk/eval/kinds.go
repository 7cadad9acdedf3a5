package eval

import "github.com/stepfall/stepfall/sdk/estimate"

const (
	kindGaussian   = estimate.KindLatent
	kindDifficulty = estimate.KindLatent
	kindLogistic   = estimate.KindLatent
)

// qualityKinds are the estimates that can be asked for.
func qualityKinds() []string {
	return []string{estimate.KindMean, estimate.KindSignal, estimate.KindLatent}
}
