package sdk

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Outcome is the result of a verification.
type Outcome int

// The outcomes. The zero value says nothing about the answer.
const (
	// Inconclusive: no check could be run. It is no evidence about the answer.
	Inconclusive Outcome = iota
	// Passed: every check passed.
	Passed
	// Failed: the answer is wrong.
	Failed
)

var outcomeNames = [...]string{Inconclusive: "inconclusive", Passed: "passed", Failed: "failed"}

// String returns the outcome's name in lower case.
func (o Outcome) String() string {
	if o < 0 || int(o) >= len(outcomeNames) {
		return fmt.Sprintf("outcome(%d)", int(o))
	}
	return outcomeNames[o]
}

// MarshalText returns the outcome's name.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText sets o to the outcome with that name.
func (o *Outcome) UnmarshalText(text []byte) error {
	for i, name := range outcomeNames {
		if string(text) == name {
			*o = Outcome(i)
			return nil
		}
	}
	return fmt.Errorf("unknown outcome %q", text)
}

// Verdict is a verifier's finding about one answer.
type Verdict struct {
	// Verifier names the verifier.
	Verifier string  `json:"verifier,omitempty"`
	Outcome  Outcome `json:"outcome"`
	// Score is the share of checks that passed, in [0, 1].
	Score float64 `json:"score"`
	// Confidence is the probability in [0, 1] that the outcome is right; 0 means 1.
	Confidence float64 `json:"confidence,omitempty"`
	// IfRight and IfWrong are the probabilities of this outcome if the answer is right and if it is wrong,
	// from the judge's error rates. Both are 0 if the verdict is final, with its Confidence. The step
	// engine sets them.
	IfRight float64 `json:"if_right,omitempty"`
	IfWrong float64 `json:"if_wrong,omitempty"`
	// Evidence tells people and the next model which checks failed and how, or why none could be run.
	Evidence string `json:"evidence,omitempty"`
	// Isolation lists the isolation layers that confined the checked program, and IsolationMissing those
	// that were requested but unavailable, with the reason.
	Isolation        []string          `json:"isolation,omitempty"`
	IsolationMissing map[string]string `json:"isolation_missing,omitempty"`
	// Way is how the outcome was reached, so that error rates can be measured by kind of judge: "tests in
	// process", "exit code", "cases"; "" if unknown.
	Way string `json:"way,omitempty"`
	// Altered counts the tests that were run again with altered expectations, and Noticed those of them
	// that then failed, as they must.
	Altered int `json:"altered,omitempty"`
	Noticed int `json:"noticed,omitempty"`
	// LeftOut lists the files whose edits were discarded before the answer was judged. The verdict is on
	// the rest.
	LeftOut []string `json:"left_out,omitempty"`
	// CostUSD is the cost of the verification itself in US dollars, for instance for a judge's call.
	CostUSD  float64       `json:"cost_usd,omitempty"`
	Duration time.Duration `json:"duration_ns,omitempty"`
}

// Quality returns the probability that the answer is right given v, and false if v is nil or inconclusive.
func (v *Verdict) Quality() (float64, bool) {
	if v == nil || v.Outcome == Inconclusive {
		return 0, false
	}
	confidence := v.Confidence
	if confidence == 0 {
		confidence = 1
	}
	if v.Outcome == Failed {
		return 1 - confidence, true
	}
	return confidence, true
}

// IsCheck reports whether a verifier's name is that of a free check. Checks can only reject; they do not
// measure quality.
func IsCheck(verifier string) bool { return strings.HasPrefix(verifier, "check:") }

// Errs reports whether v is evidence from a judge with known error rates: it shifts the estimate of
// the answer's quality by IfRight and IfWrong instead of settling it.
func (v *Verdict) Errs() bool {
	return v != nil && v.Outcome != Inconclusive && (v.IfRight > 0 || v.IfWrong > 0)
}

// VerifyRequest asks for a verdict on one answer.
type VerifyRequest struct {
	Query  *Query
	Answer *Answer
	// Earlier are the attempts before this answer, in order.
	Earlier []Attempt
}

// Verifier checks an answer. If its checker fails, it returns an Inconclusive verdict that says why; an
// error means that the verifier is unavailable. The verdict is non-nil if and only if the error is nil.
// It must be safe for concurrent use.
type Verifier interface {
	Verify(ctx context.Context, req *VerifyRequest) (*Verdict, error)
}

// VerifierFunc is a function that is a Verifier.
type VerifierFunc func(ctx context.Context, req *VerifyRequest) (*Verdict, error)

// Verify calls f.
func (f VerifierFunc) Verify(ctx context.Context, req *VerifyRequest) (*Verdict, error) {
	return f(ctx, req)
}
