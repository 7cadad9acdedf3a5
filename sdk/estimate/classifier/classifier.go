package classifier

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// anyModel is the name of the regression for models without one of their own.
const anyModel = "*"

// version is the version of the file format that this package writes and reads.
const version = 1

// Classifier predicts the quality of answers. It is safe for concurrent use as long as
// it is not modified.
type Classifier struct {
	Version int `json:"version"`
	// Models has the regressions by model name; "*" is for models without one.
	Models map[string]*Regression `json:"models"`
}

// Regression is the regression of one model. Its prediction is
//
//	sigmoid(Offset + Slope * (Intercept + sum of Weight * (x - Mean) / StdDev)),
//
// where a missing signal counts as its mean.
type Regression struct {
	Intercept float64  `json:"intercept"`
	Signals   []Signal `json:"signals"`
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
	Reliability []bin `json:"reliability,omitempty"`
}

// bin has the number of predictions in one tenth, their mean, and the mean quality of
// the answers.
type bin struct {
	Count     int     `json:"count"`
	Predicted float64 `json:"predicted"`
	Quality   float64 `json:"quality"`
}

// Signal is one signal's part in a regression.
type Signal struct {
	Name   string  `json:"name"`
	Mean   float64 `json:"mean"`
	StdDev float64 `json:"std_dev"`
	Weight float64 `json:"weight"`
}

// Predict returns the probability that the model's answer is right, and false if
// there is no regression for the model or none of its signals is known. NaN signals
// count as missing.
func (c *Classifier) Predict(model string, signals map[string]float64) (float64, bool) {
	r := c.Models[model]
	if r == nil {
		r = c.Models[anyModel]
	}
	if r == nil {
		return 0, false
	}
	logit, known := r.Intercept, false
	for _, s := range r.Signals {
		x, ok := signals[s.Name]
		if !ok || math.IsNaN(x) {
			continue
		}
		known = true
		// Far outside the fitted range a straight line says nothing.
		logit += s.Weight * min(max((x-s.Mean)/s.StdDev, -farthest), farthest)
	}
	if !known {
		return 0, false
	}
	slope := r.Slope
	if slope == 0 {
		slope = 1
	}
	return sigmoid(r.Offset + slope*logit), true
}

// farthest is the number of standard deviations to which signals are clamped.
const farthest = 4

// sigmoid returns 1 / (1 + exp(-x)) without overflow.
func sigmoid(x float64) float64 {
	if x < 0 {
		e := math.Exp(x)
		return e / (1 + e)
	}
	return 1 / (1 + math.Exp(-x))
}

// Read reads a classifier from JSON and validates it.
func Read(r io.Reader) (*Classifier, error) {
	var c Classifier
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return nil, fmt.Errorf("reading a classifier: %w", err)
	}
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("reading a classifier: %w", err)
	}
	return &c, nil
}

// validate returns an error that lists everything wrong with the classifier.
func (c *Classifier) validate() error {
	var wrong []error
	if c.Version != version {
		wrong = append(wrong, fmt.Errorf("version %d is not %d", c.Version, version))
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
			if strings.TrimSpace(s.Name) == "" || !(s.StdDev > 0) || !finite(s.Mean) || !finite(s.Weight) {
				wrong = append(wrong, fmt.Errorf("model %q, signal %q: a name, finite numbers and a positive std_dev are needed", name, s.Name))
			}
		}
		if !finite(r.Intercept) || !finite(r.Slope) || !finite(r.Offset) {
			wrong = append(wrong, fmt.Errorf("model %q: intercept, slope and offset must be finite", name))
		}
	}
	return errors.Join(wrong...)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
