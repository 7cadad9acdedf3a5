package estimate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Kinds of quality estimators.
const (
	// KindMean is the mean quality in the query's group.
	KindMean = "mean"
	// KindSignal maps each model's own ex-ante or post-hoc signal to its quality
	// by a straight line, independently of other models: the paper's estimator on
	// RouterBench.
	KindSignal = "signal"
	// KindGaussian models all qualities and signals as one normal vector.
	KindGaussian = "gaussian"
	// KindLatent models one hidden ease of the query that all models share. It suits
	// verified answers and signals.
	KindLatent = "latent"
	// KindLinear and KindLogistic are ridge regressions on features of the query and
	// of the answers, one for each model and set of models that have run: the
	// paper's estimators on real features.
	KindLinear   = "linear"
	KindLogistic = "logistic"
)

// Kinds of cost estimators.
const (
	// KindCostMean is the mean cost.
	KindCostMean = "mean"
	// KindCostLatent is the mean by group and length of the prompt, updated through one
	// shared factor by the costs and verdicts of the models that have run.
	KindCostLatent = "latent"
)

// Kinds returns the kinds of quality estimators.
func Kinds() []string {
	return []string{KindMean, KindSignal, KindLinear, KindLogistic, KindGaussian, KindLatent}
}

// Options say what to fit. The zero value chooses the kinds by the table.
type Options struct {
	// Quality and Cost are kinds; "" is chosen by [Options.Resolve].
	Quality, Cost string
	// Features are the features that KindLinear and KindLogistic use, of group, length, text,
	// signal, verdict, tokens, log_probs, classes and agreement; nil means all that the table has.
	Features []string
	// Judges are known error rates, by the judge's name. Others are learned.
	Judges map[string]cascade.Rates
	// JudgeOrder is the order in which judges are asked; none is asked after another has rejected
	// the answer. Judges that are not listed come last, by name.
	JudgeOrder []string
	// Seed determines the folds. The same seed on the same table gives the same fit.
	Seed uint64
}

// errNoOutcomes is wrapped by Fit's error if a model has no outcome at all.
var errNoOutcomes = errors.New("no outcomes to fit to")

// Fit fits estimators to a table.
func Fit(t *outcome.Table, o Options) (*Estimator, error) {
	if err := t.ValidateShape(); err != nil {
		return nil, err
	}
	t = withKeys(t)
	e, err := fit(t, o.Resolve(t))
	if err != nil {
		return nil, err
	}
	return e, e.ownGain(t)
}

// fit is Fit without fitting the scale of the deviations.
func fit(t *outcome.Table, o Options) (*Estimator, error) {
	for m, mean := range t.MeanQualities() {
		if math.IsNaN(mean) {
			return nil, fmt.Errorf("fitting an estimator of model %q: quality: %w", t.Models[m], errNoOutcomes)
		}
	}
	for m, mean := range t.MeanCosts() {
		if math.IsNaN(mean) {
			return nil, fmt.Errorf("fitting an estimator of model %q: cost: %w", t.Models[m], errNoOutcomes)
		}
	}
	quality, err := newQuality(o.Quality)
	if err != nil {
		return nil, err
	}
	if err := quality.fit(t, o); err != nil {
		return nil, err
	}
	cost, err := newCost(cmp.Or(o.Cost, KindCostLatent))
	if err != nil {
		return nil, err
	}
	cost.fit(t)
	e := &Estimator{Models: t.Models, Quality: quality, Cost: cost, Judges: fitJudges(t, o.Judges), JudgeOrder: o.JudgeOrder}
	// Final verdicts are requested for every answer, those of a fallible judge only if they are worth it.
	if judges := t.Judges(); len(judges) == 1 && o.Quality == KindLatent && e.Judges[judges[0]] != (cascade.Rates{}) {
		usd := (&outcome.Table{Models: t.Models, CostUSD: t.VerdictCosts(judges...)}).MeanCosts()
		if slices.ContainsFunc(usd, func(usd float64) bool { return usd > 0 }) {
			e.VerdictsUSD = map[string][]float64{judges[0]: usd}
		}
	}
	return e, nil
}

