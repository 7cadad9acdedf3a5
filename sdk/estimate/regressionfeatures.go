package estimate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// The features that a regression can use; see [Options].Features.
const (
	// featureGroup is the group of the query, one-hot: its source or repository.
	featureGroup = "group"
	// featureLength is the length of the prompt.
	featureLength = "length"
	// featureText is the quality predicted from the words of the prompt.
	featureText = "text"
	// featureSignal is the model's ex-ante and post-hoc signals.
	featureSignal = "signal"
	// featureVerdict is the verdicts on the models that have run.
	featureVerdict = "verdict"
	// featureTokens is the length of answers relative to the model's usual one, and
	// whether there is an answer at all.
	featureTokens = "tokens"
	// featureLogProbs is the table's other signals, such as the perplexity of an
	// answer and the quantiles of its log-probabilities.
	featureLogProbs = "log_probs"
	// featureClasses is derived from the probabilities of classes, which are the
	// signals with the prefix [signalClass]: top probability, entropy, and the
	// Jensen-Shannon divergence of two models.
	featureClasses = "classes"
	// featureAgreement is whether answers agree.
	featureAgreement = "agreement"
)

// signalClass is the prefix of the signals that hold the probabilities of classes,
// such as "class:A".
const signalClass = "class:"

func features() []string {
	return []string{
		featureGroup, featureLength, featureText, featureSignal, featureVerdict, featureTokens, featureLogProbs, featureClasses, featureAgreement,
	}
}

// featureLayout turns a query and the results of the models that have run into features
// of mean 0 and deviation 1, or 0 if unknown.
type featureLayout struct {
	Groups groupNames `json:"groups,omitempty"`
	Length scale      `json:"length"`
	// Text predicts how much better the models are on a prompt than in its group;
	// nil if the words are not informative.
	Text *textModel `json:"text,omitempty"`
	// Ante has the scales of the ex-ante signals by model; nil if unused.
	Ante []scale `json:"ante,omitempty"`
	// Run lists the features of a model that has run.
	Run []runFeature `json:"run,omitempty"`
	// Signals names the signals that are used.
	Signals []string `json:"signals,omitempty"`
	// Agreement says that answers are compared, and Classes is the number of leading
	// Signals that are probabilities of classes.
	Agreement bool `json:"agreement,omitempty"`
	// Empty says for each group whether an empty answer is a valid one.
	Empty   []bool `json:"empty,omitempty"`
	Classes int    `json:"classes,omitempty"`
	// Trust is the mean quality by group (the last: all) and model.
	Trust [][]float64 `json:"trust"`

	// unseen has, while fitting, the out-of-fold predictions from the text of each query.
	unseen []float64
}

// runFeature is one feature of a model that has run, relative to its mean in the group.
type runFeature struct {
	Kind string `json:"kind"`
	// Signal is the index of the signal, for kind signal.
	Signal int         `json:"signal,omitempty"`
	Mean   [][]float64 `json:"mean"` // group (the last: all), model
	StdDev []float64   `json:"std_dev"`
}

func (l *featureLayout) fits(models int) bool {
	groups := len(l.Groups) + 1
	return len(l.Trust) == groups && wide(l.Trust, models) &&
		(l.Empty == nil && !l.Agreement || len(l.Empty) == groups) &&
		hasLength(l.Ante, models) && l.Classes <= len(l.Signals) &&
		!slices.ContainsFunc(l.Run, func(f runFeature) bool { return !f.fits(l, models) })
}

func (f *runFeature) fits(l *featureLayout, models int) bool {
	if f.Kind == runNoAnswer && l.Empty == nil || f.Signal < 0 || f.Kind == runSignal && f.Signal >= len(l.Signals) {
		return false
	}
	return len(f.Mean) == len(l.Groups)+1 && wide(f.Mean, models) && len(f.StdDev) == models
}

// The kinds of runFeature.
const (
	runVerdict  = "verdict"
	runPost     = "post"
	runLength   = "tokens"
	runNoAnswer = "no_answer"
	runSignal   = "signal"
	runTop      = "class_top"
	runEntropy  = "class_entropy"
)

// scale standardises a number to mean 0 and deviation 1; the zero value is unused.
type scale struct {
	Mean   float64 `json:"mean,omitempty"`
	StdDev float64 `json:"std_dev,omitempty"`
}

func (s *scale) of(x float64) float64 {
	if !(s.StdDev > 0) || math.IsNaN(x) {
		return 0
	}
	// Extreme values count no more than unusual ones.
	return min(max((x-s.Mean)/s.StdDev, -4), 4)
}

func scaleOf(m moments) scale {
	if dev := m.stdDev(); dev > 1e-9 {
		return scale{m.mean, dev}
	}
	return scale{}
}

