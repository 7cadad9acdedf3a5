// Package estimate says how good models' answers will be, or are, and what they
// cost, from recorded outcomes.
//
// # One implementation for both uses
//
// A fitted [Estimator] holds a [Quality] and a [Cost]. Each gives out cursors: a
// cursor begins a query, observes what each model that was run has shown, and says
// at any point what is believed of all models, run or not. That is incremental and
// allocates nothing, so that the same code serves
//
//   - replay over a table of outcomes: [Estimator.On];
//   - the step engine and plugins: [Estimator.QualityEstimator] and
//     [Estimator.CostEstimator], which are sdk's interfaces.
//
// # Fitting
//
//	e, err := estimate.Fit(train, estimate.Options{Quality: estimate.KindGaussian})
//
// The zero Options choose by what the table holds. An Estimator is written into a
// profile as JSON and read back from it.
//
// # Beliefs
//
// For a model that has not run a belief is the predictive distribution of the
// estimate that it would get by running: normal, or Bernoulli when a check will
// judge it. For a model that has run its mean is the post-hoc estimate.
//
// Estimators are safe for concurrent use; a cursor belongs to one goroutine.
package estimate
