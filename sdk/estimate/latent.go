package estimate

import (
	"fmt"
	"math"
	"slices"
)

// latent is an item-response model: a query has one hidden ease z, normal around
// what its group and length say, and model i answers it well with probability
//
//	p_i(z, g) = sigmoid(Base_i + Slope_i·z + Shift_{i,g}).
//
// Given z the models are independent. The distribution of z is carried as weights on
// a grid: a verdict, a signal, the length of an answer or its agreement with others
// moves the weights, and with them what is believed of all models.
type latent struct {
	Nodes []float64 `json:"nodes"`
	// Groups are the known groups; the tables below have one more row, the last,
	// for queries of any other.
	Groups groupNames `json:"groups"`
	// Mean is the mean ease of each group, PerLength what the prompt's length adds.
	Mean      []float64   `json:"mean"`
	PerLength []perLength `json:"per_length"`
	// PerTrouble is what the logarithm of one more than the run's troubles with tools adds
	// in each group; nil where there are none.
	PerTrouble []float64 `json:"per_trouble,omitempty"`
	// Text predicts the ease from the words of the prompt, PerText is by how much
	// that counts in each group; nil when the words tell nothing.
	Text    *textModel  `json:"text,omitempty"`
	PerText []float64   `json:"per_text,omitempty"`
	Base    []float64   `json:"base"`
	Slope   []float64   `json:"slope"`
	Shift   [][]float64 `json:"shift"` // group, model
	// Family names for each model the first of its family, and Shared is the share of the
	// family's factor in whether it is right, given the ease; nil where all are alone.
	Family []int     `json:"family,omitempty"`
	Shared []float64 `json:"shared,omitempty"`
	// Misreads describes a judge whose errors on one query go together; nil where they do
	// not. The second half of the nodes then stands for the queries that it misreads.
	Misreads *misreads `json:"misreads,omitempty"`
	// Verified: a check judges the answers.
	Verified bool `json:"verified,omitempty"`
	// Ante and Post are how the signals are distributed; nil when there are none.
	Ante []emission `json:"ante,omitempty"`
	Post []emission `json:"post,omitempty"`
	// Evidence is what further numbers say of an answer; nil when there are none.
	Evidence *evidence `json:"evidence,omitempty"`
	// Lengths are how long the models' answers are; nil when unknown.
	Lengths []answerLength `json:"lengths,omitempty"`
	// NoAnswer is how probable it is that a model's answer is missing, such as one
	// that cannot be parsed; nil when there are no answers.
	NoAnswer []absence `json:"no_answer,omitempty"`
	// Empty says for each group whether an empty answer is an answer like others
	// there, which can be right, and not one that is missing.
	Empty []bool `json:"empty,omitempty"`
	// Agree says how answers agree, for each group; nil when there are no answers.
	Agree []agreement `json:"agree,omitempty"`
	// Change is the standard deviation of what a model's own run changes in what is
	// believed of its answer, by group and model; nil when a run shows nothing.
	Change [][]float64 `json:"change,omitempty"`
	// Gain corrects the deviations; nil leaves them.
	Gain *gainScale `json:"gain,omitempty"`

	tables *latentTables
}

// perLength is the ease added by each unit of the logarithm of the prompt's tokens.
type perLength struct {
	Center float64 `json:"center"`
	Slope  float64 `json:"slope"`
}

// latentTables is what a cursor reads.
type latentTables struct {
	p [][][]float64 // group, model, node
	// unseen is the logarithm of how likely it is that nothing is seen of a model: 0, but
	// for the rounding.
	unseen [][][]float64 // group, model, node
	post   []lookup      // model: deviation of the post-hoc estimate by probability
	// pair is the deviation of what a second answer, of the model that tells most, would
	// change in the estimate of each model; nil where answers are not compared.
	pair [][]float64 // group, model
	// families are those of more than one model, familyOf the place of each model's
	// among them, -1 for none; nil where there are none.
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

// fitsModels reports whether there are parameters for so many models.
func (e *latent) fitsModels(n int) bool {
	return len(e.Base) == n && len(e.Slope) == n &&
		hasLength(e.Ante, n) && hasLength(e.Post, n) && hasLength(e.Lengths, n) && hasLength(e.NoAnswer, n) &&
		(e.Family == nil || len(e.Family) == n && validFamilies(e.Family, e.Shared)) &&
		(e.Evidence == nil || e.Evidence.check(n)) &&
		wide(e.Shift, n) && wide(e.Change, n)
}

// fitsGroups reports whether there are parameters for each group, and for none.
func (e *latent) fitsGroups() bool {
	n := len(e.Groups) + 1
	return len(e.Shift) == n && len(e.Mean) == n && len(e.PerLength) == n &&
		hasLength(e.Agree, n) && hasLength(e.PerTrouble, n) && hasLength(e.Change, n) &&
		(e.NoAnswer == nil || len(e.Empty) == n) && (e.Text == nil || len(e.PerText) == n) &&
		!slices.ContainsFunc(e.Lengths, func(l answerLength) bool { return len(l.Group) != n })
}

// hasLength reports whether a list of parameters, where there is one, has so many.
func hasLength[T any](list []T, n int) bool { return list == nil || len(list) == n }

// prepare works out the tables.
func (e *latent) prepare() {
	t := &latentTables{}
	for g := range e.Mean {
		p, unseen := square2(len(e.Base), len(e.Nodes)), square2(len(e.Base), len(e.Nodes))
		for i := range p {
			for k, z := range e.Nodes {
				p[i][k] = sigmoid(e.Base[i] + e.Slope[i]*z + e.Shift[g][i])
				unseen[i][k] = math.Log(p[i][k] + (1 - p[i][k]))
			}
		}
		t.p, t.unseen = append(t.p, p), append(t.unseen, unseen)
	}
	for _, m := range e.Post {
		t.post = append(t.post, m.deviations())
	}
	if e.Evidence != nil {
		e.Evidence.prepare()
	}
	e.prepareFamilies(t)
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

// answerLength is how long a model's answers are, by group.
type answerLength struct {
	Group []lengthIn `json:"group"`
}

// lengthIn is how the logarithm of the number of tokens of an answer is distributed
// in a group: normal, around a mean that depends on the ease and on whether the
// answer is right.
type lengthIn struct {
	Mean    float64 `json:"mean"`
	PerEase float64 `json:"per_ease"`
	// IfWrong is added when the answer is wrong.
	IfWrong float64 `json:"if_wrong"`
	StdDev  float64 `json:"std_dev"`
}

// likelihoods returns the densities at ease z if the answer is right and if it is
// wrong, up to a factor.
func (l *lengthIn) likelihoods(z, logTokens float64) (right, wrong float64) {
	mean := l.Mean + l.PerEase*z
	a, b := (logTokens-mean)/l.StdDev, (logTokens-mean-l.IfWrong)/l.StdDev
	// The tails are heavier than a normal's: an answer of unheard-of length says
	// little.
	return math.Exp(-min(a*a/2, 6)), math.Exp(-min(b*b/2, 6))
}

// absence is the probability that there is no answer where one would be right, and
// where it is wrong.
type absence struct {
	IfRight float64 `json:"if_right"`
	IfWrong float64 `json:"if_wrong"`
}

// likelihoods returns the probabilities of what was seen.
func (a *absence) likelihoods(missing bool) (right, wrong float64) {
	if missing {
		return a.IfRight, a.IfWrong
	}
	return 1 - a.IfRight, 1 - a.IfWrong
}

// softmax fills weights with exp(log) over their sum.
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
