package fit

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/regular"
)

// version is the version of the profile's format that this package writes and reads.
const version = 1

// Profile is the result of a fit: a strategy with its parameters, the estimators, a description of the
// data, and the expected results. It must not be modified.
type Profile struct {
	Version int     `json:"version"`
	Data    Data    `json:"data"`
	Models  []Model `json:"models"`
	// OnlyJudge names models of the policy that only judge: with this profile they are not candidates.
	OnlyJudge []string        `json:"only_judge,omitempty"`
	Strategy  cascade.Setting `json:"strategy"`
	Budget    Budget          `json:"budget"`
	// Expected is the result of the strategy on the validation rows.
	Expected Expectation `json:"expected"`
	// HeldOut is nil without a budget.
	HeldOut *HeldOut `json:"held_out,omitempty"`
	// Ladder is nil without fallible judges.
	Ladder *Ladder `json:"ladder,omitempty"`
	// Kept is nil without a floor, and Served without a promise on wrong answers.
	Kept   *FloorPromise  `json:"kept,omitempty"`
	Served *ServedPromise `json:"served,omitempty"`
	// Calibration is nil if the truth is known only through fallible verdicts.
	Calibration *Calibration `json:"calibration,omitempty"`
	// Usual is the error of estimates on the strategy's own steps; see [Assess].
	Usual     []Offset            `json:"usual,omitempty"`
	Curve     []Point             `json:"curve"`
	Estimator *estimate.Estimator `json:"estimator"`

	file, sum string // of the file that it was loaded from; see ID
}

// ID returns the name of the file that the profile was loaded from and the beginning of its checksum, as traces record
// it, for instance profile.json@0123456789ab.
func (p *Profile) ID() string { return p.file + "@" + p.sum }

// HasDecided reports whether the profile decided a step. A trace of a program that recorded no checksum is told by the
// name of the file, and a profile that was not loaded is taken for the one that decided.
func (p *Profile) HasDecided(t *sdk.Trace) bool {
	if t.Profile == "" || !sdk.HasChoice(t.Mode) {
		return false
	}
	return p.file == "" || t.Profile == p.file || strings.HasSuffix(t.Profile, "@"+p.sum)
}

// usesStrategy reports whether the fitted strategy chose the models of a step, and not a holdout or a match block: other
// strategies ask other models, of which estimates are off in other ways. Pacing and plans change only its numbers.
func (p *Profile) usesStrategy(t *sdk.Trace) bool {
	name := p.Strategy.Name
	if name == cascade.NameCascadeRoute && p.Strategy.NoExpect {
		name = cascade.NameCascadeRouteNoExpect
	}
	return !t.Holdout.UsesBaseline() && (t.Setting.Name == "" || t.Setting.Name == name && slices.Equal(t.Setting.Order, p.Strategy.Order))
}

// Data says what the profile was fitted to.
type Data struct {
	SHA256  string `json:"sha256"`
	Queries int    `json:"queries"`
	// Complete is the number of queries with outcomes of all models.
	Complete int    `json:"complete"`
	Verified bool   `json:"verified,omitempty"`
	Folds    int    `json:"folds"`
	Seed     uint64 `json:"seed"`
	// Groups are the groups of the queries; empty if none are known.
	Groups []string `json:"groups,omitempty"`
	// Drawn is the number of outcomes of models that were not called that were drawn from their
	// estimates, corrected by the propensities of the calls made.
	Drawn int `json:"drawn,omitempty"`
	// Labels says what the fitted qualities are if they are neither the truth nor verdicts; see
	// [outcome.Table].
	Labels string `json:"labels,omitempty"`
	// StepsPerRun is the mean number of steps of a run; 0 if the queries are no steps of runs.
	StepsPerRun float64 `json:"steps_per_run,omitempty"`
	// Assumed holds the error rates assumed for judges whose errors the outcomes do not show.
	Assumed map[string]cascade.Rates `json:"assumed_rates,omitempty"`
	// Inferred is the number of qualities inferred from fallible verdicts, and Truths the number of
	// other answers whose truth became known later.
	Inferred int `json:"inferred,omitempty"`
	Truths   int `json:"truths,omitempty"`
}

// Model is a candidate of the profile; Price is nil if unknown.
type Model struct {
	Name  string     `json:"name"`
	Price *sdk.Price `json:"price,omitempty"`
	// Right is the share of right answers if it is inferred: from fallible verdicts, or from the agreement
	// of all models if the labels are those of a reference model ([estimate.Consensus]). The latter is
	// accurate to some 7 points and only reported: no operating point is chosen by it.
	Right float64 `json:"right,omitempty"`
	// CachedUSD is how much less a call cost on average because part of its prompt was cached.
	CachedUSD float64 `json:"cached_usd,omitempty"`
	// FirstUSD is that of the first call in a run.
	FirstUSD float64 `json:"cached_first_usd,omitempty"`
}

