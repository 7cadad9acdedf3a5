package fit

import (
	"math"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Calibration measures the reliability of out-of-fold estimates.
type Calibration struct {
	// Ante covers the estimates before any model has run.
	Ante Reliability `json:"ante"`
	// Post covers each model's estimate after it alone has run. It is nil if qualities are final verdicts,
	// since the estimate then equals the verdict.
	Post *Reliability `json:"post,omitempty"`
}

// Reliability compares estimates with outcomes.
type Reliability struct {
	// Brier is the mean squared difference; Reference is that of each model's mean
	// quality as the estimate.
	Brier     float64 `json:"brier"`
	Reference float64 `json:"reference"`
	// Bins groups the estimates by tenths: from 0 to 0.1, ..., from 0.9 to 1.
	Bins [10]Bin `json:"bins"`
}

// Bin holds the number of estimates in one tenth, their mean, and the mean quality.
type Bin struct {
	Count    int     `json:"count"`
	Estimate float64 `json:"estimate"`
	Quality  float64 `json:"quality"`
}

func (r *Reliability) add(estimate, quality, mean float64) {
	if math.IsNaN(quality) {
		return
	}
	r.Brier += (estimate - quality) * (estimate - quality)
	r.Reference += (mean - quality) * (mean - quality)
	b := &r.Bins[min(max(int(estimate*10), 0), 9)]
	b.Count++
	b.Estimate += estimate
	b.Quality += quality
}

func (r *Reliability) finish() {
	n := 0
	for i := range r.Bins {
		b := &r.Bins[i]
		if b.Count > 0 {
			b.Estimate /= float64(b.Count)
			b.Quality /= float64(b.Count)
		}
		n += b.Count
	}
	if n > 0 {
		r.Brier /= float64(n)
		r.Reference /= float64(n)
	}
}

// calibrate measures the estimates of a replay. If qualities are inferred from verdicts, it compares only
// with truths that became known later, and returns nil if there are none.
func calibrate(t *outcome.Table, r *estimate.Replay, inferred bool) *Calibration {
	if inferred && t.StepVerdicts == nil {
		return nil
	}
	c := &Calibration{}
	if !t.Verified {
		c.Post = &Reliability{}
	}
	means := t.MeanQualities()
	beliefs := make([]cascade.Belief, len(t.Models))
	for q := range t.Queries {
		x := r.Start(q)
		x.Means(nil, beliefs)
		for m, v := range t.Quality[q] {
			if !inferred || !math.IsNaN(t.StepVerdicts[q][m]) {
				c.Ante.add(beliefs[m].Mean, v, means[m])
			}
		}
		for m, v := range t.Quality[q] {
			if c.Post != nil && (!inferred || !math.IsNaN(t.StepVerdicts[q][m])) {
				x.Means([]int{m}, beliefs)
				c.Post.add(beliefs[m].Mean, v, means[m])
			}
		}
	}
	c.Ante.finish()
	if c.Post != nil {
		c.Post.finish()
	}
	return c
}
