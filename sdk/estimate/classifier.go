package estimate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// anyModel is the name of the regression for models without one of their own.
const anyModel = "*"

// classifierVersion is the version of the file format that a Classifier is written to and read from.
const classifierVersion = 1

// Classifier predicts whether an answer is right from the signals measured on it, by a logistic regression for
// each model that is calibrated on out-of-fold predictions. It is plain data and marshals to JSON, which
// estimator-logprob reads. It is safe for concurrent use as long as it is not modified.
type Classifier struct {
	Version int `json:"version"`
	// Models has the regressions by model name; "*" is for models without one.
	Models map[string]*signalRegression `json:"models"`
}

// signalRegression is the regression of one model. Its prediction is
//
//	sigmoid(Offset + Slope * (Intercept + sum of Weight * (x - Mean) / StdDev)),
//
// where a missing signal counts as its mean.
type signalRegression struct {
	Intercept float64        `json:"intercept"`
	Signals   []signalWeight `json:"signals"`
	// Slope and Offset calibrate the prediction; a Slope of 0 means 1.
	Slope  float64 `json:"slope,omitempty"`
	Offset float64 `json:"offset,omitempty"`
	// Rows is the number of answers that it was fitted to. Brier is the mean squared
	// error of out-of-fold predictions, and BaseBrier that of predicting the mean
	// quality. AUC is the probability that a right answer is ranked above a wrong one.
	Rows      int     `json:"rows,omitempty"`
	Brier     float64 `json:"brier,omitempty"`
	BaseBrier float64 `json:"base_brier,omitempty"`
	AUC       float64 `json:"auc,omitempty"`
	// Reliability compares the same predictions with the qualities, by tenths: from 0
	// to 0.1, ..., from 0.9 to 1. Tenths without answers are omitted.
	Reliability []reliabilityBin `json:"reliability,omitempty"`
}

// reliabilityBin has the number of predictions in one tenth, their mean, and the mean quality of
// the answers.
type reliabilityBin struct {
	Count     int     `json:"count"`
	Predicted float64 `json:"predicted"`
	Quality   float64 `json:"quality"`
}

// signalWeight is one signal's part in a regression.
type signalWeight struct {
	Name   string  `json:"name"`
	Mean   float64 `json:"mean"`
	StdDev float64 `json:"std_dev"`
	Weight float64 `json:"weight"`
}

// farthest is the number of standard deviations to which signals are clamped: far outside the fitted range
// a straight line says nothing.
const farthest = 4

func (s *signalWeight) scale(x float64) float64 {
	return min(max((x-s.Mean)/s.StdDev, -farthest), farthest)
}

// Predict returns the probability that the model's answer is right, and false if
// there is no regression for the model or none of its signals is known. NaN signals
// count as missing.
func (c *Classifier) Predict(model string, signals map[string]float64) (float64, bool) {
	r := cmp.Or(c.Models[model], c.Models[anyModel])
	if r == nil {
		return 0, false
	}
	logit, known := r.logit(func(name string) float64 {
		if x, ok := signals[name]; ok {
			return x
		}
		return math.NaN()
	})
	return sigmoid(r.Offset + cmp.Or(r.Slope, 1)*logit), known
}

// logit returns the linear predictor before calibration, and whether any signal is known. signal returns a
// signal by its name, or NaN.
func (r *signalRegression) logit(signal func(name string) float64) (logit float64, known bool) {
	logit = r.Intercept
	for i := range r.Signals {
		if x := signal(r.Signals[i].Name); !math.IsNaN(x) {
			known = true
			logit += r.Signals[i].Weight * r.Signals[i].scale(x)
		}
	}
	return logit, known
}

// Strongest returns the names and weights of up to n signals with the largest weights per standard deviation.
func (r *signalRegression) Strongest(n int) []string {
	signals := slices.Clone(r.Signals)
	slices.SortStableFunc(signals, func(a, b signalWeight) int { return cmp.Compare(math.Abs(b.Weight), math.Abs(a.Weight)) })
	var names []string
	for _, signal := range signals[:min(n, len(signals))] {
		names = append(names, fmt.Sprintf("%s %+.2f", signal.Name, signal.Weight))
	}
	return names
}

// ReadClassifier reads a classifier from JSON and validates it.
func ReadClassifier(r io.Reader) (*Classifier, error) {
	var c Classifier
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&c)
	if err == nil {
		err = c.validate()
	}
	if err != nil {
		return nil, fmt.Errorf("reading a classifier: %w", err)
	}
	return &c, nil
}

// validate returns an error that lists everything wrong with the classifier.
func (c *Classifier) validate() error {
	var wrong []error
	if c.Version != classifierVersion {
		wrong = append(wrong, fmt.Errorf("version %d is not %d", c.Version, classifierVersion))
	}
	if len(c.Models) == 0 {
		wrong = append(wrong, errors.New("it has no models"))
	}
	for name, r := range c.Models {
		if r == nil || len(r.Signals) == 0 {
			wrong = append(wrong, fmt.Errorf("model %q has no signals", name))
			continue
		}
		for _, s := range r.Signals {
			if strings.TrimSpace(s.Name) == "" || !(s.StdDev > 0) {
				wrong = append(wrong, fmt.Errorf("model %q, signal %q: a name and a positive std_dev are needed", name, s.Name))
			}
		}
	}
	return errors.Join(wrong...)
}
