package cascade

import (
	"fmt"
	"math"
)

// Rates are the error rates of a judge of answers: the share of wrong answers that it passes, and of
// right ones that it rejects. The zero value is a judge that is always right.
type Rates struct {
	FalsePass   float64 `json:"false_pass"`
	FalseReject float64 `json:"false_reject"`
}

// The rates assumed for a model that judges, before any of its verdicts are checked.
const (
	PriorFalsePass   = 0.15
	PriorFalseReject = 0.05
)

// priorWeight is the number of wrong answers, and of right ones, that the prior rates are worth.
const priorWeight = 10

// Validate returns an error if the rates are not probabilities, or if a pass would not make an answer
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

// Look returns the probability of a pass for an answer that is right with probability p,
// and the probabilities that it is right after a pass and after a fail:
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

// Gain returns by how much a verdict on an answer that is right with probability p is
// expected to raise the quality of the better of that answer and one of quality beside:
//
//	pass·max(passed, beside) + (1 - pass)·max(failed, beside) - max(p, beside).
func (r Rates) Gain(p, beside float64) float64 {
	pass, passed, failed := r.Look(p)
	return pass*max(passed, beside) + (1-pass)*max(failed, beside) - max(p, beside)
}

// Likelihoods returns the probability of a pass, or of a fail, if the answer is right and if it is wrong.
func (r Rates) Likelihoods(passed bool) (ifRight, ifWrong float64) {
	if passed {
		return 1 - r.FalseReject, r.FalsePass
	}
	return r.FalseReject, 1 - r.FalsePass
}

// Posterior returns, by Bayes' rule, the probability that an answer is right after an observation: p is
// the probability before, ifRight and ifWrong are those of the observation if the answer is right and if
// it is wrong. If both are 0, it returns p.
func Posterior(p, ifRight, ifWrong float64) float64 {
	right, wrong := p*ifRight, (1-p)*ifWrong
	if right+wrong <= 0 {
		return p
	}
	return right / (right + wrong)
}

// LearnRates returns the rates of a judge from the numbers of wrong answers that it has judged and passed,
// and of right answers that it has judged and rejected, shrunk towards the prior rates.
func LearnRates(wrong, passed, right, rejected float64) Rates {
	return Rates{
		FalsePass:   (passed + priorWeight*PriorFalsePass) / (wrong + priorWeight),
		FalseReject: (rejected + priorWeight*PriorFalseReject) / (right + priorWeight),
	}
}

// judgedLaw returns the law of an answer's estimate after a verdict.
func (b *Belief) judgedLaw(scale float64) law {
	p := b.Mean
	if scale == 0 {
		return law{mean: p}
	}
	pass, hi, lo := b.Judge.Look(p)
	if hi-lo <= negligible || math.IsNaN(hi) {
		return law{mean: p}
	}
	if scale != 1 {
		lo, hi = p*(1-scale)+scale*lo, p+scale*(hi-p)
	}
	return law{mean: p, lo: lo, hi: hi, p: pass, isTwoPoint: true}
}
