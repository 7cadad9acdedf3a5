package estimate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Features that a regression can use; see [Options].Features.
const (
	// FeatureGroup is the group of the query, one-hot: its source or repository.
	FeatureGroup = "group"
	// FeatureLength is the length of the prompt.
	FeatureLength = "length"
	// FeatureText is what the words of the prompt tell of the quality.
	FeatureText = "text"
	// FeatureSignal is the model's ex-ante and post-hoc signals.
	FeatureSignal = "signal"
	// FeatureVerdict is the verdicts on the models that have run.
	FeatureVerdict = "verdict"
	// FeatureTokens is the length of answers against what is usual for the model,
	// and whether there is an answer at all.
	FeatureTokens = "tokens"
	// FeatureLogProbs is the table's further signals, such as the perplexity of an
	// answer and the quantiles of its log-probabilities.
	FeatureLogProbs = "log_probs"
	// FeatureClasses is what the probabilities of the classes say, which are the
	// signals that begin with [SignalClass]: top probability, entropy, and the
	// Jensen-Shannon divergence of two models.
	FeatureClasses = "classes"
	// FeatureAgreement is whether answers agree.
	FeatureAgreement = "agreement"
)

// SignalClass begins the names of the signals that hold the probabilities of
// classes: "class:A".
const SignalClass = "class:"

// Features returns the features that a regression can use.
func Features() []string {
	return []string{
		FeatureGroup, FeatureLength, FeatureText, FeatureSignal, FeatureVerdict, FeatureTokens, FeatureLogProbs, FeatureClasses, FeatureAgreement,
	}
}

// FeatureSets returns the paper's sets of features by the kind of answers.
func FeatureSets() map[string][]string {
	return map[string][]string{
		"classification": {FeatureGroup, FeatureClasses, FeatureAgreement},
		"open_form":      {FeatureGroup, FeatureTokens, FeatureLogProbs, FeatureAgreement},
		"math_code":      {FeatureGroup, FeatureLength, FeatureTokens, FeatureAgreement},
		"swe_bench":      {FeatureGroup, FeatureLength, FeatureVerdict},
	}
}

// featureLayout turns what is known of a query and of the models that have run into
// numbers of mean 0 and deviation 1, 0 where unknown.
type featureLayout struct {
	Groups []string `json:"groups,omitempty"`
	Length scale    `json:"length"`
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

	group map[string]int
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

// newFeatureLayout fits the layout to a table.
func newFeatureLayout(t *outcome.Table, wanted []string, seed uint64) (*featureLayout, error) {
	for _, name := range wanted {
		if !slices.Contains(Features(), name) {
			return nil, fmt.Errorf("unknown feature %q; there are %s", name, strings.Join(Features(), ", "))
		}
	}
	uses := func(name string) bool { return wanted == nil || slices.Contains(wanted, name) }
	l := &featureLayout{}
	if uses(FeatureGroup) {
		index := map[string]bool{}
		for q := range t.Queries {
			if g := t.Group(q); g != "" {
				index[g] = true
			}
		}
		l.Groups = slices.Sorted(maps.Keys(index))
	}
	l.prepare()
	group := make([]int, len(t.Queries))
	var lengths moments
	for q := range group {
		group[q] = l.groupOf(t.Group(q))
		lengths.add(logTokens(promptTokens(t, q)))
	}
	groups := len(l.Groups) + 1
	l.Trust = centre(t.Quality, group, groups).means
	if uses(FeatureLength) {
		l.Length = scaleOf(lengths)
	}
	if uses(FeatureText) && t.Prompts != nil {
		l.fitText(t, group, seed)
	}
	if uses(FeatureSignal) && t.Ante != nil {
		for m := range t.Models {
			var s moments
			for _, v := range column(t.Ante, m) {
				s.add(v)
			}
			l.Ante = append(l.Ante, scaleOf(s))
		}
	}
	if t.Answers != nil {
		l.Empty = emptyAnswers(t, group, groups)
	}
	l.Agreement = uses(FeatureAgreement) && t.Answers != nil
	names := t.SignalNames()
	if uses(FeatureClasses) {
		for _, name := range names {
			if strings.HasPrefix(name, SignalClass) {
				l.Signals = append(l.Signals, name)
			}
		}
		l.Classes = len(l.Signals)
	}
	if uses(FeatureLogProbs) {
		for _, name := range names {
			if !strings.HasPrefix(name, SignalClass) {
				l.Signals = append(l.Signals, name)
			}
		}
	}
	l.addRunFeatures(t, uses)
	l.fitRunFeatures(t, group)
	return l, nil
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
	add(runVerdict, uses(FeatureVerdict) && t.Verified)
	add(runPost, uses(FeatureSignal) && t.Post != nil)
	add(runLength, uses(FeatureTokens) && t.OutputTokens != nil)
	add(runNoAnswer, uses(FeatureTokens) && t.Answers != nil)
	add(runTop, l.Classes > 0)
	add(runEntropy, l.Classes > 0)
	for i := l.Classes; i < len(l.Signals); i++ {
		l.Run = append(l.Run, runFeature{Kind: runSignal, Signal: i})
	}
}

// fitRunFeatures sets the means and deviations.
func (l *featureLayout) fitRunFeatures(t *outcome.Table, group []int) {
	n := len(t.Models)
	raw := make([][][]float64, len(l.Run))
	for f := range raw {
		raw[f] = square2(len(t.Queries), n)
	}
	reader := &Replay{table: t, tokens: make([]float64, len(t.Queries))}
	for _, name := range l.Signals {
		reader.signals = append(reader.signals, t.Signals[name])
	}
	run := Run{Signals: make([]float64, len(l.Signals))}
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
			var s moments
			for q := range c.residual {
				s.add(c.residual[q][m])
			}
			l.Run[f].StdDev[m] = s.stdDev()
		}
	}
}

