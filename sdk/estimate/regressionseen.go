package estimate

import (
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/feature"
)

// setFits holds the features of one query and of the models that have run on it.
type setFits struct {
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
	// same and apart compare the answers of two models: 1 if they agree, and the
	// Jensen-Shannon divergence of their classes.
	same, apart [][]float64
	tally       []vote
}

// vote is an answer, as that of a model, with the total trust in the models that gave it.
type vote struct {
	model  int
	weight float64
}

func (l *featureLayout) newSetFits(models int) *setFits {
	s := &setFits{
		featureLayout: l, ante: make([]float64, models), run: zeros(models, len(l.Run)),
		answers: make([]string, models), tally: make([]vote, 0, models),
	}
	if l.Text != nil {
		s.reader = newTextReader(l.Text)
	}
	if l.Agreement {
		s.same = square(models)
	}
	if l.Classes > 0 {
		s.classes, s.apart = zeros(models, l.Classes), square(models)
	}
	return s
}

func (s *setFits) begin(q *queryFacts) {
	s.group = s.Groups.groupOf(q.Group)
	s.length = s.Length.of(logOf(q.InputTokens))
	if s.reader != nil {
		s.text = textScale * s.reader.at(q)
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

// observe adds a run; ran lists the models that ran before.
func (s *setFits) observe(model int, r *runFacts, ran []int) {
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
			if isKnown(s.classes[model]) && isKnown(s.classes[other]) {
				v = feature.JensenShannon(s.classes[model], s.classes[other])
			}
			s.apart[model][other], s.apart[other][model] = v, v
		}
	}
}

// base appends the features of a target that are known before any model has run.
func (s *setFits) base(x []float64, target int) []float64 {
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

// each appends the features of each model that has run, and of each pair of them.
func (s *setFits) each(x []float64, ran []int) []float64 {
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

// pool appends features that summarise the models that have run: the target's own
// features if it has run, the mean of the others', and how the answers agree, weighted
// by the trust in the models that gave them.
func (s *setFits) pool(x []float64, ran []int, target int) []float64 {
	has := slices.Contains(ran, target)
	others := float64(len(ran))
	if has {
		others--
		x = append(x, s.run[target]...)
	}
	mean := func(of func(m int) float64) float64 { // over the others
		sum := 0.0
		for _, m := range ran {
			if m != target {
				sum += of(m)
			}
		}
		return sum / max(others, 1)
	}
	x = append(x, math.Log1p(others))
	for f := range s.Run {
		x = append(x, mean(func(m int) float64 { return s.run[m][f] }))
	}
	if s.same != nil {
		x = s.votes(x, ran, target, has)
	}
	if s.apart != nil && has {
		x = append(x, mean(func(m int) float64 { return s.apart[m][target] }))
	}
	return x
}

// votes appends the trust in the target's answer, in the most trusted other answer, and
// in the rest. If the target has not run, it appends the trust in the two most trusted
// answers and in the rest.
func (s *setFits) votes(x []float64, ran []int, target int, has bool) []float64 {
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
