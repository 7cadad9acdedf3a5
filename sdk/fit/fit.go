package fit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/replay"
)

// Options say what to fit. The zero value fits an index strategy for quality at any
// cost, with estimators chosen by the contents of the table.
type Options struct {
	// Strategy is one of [cascade.Names]; "" is index.
	Strategy string
	// Params are the parameters that are not fitted: Order, MaxDepth, Answer and
	// NodeLimit. Order has indexes of the table's models.
	Params cascade.Params
	// BudgetUSD is the largest mean cost of a query; 0 is no budget.
	BudgetUSD float64
	// Floor is the quality to keep at the lowest cost, instead of a budget; nil means none.
	Floor *Floor
	// MaxWrong is the largest share of wrong answers among those served as good; 0
	// makes no such promise.
	MaxWrong float64
	// Confidence is that of Floor and MaxWrong; 0 means 0.95.
	Confidence float64
	// Models are the candidates with their prices, which the profile records; nil
	// means the table's models with unknown prices.
	Models []sdk.Model
	// OnlyJudge are models that judge but are not candidates, which the profile records.
	OnlyJudge []string
	// Estimate selects the estimators.
	Estimate estimate.Options
	// VerdictsErr says that the judges in Estimate.JudgeOrder are fallible, and that the qualities of
	// a table without a column of verdicts are their verdicts. Their error rates are those of
	// Estimate.Judges, or are learned from the verdicts on all answers to a query and from truths that
	// became known later.
	VerdictsErr bool
	// Folds is the number of folds; 0 means 5.
	Folds int
	// Seed determines the folds and all random draws.
	Seed uint64
	// Progress, when not nil, is called with a description of each stage.
	Progress func(stage string)

	caches *outcome.Caches // nil if nothing is known of them
	always []float64       // what models cost that are always asked; nil if that is the mean
}

// minQueries is the smallest table that is worth splitting into folds.
const minQueries = 20

// ErrTooFew means that the table has too few complete queries to fit anything.
var ErrTooFew = errors.New("too few outcomes to fit")

// weighLabels replaces labels that are agreement with a reference model by those of [estimate.Consensus],
// and sets Right of the models to the mean of the new ones.
func weighLabels(t *outcome.Table, models []Model) (*outcome.Table, error) {
	weighed, err := estimate.Consensus(t)
	if err != nil || weighed.Labels == t.Labels {
		return t, err
	}
	setRight(models, weighed)
	return weighed, nil
}

func setRight(models []Model, inferred *outcome.Table) {
	for i, right := range inferred.MeanQualities() {
		models[i].Right = right
	}
}

// Relabel returns the table that the profile was fitted to, with the labels that the fit gave it.
func (p *Profile) Relabel(t *outcome.Table) (*outcome.Table, error) {
	if t.Labels == p.Data.Labels {
		return t, nil
	}
	return estimate.Consensus(t)
}

// Fit fits estimators and a strategy to a table. The estimators are fitted to all
// queries, and the strategy only to those with outcomes of all models.
//
// The strategy is fitted on out-of-fold estimates, and the budget is checked with
// choices made on other folds. The estimator of the profile is fitted to all queries.
//
// If the table says what prompt caches saved in runs of several steps, costs are those in use, given the models that the
// fitted strategy asks.
func Fit(ctx context.Context, t *outcome.Table, o Options) (*Profile, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	return fitInUse(ctx, t, o, fitTable)
}

