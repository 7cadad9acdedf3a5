package eval

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Signals says what is known about an answer after its model has run.
type Signals string

// The kinds of signals.
const (
	// SignalsAuto: SignalsVerdict if a check judged the train half
	// (outcome.Table.Verified), else SignalsFeatures.
	signalsAuto Signals = "auto"
	// SignalsVerdict: the quality itself, from a check such as unit tests.
	SignalsVerdict Signals = "verdict"
	// SignalsFeatures: the table's features of query and answer (group, lengths,
	// agreement of answers, further columns), never the quality.
	SignalsFeatures Signals = "features"
)

// Values of Study.Estimator besides the kinds of package estimate. estimatorAuto chooses
// the kind by the available signals, and estimatorNone leaves out the dependent estimates.
const (
	estimatorAuto = "auto"
	estimatorNone = "none"
)

// Estimators returns the valid values of [Study].Estimator.
func Estimators() []string {
	return append([]string{estimatorAuto, estimatorNone}, estimate.Kinds()...)
}

// ParseNoise parses "low", "medium", "high", or two or four numbers separated by commas.
// It returns nil for an empty text.
func ParseNoise(text string) (*estimate.Noise, error) {
	if text == "" {
		return nil, nil
	}
	if level, ok := estimate.NoiseLevels()[text]; ok {
		return &level, nil
	}
	fields := strings.Split(text, ",")
	if len(fields) != 2 && len(fields) != 4 {
		return nil, fmt.Errorf("%q: want low, medium, high, or 2 or 4 numbers: ante,post[,cost ante,cost post]", text)
	}
	var v [4]float64
	for i, field := range fields {
		x, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil || !(x >= 0) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("%q: %q is not a deviation (a finite number from 0 up)", text, field)
		}
		v[i] = x
	}
	return &estimate.Noise{Ante: v[0], Post: v[1], CostAnte: v[2], CostPost: v[3]}, nil
}

// Study is a complete comparison, from two tables to the result.
type Study struct {
	Halves *Halves
	// Signals and Estimator choose the estimates; "" means auto.
	Signals   Signals
	Estimator string
	// Features are the features that regressions use; see [estimate.Options].
	Features []string
	// Noise, when not nil, simulates the estimates and overrides Signals. A CostAnte of 0 keeps the cost
	// estimator.
	Noise *estimate.Noise
	// Verdicts, when not nil, are the halves with the qualities reported by an imperfect
	// check: strategies are fitted and decide on these, and are measured on those of
	// Halves.
	Verdicts *Verdicts
	// Strategies are the rows to include; nil means all that suit the models.
	Strategies []string
	// Points is the number of lambdas of a curve; 0 means 40. Bootstrap is the number
	// of resamples.
	Points, Bootstrap int
	Seed              uint64
	// Choose also chooses each row's operating point on the train half, and ByGroup measures each group of test
	// queries on its own.
	Choose, ByGroup bool
	// Progress, when not nil, is called with finished units of work, of which there are
	// Units in total.
	Progress func(units int)
}

// Validate returns an error if a setting has an unknown value.
func (s *Study) Validate() error {
	if !slices.Contains([]Signals{"", signalsAuto, SignalsVerdict, SignalsFeatures}, s.Signals) {
		return fmt.Errorf("unknown signals %q; there are auto, verdict, features", s.Signals)
	}
	if known := Estimators(); s.Estimator != "" && !slices.Contains(known, s.Estimator) {
		return fmt.Errorf("unknown estimator %q; there are %s", s.Estimator, strings.Join(known, ", "))
	}
	for _, name := range s.Strategies {
		if !slices.Contains(StrategyNames(), name) {
			return fmt.Errorf("unknown strategy %q; there are %s", name, strings.Join(StrategyNames(), ", "))
		}
	}
	return nil
}

// Units returns the number of units of work that Run reports.
func (s *Study) Units() int {
	return len(s.Halves.Test.Queries) + s.Bootstrap + prepareUnits*len(s.entries(len(s.Halves.Train.Models)))
}

// prepareUnits is the work of preparing one strategy, in queries.
const prepareUnits = 50

func (s *Study) progress(units int) {
	if s.Progress != nil {
		s.Progress(units)
	}
}

// Verdicts are the two halves with the qualities that a check reports.
type Verdicts struct{ Train, Test *outcome.Table }

