package sdk

import (
	"context"
	"math"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// Estimate is what is believed about one number: a quality in [0, 1] or a cost
// in US dollars.
//
// For the quality of a model that has not run, Mean is the expected quality and
// StdDev the standard deviation of the estimate that would be given once it has
// run: how much running it is expected to tell. For a model that has run, Mean
// is the expected quality of its answer and StdDev is what remains unknown.
type Estimate struct {
	Mean   float64 `json:"mean"`
	StdDev float64 `json:"std_dev"`
}

// Abstain returns the estimate of an estimator that has nothing to say.
func Abstain() Estimate { return Estimate{Mean: math.NaN()} }

// Abstains reports whether e says nothing.
func (e Estimate) Abstains() bool { return math.IsNaN(e.Mean) }

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
	// Looks has for each of the request's models what could be bought next of its
	// answer, in order; nil is nothing. Plugins offer none.
	Looks []Look
	// Weighs says that the estimates take account of verdicts that err; see [Verdict.Errs].
	// Where they do not, such a verdict changes the estimate of the answer that it is of.
	// Plugins say nothing here.
	Weighs bool
	// Judge is nil where what is known of a judge's errors does not change within a step.
	// Plugins say nothing here.
	Judge *JudgeRates
	// Shared has for each of the request's models which share of what a verdict on its answer
	// would tell it tells of the best answer at hand as well; see [cascade.Belief]. Nil is none.
	// Plugins say nothing here.
	Shared []float64
	// ByAgreement says that an estimate of an answer changes only as others agree with it or
	// not: the first answer of a step moves none. Plugins say nothing here.
	ByAgreement bool
	// CostUSD is what making the estimates cost, by calls of models. It counts
	// towards the step's cost.
	CostUSD float64
}

// JudgeRates are how often a judge errs whose errors on one query go together: after it was
// believed to have misread the query, its verdicts on further answers say less.
type JudgeRates struct {
	// Usual are its rates over all queries.
	Usual cascade.Rates
	// Next has its rates on the answer that each of the request's models would give.
	Next []cascade.Rates
}

// Look is a number about an answer that can be bought, such as a judge's score, or a
// verdict. The zero Look is none.
type Look struct {
	// Signal is the name under which [Answer].Signals has it once it was bought, or that of the
	// judge whose verdict it is.
	Signal string `json:"signal"`
	// StdDev is the standard deviation of the change that it makes in the estimate, of a
	// model that has not run beyond that of running it. CostUSD is what it costs.
	StdDev  float64 `json:"std_dev"`
	CostUSD float64 `json:"cost_usd"`
	// Judge, when not nil, says that it is a verdict, and how often that errs.
	Judge *cascade.Rates `json:"judge,omitempty"`
}

// QualityEstimator says how good answers will be (before a model has run) or are
// (after). It abstains on a model by [Abstain]; an error means that it could not
// look at the request at all. It must be safe for concurrent use.
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

// CostEstimator says what a call would cost. It must be safe for concurrent use.
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
