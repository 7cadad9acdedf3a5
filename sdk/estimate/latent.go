package estimate

import (
	"fmt"
	"math"
	"slices"
)

// latent is an item-response model: a query has one hidden ease z, normal around a
// mean that depends on its group and length, and model i answers it well with
// probability
//
//	p_i(z, g) = sigmoid(Base_i + Slope_i·z + Shift_{i,g}).
//
// Given z the models are independent. The distribution of z is a set of weights on a
// grid: a verdict, a signal, the length of an answer or its agreement with others
// updates the weights, and with them the estimates of all models.
type latent struct {
	Nodes []float64 `json:"nodes"`
	// Groups are the known groups; the tables below have one more row, the last,
	// for queries of any other.
	Groups groupNames `json:"groups"`
	// Mean is the mean ease of each group, and PerLength the effect of the prompt's length.
	Mean      []float64   `json:"mean"`
	PerLength []perLength `json:"per_length"`
	// PerTrouble is the effect, in each group, of log(1 + troubles), where troubles counts the
	// run's troubles with tools; nil if unknown.
	PerTrouble []float64 `json:"per_trouble,omitempty"`
	// Text predicts the ease from the words of the prompt, and PerText is the coefficient
	// of that prediction in each group; nil if the words are not informative.
	Text    *textModel  `json:"text,omitempty"`
	PerText []float64   `json:"per_text,omitempty"`
	Base    []float64   `json:"base"`
	Slope   []float64   `json:"slope"`
	Shift   [][]float64 `json:"shift"` // group, model
	// Family is, for each model, the index of the first of its family, and Shared the share
	// of the family's factor in its correctness, given the ease; nil without families.
	Family []int     `json:"family,omitempty"`
	Shared []float64 `json:"shared,omitempty"`
	// Misreads describes a judge whose errors on one query are correlated; nil if they are
	// not. The second half of the nodes then stands for the queries that it misreads.
	Misreads *misreads `json:"misreads,omitempty"`
	// Verified: a check judges the answers.
	Verified bool `json:"verified,omitempty"`
	// Ante and Post are the distributions of the signals; nil if there are none.
	Ante []emission `json:"ante,omitempty"`
	Post []emission `json:"post,omitempty"`
	// Evidence models further signals of an answer; nil if there are none.
	Evidence *evidence `json:"evidence,omitempty"`
	// Lengths are the distributions of the lengths of the models' answers; nil if unknown.
	Lengths []answerLength `json:"lengths,omitempty"`
	// NoAnswer has the probability that a model's answer is missing, for instance because
	// it cannot be parsed; nil if there are no answers.
	NoAnswer []absence `json:"no_answer,omitempty"`
	// Empty says for each group whether an empty answer is a valid one, which can be right,
	// rather than a missing one.
	Empty []bool `json:"empty,omitempty"`
	// Agree describes, for each group, how answers agree; nil if there are no answers.
	Agree []agreement `json:"agree,omitempty"`
	// Change is the standard deviation of the change that a model's own run makes to its
	// estimate, by group and model; nil if there are no signals of that kind.
	Change [][]float64 `json:"change,omitempty"`
	// Gain corrects the deviations; nil leaves them unchanged.
	Gain *gainScale `json:"gain,omitempty"`

	tables *latentTables
}

// perLength is the ease added by each unit of the logarithm of the prompt's tokens.
type perLength struct {
	Center float64 `json:"center"`
	Slope  float64 `json:"slope"`
}

// latentTables has the precomputed tables that cursors read.
type latentTables struct {
	p    [][][]float64 // group, model, node
	post []lookup      // model: deviation of the post-hoc estimate by probability
	// pair is the deviation of the change that a second answer, of the most informative
	// other model, would make to the estimate of each model; nil if answers are not compared.
	pair [][]float64 // group, model
	// families are those of more than one model, and familyOf is the index of each model's
	// family, -1 for none; nil if there are no families.
	families []family
	familyOf []int
}

func (e *latent) Kind() string { return KindLatent }

func (e *latent) Signals() []string {
	if e.Evidence == nil {
		return nil
	}
	return e.Evidence.Names
}

func (e *latent) setGain(s *gainScale) { e.Gain = s }
func (e *latent) looks() bool          { return !e.Verified && (e.Post != nil || e.Change != nil) }

func (e *latent) check(models int) error {
	switch {
	case !e.fitsModels(models):
		return fmt.Errorf("parameters do not fit %d models", models)
	case e.Misreads != nil && (len(e.Nodes)%2 != 0 || !(e.Misreads.Share > 0 && e.Misreads.Share < 1)):
		return fmt.Errorf("%d nodes with a share of %v misread queries", len(e.Nodes), e.Misreads.Share)
	case len(e.Nodes) == 0, !e.fitsGroups():
		return fmt.Errorf("parameters do not fit %d groups", len(e.Groups))
	}
	if err := e.Text.decode(); err != nil {
		return err
	}
	e.prepare()
	return nil
}