// Run fits the estimates, prepares and replays the strategies, and measures them.
func (s *Study) Run(ctx context.Context) (*Comparison, error) {
	p, players, samples, err := s.replay(ctx)
	if err != nil {
		return nil, err
	}
	c, err := s.measure(ctx, p.Test, players, samples, s.Progress)
	if err != nil {
		return nil, err
	}
	c.Setup = p.setup
	if s.Choose {
		err = s.choose(ctx, p.Train, players, samples, c)
	}
	if err == nil && s.ByGroup {
		err = s.measureGroups(ctx, p.Test, players, samples, c)
	}
	return c, err
}

// choose replays the players on the train half and sets the chosen operating point of each:
// the cheapest there that reaches the quality of the best single model.
func (s *Study) choose(ctx context.Context, train *outcome.Table, players []*Player, samples []*Sample, c *Comparison) error {
	same := make([]*Player, len(players))
	for i, p := range players {
		same[i] = &Player{Source: p.train, Lambdas: p.Lambdas, Strategies: p.Strategies}
	}
	met, err := Replay(ctx, train, same, s.Seed, nil)
	if err != nil {
		return err
	}
	frame := singles(train).newFrame(nil)
	for _, r := range c.Rows {
		r.Chosen = c.Frame.Models[frame.Best]
	}
	for i, p := range players {
		best := 0
		point := func(l int) Point {
			return Point{Cost: mean(met[i].Cost[l], nil), Quality: min(mean(met[i].Quality[l], nil), frame.Models[frame.Best].Quality)}
		}
		for l := range p.Lambdas {
			a, b := point(l), point(best)
			if cmp.Or(cmp.Compare(a.Quality, b.Quality), cmp.Compare(b.Cost, a.Cost)) > 0 {
				best = l
			}
		}
		c.Row(p.Name).Chosen = Point{Lambda: p.Lambdas[best], Cost: mean(samples[i].Cost[best], nil), Quality: mean(samples[i].Quality[best], nil), Steps: mean(samples[i].Steps[best], nil)}
	}
	return nil
}

// measureGroups sets the comparisons of the groups in which the models' costs differ.
func (s *Study) measureGroups(ctx context.Context, test *outcome.Table, players []*Player, samples []*Sample, c *Comparison) (err error) {
	members := map[string][]int{}
	for q := range test.Queries {
		members[test.Group(q)] = append(members[test.Group(q)], q)
	}
	c.Groups = map[string]*Comparison{}
	for name, queries := range members {
		part := test.Rows(queries)
		if validate(part) != nil {
			continue
		}
		parts := make([]*Sample, len(samples))
		for i, sample := range samples {
			parts[i] = sample.rows(queries)
		}
		if c.Groups[name], err = s.measure(ctx, part, players, parts, nil); err != nil {
			return err
		}
	}
	return nil
}

