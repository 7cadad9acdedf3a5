// Package estimate fits estimators of the quality and cost of models' answers to
// recorded outcomes.
//
// # One implementation for both uses
//
// A fitted [Estimator] holds a [Quality] and a [Cost]. Each creates cursors: a cursor
// begins a query, observes the result of each model that runs, and computes, at any
// point, the beliefs about all models, run or not. That is incremental and allocates
// nothing, so that the same code serves
//
//   - replay over a table of outcomes: [Estimator.On];
//   - the step engine and plugins: [Estimator.QualityEstimator] and
//     [Estimator.CostEstimator], which are sdk's interfaces.
//
// # Fitting
//
//	e, err := estimate.Fit(train, estimate.Options{Quality: estimate.KindGaussian})
//
// The zero Options choose the kinds by the contents of the table. An Estimator is
// part of a profile, as JSON.
//
// # Beliefs
//
// The belief about a model that has not run is the predictive distribution of the
// estimate that it would get by running: normal, or Bernoulli if a check will judge
// it. For a model that has run, its mean is the post-hoc estimate.
//
// Estimators are safe for concurrent use; a cursor belongs to one goroutine.
package estimate