// raw is a feature of a run before it is scaled, NaN when unknown.
func (l *featureLayout) raw(f, group int, r *Run) float64 {
	switch l.Run[f].Kind {
	case runVerdict:
		return r.Verdict
	case runPost:
		return r.Post
	case runLength:
		if r.OutputTokens > 0 {
			return math.Log(r.OutputTokens)
		}
	case runNoAnswer:
		if r.Answer == "" && !l.Empty[group] {
			return 1
		}
		return 0
	case runSignal:
		return r.Signals[l.Run[f].Signal]
	case runTop:
		if p := r.Signals[:l.Classes]; known(p) {
			return slices.Max(p)
		}
	case runEntropy:
		if p := r.Signals[:l.Classes]; known(p) {
			return feature.Entropy(p)
		}
	}
	return math.NaN()
}

func known(p []float64) bool { return !slices.ContainsFunc(p, math.IsNaN) }

// logTokens is the logarithm of a number of tokens, NaN when unknown.
func logTokens(n float64) float64 {
	if n > 0 {
		return math.Log(n)
	}
	return math.NaN()
}

func (l *featureLayout) prepare() {
	l.group = map[string]int{}
	for g, name := range l.Groups {
		l.group[name] = g
	}
}

func (l *featureLayout) groupOf(name string) int {
	if g, known := l.group[name]; known {
		return g
	}
	return len(l.Groups)
}

// seen is what is known of one query and of the models that have run on it, as
// numbers.
type seen struct {
	*featureLayout
	group   int
	length  float64
	reader  *textReader // nil without text
	text    float64
	ante    []float64
	anteSum float64
	run     [][]float64 // model, feature
	answers []string
	classes [][]float64
	// same and apart compare the answers of two models: 1 when they agree, and the
	// Jensen-Shannon divergence of their classes.
	same, apart [][]float64
	tally       []vote
}

// vote is an answer with the trust in those that gave it.
type vote struct {
	model  int
	weight float64
}

func (l *featureLayout) newSeen(models int) *seen {
	s := &seen{
		featureLayout: l, ante: make([]float64, models), run: square2(models, len(l.Run)),
		answers: make([]string, models), tally: make([]vote, 0, models),
	}
	if l.Text != nil {
		s.reader = newTextReader(l.Text)
	}
	if l.Agreement {
		s.same = square(models)
	}
	if l.Classes > 0 {
		s.classes, s.apart = square2(models, l.Classes), square(models)
	}
	return s
}

