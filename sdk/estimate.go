package sdk

import (
	"context"
	"math"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// Estimate is an estimate of one number: a quality in [0, 1] or a cost in US dollars.
//
// For the quality of a model that has not run, Mean is the expected quality, and StdDev the standard
// deviation of the estimate that will be made after it has run: how much running it is expected to
// reveal. For a model that has run, Mean is the expected quality of its answer, and StdDev the remaining
// uncertainty.
type Estimate struct {
	Mean   float64 `json:"mean"`
	StdDev float64 `json:"std_dev"`
}

// abstained is the deviation of an abstention. No calculation yields it, which distinguishes an abstention
// from a faulty NaN mean.
const abstained = -1

// Abstain returns the estimate of an estimator that abstains. Any other NaN is an error.
func Abstain() Estimate { return Estimate{Mean: math.NaN(), StdDev: abstained} }

// Abstains reports whether e is the estimate of an estimator that abstained.
func (e Estimate) Abstains() bool { return math.IsNaN(e.Mean) && e.StdDev == abstained }

// QualityRequest asks for the quality of several models' answers to one query.
type QualityRequest struct {
	Query *Query
	// Models are the names to estimate; some may have run.
	Models []string
	// Attempts are the models that have run, in order. Empty means ex-ante.
	Attempts []Attempt
}

// QualityResponse holds one estimate for each of the request's models, in order.
type QualityResponse struct {
	Estimates []Estimate
	// Looks has, for each of the request's models in order, the look that can be bought next at its
	// answer; nil means none. Plugins offer none.
	Looks []Look
	// Weighs says that the estimates already take fallible verdicts into account; see [Verdict.Errs]. If
	// they do not, such a verdict shifts the estimate of its answer. Plugins leave it unset.
	Weighs bool
	// Judge is nil if the judge's error rates do not change within a step. Plugins leave it unset.
	Judge *JudgeRates
	// Shared holds, for each of the request's models, the share of a verdict's information about its
	// answer that also applies to the best answer so far; see [cascade.Belief]. Nil means none. Plugins
	// leave it unset.
	Shared []float64
	// ByAgreement says that the estimate of an answer changes only with the agreement of other answers, so
	// the first answer of a step changes none. Plugins leave it unset.
	ByAgreement bool
	// CostUSD is the cost of the model calls made for the estimates. It counts towards the step's cost.
	// Plugins leave it unset: the cost of their model calls is added.
	CostUSD float64
}

// JudgeRates are the error rates of a judge whose errors on one query are correlated: once it seems to
// have misread the query, its verdicts on further answers count for less.
type JudgeRates struct {
	// Usual are its rates over all queries.
	Usual cascade.Rates
	// Next has its rates on the next answer of each of the request's models, in order.
	Next []cascade.Rates
}

// Look is a number about an answer that can be bought, such as a judge's score or a verdict. The zero
// Look is none.
type Look struct {
	// Signal is its name in [Answer].Signals once it is bought, or the name of the judge if it is a
	// verdict.
	Signal string `json:"signal"`
	// StdDev is the standard deviation of the change that it makes to the estimate; for a model that has
	// not run, in addition to that of running it. CostUSD is its price in US dollars.
	StdDev  float64 `json:"std_dev"`
	CostUSD float64 `json:"cost_usd"`
	// Judge, when not nil, says that it is a verdict, and holds the judge's error rates.
	Judge *cascade.Rates `json:"judge,omitempty"`
}

// QualityEstimator estimates the quality of answers, before (ex-ante) or after (post-hoc) a model has
// run. It abstains on a model with [Abstain]; an error means that it could not handle the request at
// all. It must be safe for concurrent use.
type QualityEstimator interface {
	EstimateQuality(ctx context.Context, req *QualityRequest) (*QualityResponse, error)
}

// CostRequest asks what running several models on one query would cost.
type CostRequest struct {
	Query    *Query
	Models   []Model
	Attempts []Attempt
}

// CostResponse holds one estimate in US dollars for each of the request's models, in order.
type CostResponse struct {
	Estimates []Estimate
}

// CostEstimator predicts what calls would cost. If it returns an error together with a response, the
// error is noted and the response is used. It must be safe for concurrent use.
type CostEstimator interface {
	EstimateCost(ctx context.Context, req *CostRequest) (*CostResponse, error)
}

// QualityEstimatorFunc is a function that is a QualityEstimator.
type QualityEstimatorFunc func(ctx context.Context, req *QualityRequest) (*QualityResponse, error)

// EstimateQuality calls f.
func (f QualityEstimatorFunc) EstimateQuality(ctx context.Context, req *QualityRequest) (*QualityResponse, error) {
	return f(ctx, req)
}

// CostEstimatorFunc is a function that is a CostEstimator.
type CostEstimatorFunc func(ctx context.Context, req *CostRequest) (*CostResponse, error)

// EstimateCost calls f.
func (f CostEstimatorFunc) EstimateCost(ctx context.Context, req *CostRequest) (*CostResponse, error) {
	return f(ctx, req)
}