func newFeatureLayout(t *outcome.Table, wanted []string, seed uint64) (*featureLayout, error) {
	for _, name := range wanted {
		if !slices.Contains(features(), name) {
			return nil, fmt.Errorf("unknown feature %q; there are %s", name, strings.Join(features(), ", "))
		}
	}
	uses := func(name string) bool { return wanted == nil || slices.Contains(wanted, name) }
	l := &featureLayout{}
	if uses(featureGroup) {
		l.Groups = groupsOf(t)
	}
	group := make([]int, len(t.Queries))
	var lengths moments
	for q := range group {
		group[q] = l.Groups.groupOf(t.Group(q))
		lengths.add(logOf(promptTokens(t, q)))
	}
	groups := len(l.Groups) + 1
	l.Trust = centre(t.Quality, group, groups).means
	if uses(featureLength) {
		l.Length = scaleOf(lengths)
	}
	if uses(featureText) && t.Prompts != nil {
		l.fitText(t, group, seed)
	}
	if uses(featureSignal) && t.Ante != nil {
		for m := range t.Models {
			l.Ante = append(l.Ante, scaleOf(columnMoments(t.Ante, m)))
		}
	}
	if t.Answers != nil {
		l.Empty = emptyAnswers(t, group, groups)
	}
	l.Agreement = uses(featureAgreement) && t.Answers != nil
	l.addSignals(t, uses)
	l.addRunFeatures(t, uses)
	l.fitRunFeatures(t, group)
	return l, nil
}

// addSignals adds the requested signals of the table, those of classes first.
func (l *featureLayout) addSignals(t *outcome.Table, uses func(string) bool) {
	var classes, others []string
	for _, name := range t.SignalNames() {
		switch {
		case strings.HasPrefix(name, signalClass):
			classes = append(classes, name)
		// Agreement depends on which answers there are, and is computed here. Signals
		// with a price are not available for free.
		case name != feature.SignalAgreement && !isBought(t, name) && !isPrice(t, name):
			others = append(others, name)
		}
	}
	if uses(featureClasses) {
		l.Signals, l.Classes = classes, len(classes)
	}
	if uses(featureLogProbs) {
		l.Signals = append(l.Signals, others...)
	}
}

// textScale scales the predictions from the text to a deviation of about 1.
const textScale = 10

// fitText regresses the mean quality, less that of the group, on the words of the prompts.
func (l *featureLayout) fitText(t *outcome.Table, group []int, seed uint64) {
	better := make([]float64, len(t.Queries))
	for q, row := range t.Quality {
		var m moments
		for i, v := range row {
			m.add(v - l.Trust[group[q]][i])
		}
		better[q] = m.mean
	}
	l.Text, l.unseen = fitText(t.Prompts, better, t.Folds(textFolds, seed))
}

// addRunFeatures fills in the list of features of a model that has run.
func (l *featureLayout) addRunFeatures(t *outcome.Table, uses func(string) bool) {
	add := func(kind string, has bool) {
		if has {
			l.Run = append(l.Run, runFeature{Kind: kind})
		}
	}
	add(runVerdict, uses(featureVerdict) && t.Verified)
	add(runPost, uses(featureSignal) && t.Post != nil)
	add(runLength, uses(featureTokens) && t.OutputTokens != nil)
	add(runNoAnswer, uses(featureTokens) && t.Answers != nil)
	add(runTop, l.Classes > 0)
	add(runEntropy, l.Classes > 0)
	for i := l.Classes; i < len(l.Signals); i++ {
		l.Run = append(l.Run, runFeature{Kind: runSignal, Signal: i})
	}
}

func (l *featureLayout) fitRunFeatures(t *outcome.Table, group []int) {
	n := len(t.Models)
	raw := make([][][]float64, len(l.Run))
	for f := range raw {
		raw[f] = zeros(len(t.Queries), n)
	}
	reader := newReader(t, l.Signals)
	run := runFacts{Signals: make([]float64, len(l.Signals))}
	for q := range t.Queries {
		for m := range n {
			reader.run(q, m, &run)
			for f := range l.Run {
				raw[f][q][m] = math.NaN()
				if !math.IsNaN(t.Quality[q][m]) {
					raw[f][q][m] = l.raw(f, group[q], &run)
				}
			}
		}
	}
	for f := range raw {
		c := centre(raw[f], group, len(l.Groups)+1)
		l.Run[f].Mean, l.Run[f].StdDev = c.means, make([]float64, n)
		for m := range n {
			s := columnMoments(c.residual, m)
			l.Run[f].StdDev[m] = s.stdDev()
		}
	}
}

// raw returns a feature of a run before it is scaled, or NaN if unknown.
func (l *featureLayout) raw(f, group int, r *runFacts) float64 {
	switch l.Run[f].Kind {
	case runVerdict:
		return r.Verdict
	case runPost:
		return r.Post
	case runLength:
		return logOf(r.OutputTokens)
	case runNoAnswer:
		if r.Answer == "" && !l.Empty[group] {
			return 1
		}
		return 0
	case runSignal:
		return r.Signals[l.Run[f].Signal]
	case runTop:
		if p := r.Signals[:l.Classes]; isKnown(p) {
			return slices.Max(p)
		}
	case runEntropy:
		if p := r.Signals[:l.Classes]; isKnown(p) {
			return feature.Entropy(p)
		}
	}
	return math.NaN()
}

func isKnown(p []float64) bool { return !slices.ContainsFunc(p, math.IsNaN) }

// logOf returns the logarithm of a number of tokens or a cost, or NaN if that is unknown.
func logOf(n float64) float64 {
	if n > 0 {
		return math.Log(n)
	}
	return math.NaN()
}