func fitTable(ctx context.Context, t *outcome.Table, o Options) (*Profile, modelsAsked, error) {
	if err := o.check(ctx, t); err != nil {
		return nil, nil, err
	}
	models, err := candidatesFor(t, o.Models)
	if err != nil {
		return nil, nil, err
	}
	hash, verified := t.Hash(), t.Verified
	if t, err = weighLabels(t, models); err != nil {
		return nil, nil, err
	}
	met := t
	t, drawn, err := o.fill(t)
	if err != nil {
		return nil, nil, err
	}
	data := Data{SHA256: hash, Verified: verified, Folds: o.Folds, Seed: o.Seed, Drawn: drawn, Labels: t.Labels, StepsPerRun: t.StepsPerRun}
	t, isAssumed := o.useVerdicts(met, t, &data)
	if data.Inferred > 0 {
		setRight(models, t)
	}
	complete := t.Complete()
	if err := checkOutcomes(t, complete); err != nil {
		return nil, nil, err
	}
	o.setCached(models, complete)
	o.Estimate.Seed = o.Seed
	o.Estimate = o.Estimate.Resolve(complete)

	o.Progress("fitting estimators, fold by fold and to all outcomes")
	estimator, held, known, err := estimate.FitFolds(t, o.Folds, o.Estimate)
	if err != nil {
		return nil, nil, err
	}
	if err := checkJudges(estimator); err != nil {
		return nil, nil, err
	}
	var calibration *Calibration
	var aside sync.WaitGroup
	defer aside.Wait()
	aside.Go(func() { calibration = calibrate(complete, held, data.Inferred > 0) })
	o.Progress("replaying " + o.Strategy + " at every lambda")
	tried, err := candidates(o.Strategy, o.Params, complete)
	if err != nil {
		return nil, nil, err
	}
	if o.Floor != nil {
		tried = []*candidate{untunedCandidate(tried, &o.Params)}
	}
	judged := withVerdictCosts(complete, o.Estimate.JudgeOrder)
	all := newStage(judged, held)
	if estimator.VerdictsUSD != nil {
		all.table = complete // the strategy or the walk pays for verdicts
	}
	list, err := sweep(ctx, all, o.Strategy, tried, o.BudgetUSD)
	if err != nil {
		return nil, nil, err
	}
	data.Queries, data.Complete = len(t.Queries), len(complete.Queries)
	data.Groups = slices.Compact(slices.Sorted(slices.Values(t.Groups)))
	p := &Profile{Version: version, Data: data, Models: models, OnlyJudge: o.OnlyJudge, Estimator: estimator}
	chosen := chooseBest(complete, list, o.BudgetUSD, (*candidate).points)
	p.Strategy = cascade.SettingOf(cascade.Description{Name: o.Strategy, Params: chosen.params}, complete.Models)
	f := &fitter{ctx: ctx, stage: all, options: o, candidate: chosen, profile: p}
	if err := f.meet(complete, known); err != nil {
		return nil, nil, err
	}
	p.Budget.lookBeyond(tried, p.Expected.Quality, len(complete.Queries))
	groups := kindsOf(complete)
	p.Curve = f.use.curve(groups)
	strategy, err := p.NewStrategy(complete.Models)
	if err != nil {
		return nil, nil, err
	}
	aside.Go(func() { p.Usual = tallyErrors(strategy, complete, models, estimator, held) })
	p.Ladder = f.compareLadders(complete, judged, strategy)
	if o.MaxWrong > 0 {
		if err := f.meetServed(); err != nil {
			return nil, nil, err
		}
	}
	if o.BudgetUSD > 0 {
		if p.HeldOut, err = f.holdOut(complete, list, groups); err != nil {
			return nil, nil, err
		}
	}
	aside.Wait()
	p.Calibration = calibration
	if isAssumed {
		p.Estimator.Judges = nil // no rates were learned: routers use the policy's, as this fit did
	}
	return p, askedModels(strategy, complete, held), nil
}

// check fills in defaults and validates the options.
func (o *Options) check(ctx context.Context, t *outcome.Table) error {
	o.Strategy, o.Folds = cmp.Or(o.Strategy, cascade.NameIndex), cmp.Or(o.Folds, 5)
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	o.Params.Lambdas, o.Params.Thresholds, o.Params.Gamma = nil, nil, 0
	o.Params.Scale, o.Params.NoExpect = 0, false
	if math.IsNaN(o.BudgetUSD) || math.IsInf(o.BudgetUSD, 0) || o.BudgetUSD < 0 {
		return fmt.Errorf("a budget of %v USD", o.BudgetUSD)
	}
	if n := len(t.Models); n > replay.MaxModels {
		return fmt.Errorf("%d models: a fit takes at most %d", n, replay.MaxModels)
	}
	if err := o.checkPromises(t); err != nil {
		return err
	}
	for _, m := range o.Params.Order {
		if m < 0 || m >= len(t.Models) {
			return fmt.Errorf("an order with model %d of %d, counted from 0", m, len(t.Models))
		}
	}
	return ctx.Err()
}

// useVerdicts treats the qualities of a table as fallible verdicts if the options say so, and reports
// whether their error rates are assumed rather than learned.
func (o *Options) useVerdicts(met, t *outcome.Table, data *Data) (_ *outcome.Table, isAssumed bool) {
	if len(t.Verdicts) > 0 || !o.VerdictsErr {
		return t, false
	}
	if t.Verified {
		data.Truths, data.Inferred = countTruths(met)
	}
	t, learned := readVerdicts(met, t, &o.Estimate)
	if !learned {
		data.Assumed = o.Estimate.Judges
	}
	return t, !learned
}

