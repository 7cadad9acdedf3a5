// Package classifier predicts whether an answer is right from numbers measured on
// it: a logistic regression for each model, over named signals, calibrated on
// predictions for queries that it was not fitted to.
//
//	c, err := classifier.Train(table, classifier.Options{})
//	p, ok := c.Predict("small", map[string]float64{"mean_log_prob": -0.2, "agreement": 1})
//
// A [Classifier] is plain data and marshals to JSON; estimator-logprob reads it.
package classifier
