// Package fit turns recorded outcomes into a [Profile]: estimators, a strategy, and
// the lambda and gamma at which it spends a budget.
//
//	p, err := fit.Fit(ctx, table, fit.Options{Strategy: "index", BudgetUSD: 0.002})
//	err = p.Save("profile.json")
//
// and later
//
//	p, err := fit.Load("profile.json", models)
//	strategy, err := p.NewStrategy(names)
//	quality := p.Estimator.QualityEstimator()
//
// Hyperparameters are chosen on out-of-fold estimates, and the budget is checked with
// choices made on other folds too: see [HeldOut]. The same options on the same table
// give the same profile.
//
// Profiles are safe for concurrent reads.
package fit