func (s *Study) replay(ctx context.Context) (*problem, []*Player, []*Sample, error) {
	if err := s.Validate(); err != nil {
		return nil, nil, nil, err
	}
	p, err := s.problem(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	players, err := s.prepare(ctx, p)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := validate(p.Test); err != nil {
		return nil, nil, nil, err
	}
	samples, err := Replay(ctx, p.Test, players, s.Seed, s.progress)
	return p, players, samples, err
}

func (s *Study) measure(ctx context.Context, o *outcome.Table, players []*Player, samples []*Sample, progress func(int)) (*Comparison, error) {
	opts := Options{Train: s.Halves.Train, Bootstrap: s.Bootstrap, Seed: s.Seed, Baselines: s.Strategies, Progress: progress}
	if slices.ContainsFunc(players, func(p *Player) bool { return p.Name == cascade.NameCascadeRoute }) {
		opts.Reference = cascade.NameCascadeRoute
	}
	return Measure(ctx, o, players, samples, opts)
}

// problem fits the estimates that the study's strategies need.
func (s *Study) problem(ctx context.Context) (_ *problem, err error) {
	h, fits := s.plan()
	p := &problem{Train: h.Train, Test: s.Halves.Test, halves: h}
	needs := map[bool]bool{}
	for _, e := range s.entries(len(h.Train.Models)) {
		needs[e.dependent] = true
	}
	fitted := map[string]*fittedSources{}
	fit := func(kind string) (*fittedSources, error) {
		if fitted[kind] == nil {
			var err error
			if fitted[kind], err = s.sources(h, kind); err != nil {
				return nil, err
			}
		}
		return fitted[kind], nil
	}
	note := fits.note
	if needs[false] {
		if p.Independent, err = fit(fits.independent); err != nil {
			return nil, err
		}
		note += "; independent rows: " + fits.independent
	}
	if needs[true] && len(fits.dependent) > 0 {
		candidates := make([]*fittedSources, len(fits.dependent))
		for i, kind := range fits.dependent {
			if candidates[i], err = fit(kind); err != nil {
				return nil, err
			}
		}
		if p.Dependent, err = chooseSources(ctx, p.Train, candidates); err != nil {
			return nil, fmt.Errorf("choosing the dependent estimate: %w", err)
		}
		note += ", dependent rows: " + p.Dependent.Name
		if len(candidates) > 1 {
			note += ", chosen on the train half among " + strings.Join(fits.dependent, ", ")
		}
	}
	p.setup = map[string]string{"estimates": note}
	return p, nil
}

type kinds struct {
	independent string
	// dependent lists the kinds to choose from on the train half.
	dependent []string
	note      string
}

// historyModels is the number of models up to which there are enough queries for a regression per set of
// models run, as in the paper.
const historyModels = 5

func (s *Study) plan() (*Halves, kinds) {
	h := *s.Halves
	if s.Verdicts != nil {
		h.Train, h.Test = s.Verdicts.Train, s.Verdicts.Test
	}
	k := kinds{}
	switch signals := s.signals(); {
	case s.Noise != nil:
		h.Train = estimate.Simulate(h.Train, *s.Noise, s.Seed*2+1)
		h.Test = estimate.Simulate(h.Test, *s.Noise, s.Seed*2+2)
		k.independent, k.dependent = estimate.KindSignal, []string{estimate.KindLatent}
		k.note = fmt.Sprintf("simulated: truth plus noise of %v before and %v after a model has run", s.Noise.Ante, s.Noise.Post)
	case signals == SignalsVerdict:
		h.Train, h.Test = withVerdicts(h.Train, true), withVerdicts(h.Test, true)
		k.independent, k.dependent = estimate.KindMean, []string{estimate.KindLatent}
		k.note = "a check judges every answer (quality is its verdict)"
	default:
		h.Train, h.Test = withVerdicts(h.Train, false), withVerdicts(h.Test, false)
		shared := estimate.Options{Seed: s.Seed}.Resolve(h.Train).Quality
		k.independent, k.dependent = shared, []string{shared}
		if len(h.Train.Models) <= historyModels {
			k.independent = estimate.KindLogistic
			k.dependent = slices.Compact([]string{estimate.KindLogistic, shared})
		}
		k.note = "features of queries and answers; no check"
		if judges := h.Train.Judges(); len(judges) > 0 {
			// A verdict on one answer is evidence about others only through the latent ease.
			k.dependent = []string{shared}
			k.note = "features, and verdicts that may err of " + strings.Join(judges, ", ")
		}
	}
	switch s.Estimator {
	case "", estimatorAuto:
	case estimatorNone:
		k.dependent = nil
	default:
		k.dependent = []string{s.Estimator}
	}
	return &h, k
}

// signals resolves SignalsAuto.
func (s *Study) signals() Signals {
	if s.Signals != "" && s.Signals != signalsAuto {
		return s.Signals
	}
	if s.Halves.Train.Verified {
		return SignalsVerdict
	}
	return SignalsFeatures
}

func withVerdicts(t *outcome.Table, verified bool) *outcome.Table {
	c := *t
	c.Verified = verified
	return &c
}

// trainFolds is the number of folds for the beliefs on the train half.
const trainFolds = 4

// sources fits one estimator to the train half for the test half, and one per fold for the train half itself.
func (s *Study) sources(h *Halves, kind string) (*fittedSources, error) {
	options := estimate.Options{Quality: kind, Features: s.Features, Seed: s.Seed}
	whole, train, _, err := estimate.FitFolds(h.Train, min(trainFolds, len(h.Train.Queries)), options)
	if err != nil {
		return nil, fmt.Errorf("fitting the %s estimate to %d queries: %w", kind, len(h.Train.Queries), err)
	}
	test, err := whole.On(h.Test)
	if err != nil {
		return nil, err
	}
	src := &fittedSources{Name: kind, Train: train.Source(), Test: test.Source()}
	if s.Noise != nil && s.Noise.CostAnte > 0 {
		src.Test = newCostNoise(src.Test, h.Train, h.Test, s.Noise.CostAnte, s.Seed*2+4)
		src.Train = newCostNoise(src.Train, h.Train, h.Train, s.Noise.CostAnte, s.Seed*2+3)
	}
	return src, nil
}