func (s *seen) begin(q *Query) {
	s.group = s.groupOf(q.Group)
	s.length = s.Length.of(logTokens(q.InputTokens))
	if s.reader != nil {
		s.text = textScale * s.reader.at(q.Prompt)
	}
	s.anteSum = 0
	for m := range s.ante {
		s.ante[m] = 0
		if s.Ante != nil && q.Ante != nil {
			s.ante[m] = s.Ante[m].of(q.Ante[m])
			s.anteSum += s.ante[m]
		}
	}
}

// observe takes in a run; ran are the models that ran before.
func (s *seen) observe(model int, r *Run, ran []int) {
	for f := range s.Run {
		at := scale{s.Run[f].Mean[s.group][model], s.Run[f].StdDev[model]}
		s.run[model][f] = at.of(s.raw(f, s.group, r))
	}
	s.answers[model] = r.Answer
	if s.classes != nil {
		copy(s.classes[model], r.Signals)
	}
	for _, other := range ran {
		if s.same != nil {
			v := 0.0
			if r.Answer == s.answers[other] && (r.Answer != "" || s.Empty[s.group]) {
				v = 1
			}
			s.same[model][other], s.same[other][model] = v, v
		}
		if s.apart != nil {
			v := 0.0
			if known(s.classes[model]) && known(s.classes[other]) {
				v = feature.JensenShannon(s.classes[model], s.classes[other])
			}
			s.apart[model][other], s.apart[other][model] = v, v
		}
	}
}

// base appends what is known of a target before any model has run.
func (s *seen) base(x []float64, target int) []float64 {
	x = append(x, 1)
	for g := range s.Groups {
		v := 0.0
		if g == s.group {
			v = 1
		}
		x = append(x, v)
	}
	x = append(x, s.length)
	if s.Text != nil {
		x = append(x, s.text)
	}
	if s.Ante != nil {
		x = append(x, s.ante[target], (s.anteSum-s.ante[target])/max(float64(len(s.ante)-1), 1))
	}
	return x
}

// each appends the numbers of each model that has run, and of each pair.
func (s *seen) each(x []float64, ran []int) []float64 {
	for _, m := range ran {
		x = append(x, s.run[m]...)
	}
	for i, a := range ran {
		for _, b := range ran[:i] {
			if s.same != nil {
				x = append(x, s.same[a][b])
			}
			if s.apart != nil {
				x = append(x, s.apart[a][b])
			}
		}
	}
	return x
}

// pooled appends what sums up the models that have run, whichever they are: the
// target's own numbers if it has run, the mean of the others', and how the answers
// agree, by the trust in those that gave them.
func (s *seen) pooled(x []float64, ran []int, target int) []float64 {
	has := slices.Contains(ran, target)
	others := float64(len(ran))
	if has {
		others--
		x = append(x, s.run[target]...)
	}
	x = append(x, math.Log1p(others))
	for f := range s.Run {
		sum := 0.0
		for _, m := range ran {
			if m != target {
				sum += s.run[m][f]
			}
		}
		x = append(x, sum/max(others, 1))
	}
	if s.same != nil {
		x = s.votes(x, ran, target, has)
	}
	if s.apart != nil && has {
		sum := 0.0
		for _, m := range ran {
			if m != target {
				sum += s.apart[m][target]
			}
		}
		x = append(x, sum/max(others, 1))
	}
	return x
}

// votes appends the trust in the target's answer, in the answer that has most of it
// but that, and in the rest; without an answer of the target, the first two answers
// and the rest.
func (s *seen) votes(x []float64, ran []int, target int, has bool) []float64 {
	s.tally = s.tally[:0]
	own, total := 0.0, 0.0
	for _, m := range ran {
		if m == target {
			continue
		}
		w := s.Trust[s.group][m]
		total += w
		if has && s.same[m][target] > 0 {
			own += w
			continue
		}
		if s.answers[m] == "" && !s.Empty[s.group] {
			continue
		}
		at := slices.IndexFunc(s.tally, func(v vote) bool { return s.same[m][v.model] > 0 })
		if at < 0 {
			s.tally = append(s.tally, vote{m, w})
		} else {
			s.tally[at].weight += w
		}
	}
	first, second := 0.0, 0.0
	for _, v := range s.tally {
		if v.weight > first {
			first, second = v.weight, first
		} else {
			second = max(second, v.weight)
		}
	}
	if has {
		return append(x, own, math.Sqrt(own), first, total-own-first)
	}
	return append(x, first, second, total-first-second, first/max(total, 1e-3))
}
