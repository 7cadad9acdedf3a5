package estimate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// features that a regression can use; see [Options].Features.
const (
	// featureGroup is the group of the query, one-hot: its source or repository.
	featureGroup = "group"
	// featureLength is the length of the prompt.
	featureLength = "length"
	// featureText is what the words of the prompt tell of the quality.
	featureText = "text"
	// featureSignal is the model's ex-ante and post-hoc signals.
	featureSignal = "signal"
	// featureVerdict is the verdicts on the models that have run.
	featureVerdict = "verdict"
	// featureTokens is the length of answers against what is usual for the model,
	// and whether there is an answer at all.
	featureTokens = "tokens"
	// featureLogProbs is the table's further signals, such as the perplexity of an
	// answer and the quantiles of its log-probabilities.
	featureLogProbs = "log_probs"
	// featureClasses is what the probabilities of the classes say, which are the
	// signals that begin with [signalClass]: top probability, entropy, and the
	// Jensen-Shannon divergence of two models.
	featureClasses = "classes"
	// featureAgreement is whether answers agree.
	featureAgreement = "agreement"
)

// signalClass begins the names of the signals that hold the probabilities of
// classes: "class:A".
const signalClass = "class:"

func features() []string {
	return []string{
		featureGroup, featureLength, featureText, featureSignal, featureVerdict, featureTokens, featureLogProbs, featureClasses, featureAgreement,
	}
}

// featureLayout turns what is known of a query and of the models that have run into
// numbers of mean 0 and deviation 1, 0 where unknown.
type featureLayout struct {
	Groups groupNames `json:"groups,omitempty"`
	Length scale      `json:"length"`
	// Text predicts how much better the models are on a prompt than in its group;
	// nil when the words tell nothing.
	Text *textModel `json:"text,omitempty"`
	// Ante are the scales of the ex-ante signals by model, nil when unused.
	Ante []scale `json:"ante,omitempty"`
	// Run are the features of a model that has run.
	Run []runFeature `json:"run,omitempty"`
	// Signals are the signals that are read.
	Signals []string `json:"signals,omitempty"`
	// Agreement: answers are compared; Classes is how many of the signals, from the
	// first, are probabilities of classes.
	Agreement bool `json:"agreement,omitempty"`
	// Empty says for each group whether an empty answer is an answer like others.
	Empty   []bool `json:"empty,omitempty"`
	Classes int    `json:"classes,omitempty"`
	// Trust is the mean quality by group (the last: all) and model.
	Trust [][]float64 `json:"trust"`

	// unseen is, while fitting, what models of the text that have not seen a query
	// predict for it.
	unseen []float64
}

// runFeature is one number of a model that has run, against its mean in the group.
type runFeature struct {
	Kind string `json:"kind"`
	// Signal is the place of the signal that it is, for kind signal.
	Signal int         `json:"signal,omitempty"`
	Mean   [][]float64 `json:"mean"` // group (the last: all), model
	StdDev []float64   `json:"std_dev"`
}

func (l *featureLayout) fit(models int) bool {
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

// Kinds of numbers of a model that has run.
const (
	runVerdict  = "verdict"
	runPost     = "post"
	runLength   = "tokens"
	runNoAnswer = "no_answer"
	runSignal   = "signal"
	runTop      = "class_top"
	runEntropy  = "class_entropy"
)

// scale takes a number to mean 0 and deviation 1; the zero scale is unused.
type scale struct {
	Mean   float64 `json:"mean,omitempty"`
	StdDev float64 `json:"std_dev,omitempty"`
}

func (s *scale) of(x float64) float64 {
	if !(s.StdDev > 0) || math.IsNaN(x) {
		return 0
	}
	// Far-off values say no more than unusual ones.
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

// addSignals adds the signals of the table that are wanted, those of classes first.
func (l *featureLayout) addSignals(t *outcome.Table, uses func(string) bool) {
	var classes, others []string
	for _, name := range t.SignalNames() {
		switch {
		case strings.HasPrefix(name, signalClass):
			classes = append(classes, name)
		// How far answers agree depends on which are there; that is measured here.
		// What has a price is not there for nothing.
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

// textScale brings what the words predict to a deviation of about 1.
const textScale = 10

// fitText regresses the mean quality, beyond the group's, on the words of the prompts.
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

// addRunFeatures lists the numbers of a model that has run.
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
		raw[f] = square2(len(t.Queries), n)
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

// raw is a feature of a run before it is scaled, NaN when unknown.
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

// logOf is the logarithm of a number of tokens or a cost, NaN when that is unknown.
func logOf(n float64) float64 {
	if n > 0 {
		return math.Log(n)
	}
	return math.NaN()
}
