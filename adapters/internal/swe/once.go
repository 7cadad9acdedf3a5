package swe

import "github.com/stepfall/stepfall/sdk/cascade"

// singleCandidate is the strategy of PerStep: it runs the only candidate once.
type singleCandidate struct{}

// Decide runs candidate 0 and then stops.
func (singleCandidate) Decide(s *cascade.State) cascade.Decision {
	if len(s.Ran) == 0 {
		return cascade.Decision{Run: 0, Answer: cascade.None}
	}
	return cascade.Decision{Run: cascade.Stop, Answer: 0}
}