// fitsModels reports whether the parameters are for n models.
func (e *latent) fitsModels(n int) bool {
	return len(e.Base) == n && len(e.Slope) == n &&
		hasLength(e.Ante, n) && hasLength(e.Post, n) && hasLength(e.Lengths, n) && hasLength(e.NoAnswer, n) &&
		(e.Family == nil || len(e.Family) == n && validFamilies(e.Family, e.Shared)) &&
		(e.Evidence == nil || e.Evidence.check(n)) &&
		wide(e.Shift, n) && wide(e.Change, n)
}

// fitsGroups reports whether there are parameters for each group and for unknown ones.
func (e *latent) fitsGroups() bool {
	n := len(e.Groups) + 1
	return len(e.Shift) == n && len(e.Mean) == n && len(e.PerLength) == n &&
		hasLength(e.Agree, n) && hasLength(e.PerTrouble, n) && hasLength(e.Change, n) &&
		(e.NoAnswer == nil || len(e.Empty) == n) && (e.Text == nil || len(e.PerText) == n) &&
		!slices.ContainsFunc(e.Lengths, func(l answerLength) bool { return len(l.Group) != n })
}

// hasLength reports whether a list is nil or has n elements.
func hasLength[T any](list []T, n int) bool { return list == nil || len(list) == n }

func (e *latent) prepare() {
	t := &latentTables{}
	for g := range e.Mean {
		p := zeros(len(e.Base), len(e.Nodes))
		for i := range p {
			for k, z := range e.Nodes {
				p[i][k] = sigmoid(e.Base[i] + e.Slope[i]*z + e.Shift[g][i])
			}
		}
		t.p = append(t.p, p)
	}
	for _, m := range e.Post {
		t.post = append(t.post, m.deviations())
	}
	if e.Evidence != nil {
		e.Evidence.prepare()
	}
	if e.Family != nil {
		t.families, t.familyOf = listFamilies(e.Family)
		for f := range t.families {
			t.families[f].prepare(t, e.Shared[t.families[f].members[0]])
		}
	}
	e.tables = t
	if e.Agree != nil && !e.Verified {
		t.pair = e.pairDeviations()
	}
}

// ease returns the mean ease of a query of group g.
func (e *latent) ease(g int, inputTokens, troubles float64) float64 {
	mean := e.Mean[g]
	if e.PerTrouble != nil {
		mean += e.PerTrouble[g] * math.Log1p(troubles)
	}
	if inputTokens > 0 {
		mean += e.PerLength[g].Slope * (math.Log(inputTokens) - e.PerLength[g].Center)
	}
	return mean
}

// prior fills in the log weights of the nodes around a mean ease.
func (e *latent) prior(dst []float64, mean float64) {
	for k, z := range e.Nodes {
		dst[k] = -(z-mean)*(z-mean)/2 + e.Misreads.logShare(k >= len(e.Nodes)/2)
	}
}

// answerLength is the distribution of the lengths of a model's answers, by group.
type answerLength struct {
	Group []lengthIn `json:"group"`
}

// lengthIn is the distribution of the logarithm of the number of tokens of an answer
// in a group: normal, around a mean that depends on the ease and on whether the
// answer is right.
type lengthIn struct {
	Mean    float64 `json:"mean"`
	PerEase float64 `json:"per_ease"`
	// IfWrong is added if the answer is wrong.
	IfWrong float64 `json:"if_wrong"`
	StdDev  float64 `json:"std_dev"`
}

// likelihoods returns the densities at ease z if the answer is right and if it is
// wrong, up to a common factor.
func (l *lengthIn) likelihoods(z, logTokens float64) (right, wrong float64) {
	mean := l.Mean + l.PerEase*z
	a, b := (logTokens-mean)/l.StdDev, (logTokens-mean-l.IfWrong)/l.StdDev
	// The tails are heavier than a normal's, so that an answer of extreme length says
	// little.
	return math.Exp(-min(a*a/2, 6)), math.Exp(-min(b*b/2, 6))
}

// absence has the probabilities that there is no answer if it would be right and if
// it would be wrong.
type absence struct {
	IfRight float64 `json:"if_right"`
	IfWrong float64 `json:"if_wrong"`
}

// likelihoods returns the probabilities of a missing answer, or of one that is there.
func (a *absence) likelihoods(missing bool) (right, wrong float64) {
	if missing {
		return a.IfRight, a.IfWrong
	}
	return 1 - a.IfRight, 1 - a.IfWrong
}

// softmax sets weight to exp(log) divided by the sum.
func softmax(weight, log []float64) {
	top := math.Inf(-1)
	for _, l := range log {
		top = max(top, l)
	}
	sum := 0.0
	for k, l := range log {
		weight[k] = math.Exp(l - top)
		sum += weight[k]
	}
	for k := range weight {
		weight[k] /= sum
	}
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
