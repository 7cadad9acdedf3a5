package eval

import (
	"errors"
	"fmt"
	"math"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// errConstantCost means that all models cost the same on average, so there is no
// trade-off between cost and quality.
var errConstantCost = errors.New("all models have the same mean cost: a cost-quality curve needs models of different cost")

// validate returns an error if outcomes are not suitable for a comparison, which needs those of every
// model on every query.
func validate(o *outcome.Table) error {
	if len(o.Models) < 2 {
		return fmt.Errorf("a comparison needs at least two models, and has %d", len(o.Models))
	}
	if len(o.Queries) < 2 {
		return fmt.Errorf("a comparison needs at least two queries on which every model has a quality and a cost, and has %d", len(o.Queries))
	}
	for q, name := range o.Queries {
		for m, model := range o.Models {
			quality, cost := outcome.At(o.Quality, q, m), outcome.At(o.CostUSD, q, m)
			if !(quality >= 0 && quality <= 1) {
				return fmt.Errorf("query %s, model %s: quality %v is not in [0, 1]", name, model, quality)
			}
			if !(cost >= 0) || math.IsInf(cost, 0) {
				return fmt.Errorf("query %s, model %s: cost %v is not a finite amount of at least 0", name, model, cost)
			}
		}
	}
	f := singles(o).frame(nil)
	if low, high := f.costRange(); !(high > low) {
		return errConstantCost
	}
	return nil
}
