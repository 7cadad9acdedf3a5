// Package classifier predicts whether an answer is right from signals measured on it,
// by a logistic regression for each model that is calibrated on out-of-fold predictions.
//
//	c, err := classifier.Train(table, classifier.Options{})
//	p, ok := c.Predict("small", map[string]float64{"mean_log_prob": -0.2, "agreement": 1})
//
// A [Classifier] is plain data and marshals to JSON; estimator-logprob reads it.
package classifier
