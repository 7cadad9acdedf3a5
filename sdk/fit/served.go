package fit

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// ServedPromise is a promise about answers with high estimates: of the answers served as
// good, which are those with an estimate of at least Estimate, at most a share of MaxWrong
// are wrong.
type ServedPromise struct {
	MaxWrong   float64 `json:"max_wrong"`
	Confidence float64 `json:"confidence"`
	// Estimate is the least estimate of an answer that is served as good; it is above
	// 1 if nothing can be promised.
	Estimate float64 `json:"estimate"`
	// Share is the share of answers served as good, and Wrong the share of those that
	// were wrong, on unseen queries.
	Share float64 `json:"share"`
	Wrong float64 `json:"wrong"`
}

// Good reports whether an answer with that estimate is served as good.
func (s *ServedPromise) Good(estimate float64) bool { return estimate >= s.Estimate }

// servedStarts are the shares of answers at which the search for the largest share that keeps the promise
// starts; they divide the error probability among them.
var servedStarts = [...]float64{0.1, 0.35, 0.7}

// servedStep is the increase of the share from test to test.
const servedStep = 0.02

// meetServed finds the least estimate of answers that are served as good, for the fitted strategy.
func (f *fitter) meetServed() error {
	o := &f.options
	answers, err := f.answers()
	if err != nil {
		return err
	}
	slices.SortStableFunc(answers, func(a, b answer) int { return cmp.Compare(b.estimate, a.estimate) })
	n := len(answers)
	good := make([]float64, n)
	for i, a := range answers {
		good[i] = a.quality
	}
	s := ServedPromise{MaxWrong: o.MaxWrong, Confidence: o.Confidence, Estimate: 2}
	level := (1 - o.Confidence) / float64(len(servedStarts))
	most := 0
	for _, start := range servedStarts {
		for share := start; ; share += servedStep {
			// Answers with equal estimates are all served, or none.
			k := min(int(share*float64(n)), n)
			for k > 0 && k < n && answers[k].estimate == answers[k-1].estimate {
				k++
			}
			if k == 0 || breakChance(good[:k], 0, 1-o.MaxWrong, k) > level {
				break
			}
			most = max(most, k)
			if k == n {
				break
			}
		}
	}
	if most > 0 {
		s.Estimate = answers[most-1].estimate
		s.Share, s.Wrong = float64(most)/float64(n), 1-average(good[:most])
	}
	f.profile.Served = &s
	return nil
}

// answer is an answer to an unseen query.
type answer struct{ estimate, quality float64 }

// answers replays the fitted strategy, with ties decided by a seeded coin.
func (f *fitter) answers() ([]answer, error) {
	st := &f.profile.Strategy
	values := st.Lambdas
	if values == nil {
		values = st.Thresholds
	}
	sides := make([]cascade.Strategy, 2)
	for gamma := range sides {
		var err error
		if sides[gamma], err = f.candidate.base.Tune(values, float64(gamma)); err != nil {
			return nil, err
		}
	}
	results, err := f.stage.play(f.ctx, sides)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(f.options.Seed, 0x5e7d))
	out := make([]answer, len(f.stage.rows))
	for i := range out {
		r := &results[0]
		if rng.Float64() < st.Gamma {
			r = &results[1]
		}
		out[i] = answer{r.estimate[i], r.quality[i]}
	}
	return out, nil
}