// newQuality returns an empty quality estimator of a kind, to fit or to unmarshal into.
func newQuality(kind string) (Quality, error) {
	switch kind {
	case KindMean:
		return &mean{}, nil
	case KindSignal:
		return &signal{}, nil
	case KindGaussian:
		return &gaussian{}, nil
	case KindLatent:
		return &latent{}, nil
	case KindLinear, KindLogistic:
		return &regression{}, nil
	}
	return nil, fmt.Errorf("unknown quality estimator %q", kind)
}

func newCost(kind string) (Cost, error) {
	switch kind {
	case KindCostMean:
		return &costMean{}, nil
	case KindCostLatent:
		return &costFactor{}, nil
	}
	return nil, fmt.Errorf("unknown cost estimator %q", kind)
}

type file struct {
	Models  []string                 `json:"models"`
	Quality json.RawMessage          `json:"quality"`
	Cost    json.RawMessage          `json:"cost"`
	Judges  map[string]cascade.Rates `json:"judges,omitempty"`
	Order   []string                 `json:"judge_order,omitempty"`
	USD     map[string][]float64     `json:"verdicts_usd,omitempty"`
}

type kindOption struct {
	Kind   string          `json:"kind"`
	Params json.RawMessage `json:"params"`
}

// MarshalJSON implements [json.Marshaler]. The result of UnmarshalJSON gives the same estimates as e.
func (e *Estimator) MarshalJSON() ([]byte, error) {
	quality, err := marshalKind(e.Quality.Kind(), e.Quality)
	if err != nil {
		return nil, err
	}
	cost, err := marshalKind(e.Cost.Kind(), e.Cost)
	if err != nil {
		return nil, err
	}
	return json.Marshal(file{e.Models, quality, cost, e.Judges, e.JudgeOrder, e.VerdictsUSD})
}

func marshalKind(kind string, params any) (json.RawMessage, error) {
	body, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("writing estimator %s: %w", kind, err)
	}
	return json.Marshal(kindOption{kind, body})
}

// checker validates the parameters of an estimator, as read from a profile, for a number of models.
type checker interface{ check(models int) error }

// UnmarshalJSON implements [json.Unmarshaler].
func (e *Estimator) UnmarshalJSON(data []byte) error {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("reading an estimator: %w", err)
	}
	if len(f.Models) == 0 {
		return errors.New("reading an estimator: no models")
	}
	quality, err := unmarshalKind(f.Quality, "quality", newQuality, len(f.Models))
	if err != nil {
		return err
	}
	cost, err := unmarshalKind(f.Cost, "cost", newCost, len(f.Models))
	if err != nil {
		return err
	}
	for name, rates := range f.Judges {
		if err := rates.Validate(); err != nil {
			return fmt.Errorf("reading judge %q: %w", name, err)
		}
	}
	for name, usd := range f.USD {
		if _, isLooker := quality.(*latent); !isLooker || len(usd) != len(f.Models) || slices.ContainsFunc(usd, func(usd float64) bool { return !(usd >= 0) }) {
			return fmt.Errorf("reading what verdicts of judge %q cost: %v for %d models", name, usd, len(f.Models))
		}
	}
	*e = Estimator{Models: f.Models, Quality: quality, Cost: cost, Judges: f.Judges, JudgeOrder: f.Order, VerdictsUSD: f.USD}
	return nil
}

// unmarshalKind reads an estimator of the kind named in data.
func unmarshalKind[T checker](data []byte, what string, newOf func(kind string) (T, error), models int) (into T, err error) {
	var k kindOption
	if err := json.Unmarshal(data, &k); err != nil {
		return into, fmt.Errorf("reading a %s estimator: %w", what, err)
	}
	if into, err = newOf(k.Kind); err != nil {
		return into, err
	}
	if err = json.Unmarshal(k.Params, into); err == nil {
		err = into.check(models)
	}
	if err != nil {
		return into, fmt.Errorf("reading estimator %s: %w", k.Kind, err)
	}
	return into, nil
}
