package cascade

import (
	"fmt"
	"math"
)

// Rates are the error rates of a judge of answers: the share of wrong answers that it passes, and of
// right ones that it rejects. The zero Rates are those of a judge that is always right.
type Rates struct {
	FalsePass   float64 `json:"false_pass"`
	FalseReject float64 `json:"false_reject"`
}

// The rates of a judge of which nothing is known but that it is a model.
const (
	PriorFalsePass   = 0.15
	PriorFalseReject = 0.05
)

// priorWeight is how many wrong, and right, answers the prior rates count for.
const priorWeight = 10

// Validate reports rates that are not probabilities, or with which a pass would not make an answer
// more likely to be right.
func (r Rates) Validate() error {
	if !(r.FalsePass >= 0 && r.FalseReject >= 0 && r.FalsePass+r.FalseReject < 1) {
		return fmt.Errorf("a judge that passes %v of the wrong answers and rejects %v of the right ones says nothing: the two must be below 1 together", r.FalsePass, r.FalseReject)
	}
	return nil
}

// And returns the rates of two independent judges that must both pass an answer.
func (r Rates) And(other Rates) Rates {
	return Rates{r.FalsePass * other.FalsePass, 1 - (1-r.FalseReject)*(1-other.FalseReject)}
}

// Look returns the probability that an answer passes which is right with probability p,
// and how probable it is that it is right after a pass, and after a fail:
//
//	pass   = p·(1 - fr) + (1 - p)·fp
//	passed = p·(1 - fr) / pass
//	failed = p·fr / (1 - pass)
func (r Rates) Look(p float64) (pass, passed, failed float64) {
	pass = p*(1-r.FalseReject) + (1-p)*r.FalsePass
	right, wrong := r.Likelihoods(true)
	passed = Posterior(p, right, wrong)
	right, wrong = r.Likelihoods(false)
	return pass, passed, Posterior(p, right, wrong)
}

// Gain returns by how much a look is expected to raise the best of two answers, one that is
// right with probability p and is looked at, and one of that quality beside it:
//
//	pass·max(passed, beside) + (1 - pass)·max(failed, beside) - max(p, beside).
func (r Rates) Gain(p, beside float64) float64 {
	pass, passed, failed := r.Look(p)
	return pass*max(passed, beside) + (1-pass)*max(failed, beside) - max(p, beside)
}

// Likelihoods returns the probability of a verdict if the answer is right, and if it is wrong.
func (r Rates) Likelihoods(passed bool) (ifRight, ifWrong float64) {
	if passed {
		return 1 - r.FalseReject, r.FalsePass
	}
	return r.FalseReject, 1 - r.FalsePass
}

// Posterior returns the probability of being right, p before, after an observation with probability
// ifRight if so and ifWrong if not: Bayes' rule. If both are 0, it returns p.
func Posterior(p, ifRight, ifWrong float64) float64 {
	right, wrong := p*ifRight, (1-p)*ifWrong
	if right+wrong <= 0 {
		return p
	}
	return right / (right + wrong)
}

// LearnRates returns the rates of a judge from how many wrong answers it has seen and passed, and how
// many right ones it has seen and rejected, shrunk towards the prior's.
func LearnRates(wrong, passed, right, rejected float64) Rates {
	return Rates{
		FalsePass:   (passed + priorWeight*PriorFalsePass) / (wrong + priorWeight),
		FalseReject: (rejected + priorWeight*PriorFalseReject) / (right + priorWeight),
	}
}

// judgedLaw is the law of an answer's estimate after a verdict.
func (b *Belief) judgedLaw(scale float64) law {
	p := b.Mean
	if scale == 0 || p <= 0 || p >= 1 {
		return law{mean: p}
	}
	pass, hi, lo := b.Judge.Look(p)
	if hi-lo <= negligible || math.IsNaN(hi) {
		return law{mean: p}
	}
	if scale != 1 {
		lo, hi = p*(1-scale)+scale*lo, p+scale*(hi-p)
	}
	return law{mean: p, lo: lo, hi: hi, p: pass, two: true}
}