// checkJudges rejects error rates that a router would reject.
func checkJudges(e *estimate.Estimator) error {
	for _, judge := range slices.Sorted(maps.Keys(e.Judges)) {
		if err := e.Judges[judge].Validate(); err != nil {
			return fmt.Errorf("judge %q: %w; leave its verdicts out of the outcomes, or have another judge", judge, err)
		}
	}
	return nil
}

func checkOutcomes(t, complete *outcome.Table) error {
	if t.CostUSD == nil {
		return fmt.Errorf("%w: none has a cost in US dollars (cost_usd)", ErrTooFew)
	}
	for m, cost := range t.MeanCosts() {
		if math.IsNaN(cost) {
			return fmt.Errorf("%w: no outcome of model %q has a cost in US dollars (cost_usd)", ErrTooFew, t.Models[m])
		}
	}
	if n := len(complete.Queries); n < minQueries {
		return fmt.Errorf("%w: %d queries have outcomes of all %d models, of %d in all; %d are needed", ErrTooFew, n, len(t.Models), len(t.Queries), minQueries)
	}
	return nil
}

// meet chooses the operating point that meets the floor or, without one, the budget.
func (f *fitter) meet(complete *outcome.Table, known *estimate.Replay) (err error) {
	if f.options.Floor != nil {
		f.options.Progress("meeting the floor")
		if err := f.meetFloor(f.candidate); err != nil {
			return err
		}
	}
	if f.use, err = f.replayUse(complete, known); err != nil || f.options.Floor != nil {
		return err
	}
	f.options.Progress("meeting the budget")
	return f.meetBudget()
}

// fill returns a table of outcomes recorded in use with the missing ones drawn at random, and the number
// drawn. Other tables are returned unchanged.
func (o *Options) fill(t *outcome.Table) (full *outcome.Table, drawn int, err error) {
	if t.Propensity == nil || t.CostUSD == nil {
		return t, 0, nil
	}
	if !t.Verified {
		if full, err = fairSample(t); err == nil && len(full.Queries) < len(t.Queries) {
			o.Progress(fmt.Sprintf("%d of %d queries are used, on which every model was asked whatever was believed of it", len(full.Queries), len(t.Queries)))
		}
		return full, 0, err
	}
	if n := len(t.Queries); n < minQueries {
		return nil, 0, fmt.Errorf("%w: %d queries; %d are needed", ErrTooFew, n, minQueries)
	}
	o.Progress("drawing the outcomes of models that were not asked")
	options := o.Estimate
	options.Seed = o.Seed
	if full, drawn, err = fillTable(t, options, o.Seed); err != nil {
		return nil, 0, err
	}
	if drawn > 0 && (o.Floor != nil || o.MaxWrong > 0) {
		return nil, 0, fmt.Errorf("%w: %d of %d were drawn; fit the promise to outcomes of every model on every query (stepfall collect)", errDrawn, drawn, len(full.Queries)*len(full.Models))
	}
	return full, drawn, nil
}

func (o *Options) checkPromises(t *outcome.Table) error {
	if o.Confidence == 0 {
		o.Confidence = 0.95
	}
	switch {
	case !(o.Confidence > 0 && o.Confidence < 1):
		return fmt.Errorf("a confidence of %v: want a number between 0 and 1", o.Confidence)
	case !(o.MaxWrong >= 0 && o.MaxWrong < 1):
		return fmt.Errorf("a share of %v wrong answers: want a number from 0 to 1", o.MaxWrong)
	case o.Floor == nil:
		return nil
	case o.BudgetUSD > 0:
		return errors.New("a budget and a floor: give one of them")
	}
	return o.Floor.validate(t)
}

// candidatesFor returns the models of the profile in the table's order.
func candidatesFor(t *outcome.Table, models []sdk.Model) ([]Model, error) {
	out := make([]Model, len(t.Models))
	for i, name := range t.Models {
		out[i].Name = name
	}
	if models == nil {
		return out, nil
	}
	if len(models) != len(out) {
		return nil, fmt.Errorf("%d models for a table of %d", len(models), len(out))
	}
	for _, m := range models {
		i := t.Index(m.Name)
		if i < 0 {
			return nil, fmt.Errorf("no outcomes of model %q; the table has %q", m.Name, t.Models)
		}
		price := m.Price
		out[i].Price = &price
	}
	return out, nil
}