// Expectation is a mean cost, quality and number of models run.
type Expectation struct {
	CostUSD float64 `json:"cost_usd"`
	Quality float64 `json:"quality"`
	Steps   float64 `json:"steps"`
}

// Errors to branch on with errors.Is.
var (
	// errVersion: this package does not read the profile's format.
	errVersion = errors.New("unknown profile version")
	// ErrModels: the profile was fitted for other models.
	ErrModels = errors.New("profile fitted for other models")
	// errPrices: the profile was fitted at other prices.
	errPrices = errors.New("profile fitted at other prices")
)

// Load reads a profile for the given models. Apart from those that only judge, these must be
// the models that it was fitted for, in any order, at the same prices. Nil models are not checked.
func Load(path string, models []sdk.Model) (*Profile, error) {
	data, err := regular.Read(os.OpenFile, path, maxProfile)
	if err != nil {
		return nil, fmt.Errorf("reading profile: %w", err)
	}
	var p Profile
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("reading profile %s: %w", path, err)
	}
	if err := p.validate(); err != nil {
		return nil, fmt.Errorf("reading profile %s: %w", path, err)
	}
	if models != nil {
		if err := p.check(models); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	p.file, p.sum = filepath.Base(path), fmt.Sprintf("%x", sha256.Sum256(data))[:12]
	return &p, nil
}

// maxProfile is the largest profile that is read: a hundred times what 80 models need.
const maxProfile = 64 << 20

func (p *Profile) validate() error {
	if p.Version != version {
		return fmt.Errorf("%w %d; this is version %d", errVersion, p.Version, version)
	}
	if p.Estimator == nil {
		return errors.New("no estimator")
	}
	if !slices.Equal(p.Estimator.Models, p.Names()) {
		return fmt.Errorf("models %q with an estimator of %q", p.Names(), p.Estimator.Models)
	}
	_, err := p.NewStrategy(p.Names())
	return err
}

// Names returns the names of the models.
func (p *Profile) Names() []string {
	names := make([]string, len(p.Models))
	for i, m := range p.Models {
		names[i] = m.Name
	}
	return names
}

// check returns an error that lists all differences between the given models and those
// that the profile was fitted for. Prices missing in the profile are not compared.
func (p *Profile) check(models []sdk.Model) error {
	var faults []error
	for _, m := range models {
		i := slices.Index(p.Names(), m.Name)
		if slices.Contains(p.OnlyJudge, m.Name) {
			continue
		}
		if i < 0 {
			faults = append(faults, fmt.Errorf("%w: not for %q", ErrModels, m.Name))
			continue
		}
		if price := p.Models[i].Price; price != nil && *price != m.Price {
			faults = append(faults, fmt.Errorf("%w: %s was %s, is %s", errPrices, m.Name, priceText(*price), priceText(m.Price)))
		}
	}
	for _, name := range p.Names() {
		if !slices.ContainsFunc(models, func(m sdk.Model) bool { return m.Name == name }) {
			faults = append(faults, fmt.Errorf("%w: %q is gone", ErrModels, name))
		}
	}
	if len(faults) > 0 {
		faults = append(faults, errors.New("fit again: stepfall fit"))
	}
	return errors.Join(faults...)
}

// priceText names every part of a price, since two can differ in a fee alone.
func priceText(p sdk.Price) string {
	text, _ := json.Marshal(p) // numbers only
	return string(text)
}

// NewStrategy returns the fitted strategy, with models by their index in the given names.
func (p *Profile) NewStrategy(models []string) (cascade.Strategy, error) {
	s, err := p.Strategy.Strategy(models)
	if errors.Is(err, cascade.ErrUnknownModel) {
		err = fmt.Errorf("%w: %w", ErrModels, err)
	}
	return s, err
}

// Save writes the profile to a file, atomically.
func (p *Profile) Save(path string) error {
	data, err := p.bytes()
	if err != nil {
		return err
	}
	if err := regular.Replace(path, data, 0o644); err != nil {
		return fmt.Errorf("writing profile: %w", err)
	}
	return nil
}

func (p *Profile) bytes() ([]byte, error) {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing profile: %w", err)
	}
	return append(data, '\n'), nil
}
