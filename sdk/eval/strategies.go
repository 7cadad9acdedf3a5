package eval

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/replay"
)

// The rows of a comparison beyond the strategies that package cascade names.
const (
	nameCascadeRouteDepth3    = "cascade_route_depth3"
	nameCascadeRouteScaled    = "cascade_route_scaled"
	nameCascadeRouteDependent = "cascade_route_dependent"
	nameIndexIndependent      = "index_independent"
	// namePairs is the upper envelope of all cascades of two models, and routeDependent a
	// router on the dependent estimates.
	namePairs      = "pairs"
	routeDependent = "route_dependent"
)

// fittedSources are the beliefs on both halves of a data set by one kind of estimator.
// On the train half they must be out-of-fold.
type fittedSources struct {
	Name        string
	Train, Test replay.Source

	scale *float64 // see fittedScale; nil until computed
}

// problem is the data that strategies are prepared and measured on.
type problem struct {
	Train, Test *outcome.Table
	// Independent are the paper's estimates, and Dependent those that model a difficulty common to all
	// models. If nil, the rows that need them are left out.
	Independent, Dependent *fittedSources
	// halves are the tables to which ex-ante routers are fitted.
	halves *Halves
	setup  map[string]string // see Comparison
}

type entry struct {
	name, note string
	dependent  bool
	// maxModels leaves the row out of the default list above that many models.
	maxModels int
	// onDemand leaves the row out of the default list; sources, when not nil, returns
	// its own beliefs.
	onDemand bool
	sources  func(h *Halves) *fittedSources
	rule     ruleOf
}

// A ruleOf fits the rule of a strategy to the train half.
type ruleOf func(ctx context.Context, p *problem, s *fittedSources) (strategyAt, error)

func byName(name string, params cascade.Params) ruleOf {
	return func(context.Context, *problem, *fittedSources) (strategyAt, error) { return strategyWith(name, params) }
}

// strategyWith returns the rule of a strategy with these parameters at any lambda.
func strategyWith(name string, params cascade.Params) (strategyAt, error) {
	base, err := cascade.New(name, params)
	if err != nil {
		return nil, err
	}
	tunable, ok := base.(cascade.Tunable)
	if !ok {
		return nil, fmt.Errorf("%T cannot be tuned", base)
	}
	return func(lambda float64) (cascade.Strategy, error) {
		return tunable.Tune([]float64{lambda}, 1)
	}, nil
}

func catalogue() []entry {
	return append([]entry{
		{name: cascade.NameRoute, note: "one model per query (paper, algorithm 1)", rule: byName(cascade.NameRoute, cascade.Params{})},
		{name: routeDependent, note: "one model per query, on", dependent: true, rule: byName(cascade.NameRoute, cascade.Params{})},
		{name: namePairs, note: "upper envelope of all cascades of two models, thresholds fitted", rule: pairsRule},
		{name: cascade.NameThreshold, note: "cheapest first until the estimate reaches the depth's threshold", rule: thresholdRule},
		{name: cascade.NameCascade, note: "fixed order (paper, algorithm 2)", rule: cascadeRule},
		{name: cascade.NameCascadeRoute, note: "the paper's algorithm 3, independent estimates", rule: byName(cascade.NameCascadeRoute, cascade.Params{})},
		{name: cascade.NameCascadeRouteSlow, note: "without pruning", maxModels: 5, rule: byName(cascade.NameCascadeRouteSlow, cascade.Params{})},
		{name: cascade.NameCascadeRouteGreedy, note: "looks one model ahead", rule: byName(cascade.NameCascadeRouteGreedy, cascade.Params{})},
		{name: cascade.NameCascadeRouteNoExpect, note: "takes estimates as certain", rule: byName(cascade.NameCascadeRouteNoExpect, cascade.Params{})},
		{name: nameCascadeRouteDepth3, note: "at most three models", rule: byName(cascade.NameCascadeRoute, cascade.Params{MaxDepth: 3})},
		{name: nameCascadeRouteScaled, note: "deviations scaled by a fitted number", rule: scaledRule(cascade.NameCascadeRoute)},
		{name: nameIndexIndependent, note: "reservation values, independent estimates", rule: byName(cascade.NameIndex, cascade.Params{})},
		{name: nameCascadeRouteDependent, note: "algorithm 3 with a fitted scale on", dependent: true, rule: scaledRule(cascade.NameCascadeRoute)},
		{name: cascade.NameIndex, note: "reservation values with a fitted scale on", dependent: true, rule: scaledRule(cascade.NameIndex)},
	}, rivals()...)
}

// StrategyNames returns the names of all rows, baselines included.
func StrategyNames() []string {
	names := []string{nameLinearInterpolation, nameBestSingle, namePickedSingle, nameRandom}
	for _, e := range catalogue() {
		names = append(names, e.name)
	}
	return append(names, nameOracle)
}

func (s *Study) entries(models int) []entry {
	var chosen []entry
	for _, e := range catalogue() {
		switch {
		case s.Strategies != nil && !slices.Contains(s.Strategies, e.name):
		case s.Strategies == nil && (e.onDemand || e.maxModels > 0 && models > e.maxModels):
		case e.dependent && s.Estimator == estimatorNone:
		default:
			chosen = append(chosen, e)
		}
	}
	return chosen
}

// prepare returns a player for each strategy whose estimates are available. The strategy is fitted, and the
// lambdas of its curve are chosen, on the train half.
func (s *Study) prepare(ctx context.Context, p *problem) ([]*Player, error) {
	var players []*Player
	for _, e := range s.entries(len(p.Train.Models)) {
		beliefs, note := p.Independent, e.note
		if e.dependent {
			if p.Dependent == nil {
				continue
			}
			beliefs, note = p.Dependent, note+" the "+p.Dependent.Name+" estimate"
		}
		if e.sources != nil {
			beliefs = e.sources(p.halves)
		}
		rule, err := e.rule(ctx, p, beliefs)
		if err != nil {
			return nil, fmt.Errorf("preparing %s: %w", e.name, err)
		}
		train, source := head(p.Train, beliefs.Train, gridQueries)
		lambdas, err := spreadLambdas(ctx, train, source, rule, cmp.Or(s.Points, 40), s.Seed)
		if err != nil {
			return nil, fmt.Errorf("choosing lambdas of %s: %w", e.name, err)
		}
		player, err := rule.player(e.name, note, beliefs.Test, lambdas)
		if err != nil {
			return nil, err
		}
		player.train = beliefs.Train
		players = append(players, player)
		s.progress(prepareUnits)
	}
	return players, nil
}

// gridQueries is the number of train queries that suffice to spread lambdas.
const gridQueries = 100

// head returns at most n of the queries, equally spaced, with a source for them by
// their new indexes.
func head(o *outcome.Table, s replay.Source, n int) (*outcome.Table, replay.Source) {
	if len(o.Queries) <= n {
		return o, s
	}
	places := make([]int, n)
	for i := range places {
		places[i] = i * len(o.Queries) / n
	}
	return o.Rows(places), &subSource{s, places}
}

// subSource is a source for some of another source's queries.
type subSource struct {
	replay.Source
	places []int
}

func (p *subSource) Start(q int) replay.Cursor { return p.Source.Start(p.places[q]) }
