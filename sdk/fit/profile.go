package fit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/regular"
)

// version is the version of the profile's format that this package writes and reads.
const version = 1

// Profile is the result of a fit: a strategy with its numbers, the estimators, a description of the data,
// and the expected results. It is read only.
type Profile struct {
	Version int     `json:"version"`
	Data    Data    `json:"data"`
	Models  []Model `json:"models"`
	// OnlyJudge names models of the policy that judge and answer nothing: with this profile they are
	// no candidates.
	OnlyJudge []string        `json:"only_judge,omitempty"`
	Strategy  cascade.Setting `json:"strategy"`
	Budget    Budget          `json:"budget"`
	// Expectation is what the strategy does on the validation rows.
	Expected Expectation `json:"expected"`
	// HeldOut is nil without a budget.
	HeldOut *HeldOut `json:"held_out,omitempty"`
	// Ladder is nil where no judge errs.
	Ladder *Ladder `json:"ladder,omitempty"`
	// FloorPromise is nil without a floor, and Served without a share of wrong answers to hold.
	Kept   *FloorPromise  `json:"kept,omitempty"`
	Served *ServedPromise `json:"served,omitempty"`
	// Calibration is nil where nothing is known of the truth but what verdicts that err tell.
	Calibration *Calibration `json:"calibration,omitempty"`
	// Offset is how far estimates were off on the strategy's own steps; see [Assess].
	Usual     []Offset            `json:"usual,omitempty"`
	Curve     []Point             `json:"curve"`
	Estimator *estimate.Estimator `json:"estimator"`
}

// Data says what the profile was fitted to.
type Data struct {
	SHA256  string `json:"sha256"`
	Queries int    `json:"queries"`
	// Complete is how many queries have outcomes of all models.
	Complete int    `json:"complete"`
	Verified bool   `json:"verified,omitempty"`
	Folds    int    `json:"folds"`
	Seed     uint64 `json:"seed"`
	// Groups are those of the queries; empty where none are known.
	Groups []string `json:"groups,omitempty"`
	// Drawn is how many outcomes of models that were not asked were drawn from what was
	// believed of them, corrected by the propensities of those that were.
	Drawn int `json:"drawn,omitempty"`
	// Labels says what the qualities are that were fitted to, where they are neither the
	// truth nor verdicts; see [outcome.Table].
	Labels string `json:"labels,omitempty"`
	// Assumed is how often judges were taken to err of whose errors the outcomes show nothing.
	Assumed map[string]cascade.Rates `json:"assumed_rates,omitempty"`
	// Inferred is how many qualities are what verdicts that err tell of the truth, and Truths of how
	// many answers beside them it came to be known later.
	Inferred int `json:"inferred,omitempty"`
	Truths   int `json:"truths,omitempty"`
}

// Model is a candidate of the profile; Price is nil when it was not known.
type Model struct {
	Name  string     `json:"name"`
	Price *sdk.Price `json:"price,omitempty"`
	// Right is how often its answers are right as the agreement of all models tells, where
	// nothing else does ([estimate.Consensus]): a report, within some 7 points, that no
	// operating point is chosen by.
	Right float64 `json:"right,omitempty"`
}

// Expectation is a mean cost, quality and number of models run.
type Expectation struct {
	CostUSD float64 `json:"cost_usd"`
	Quality float64 `json:"quality"`
	Steps   float64 `json:"steps"`
}

// Errors to branch on with errors.Is.
var (
	// errVersion: the profile's format is not one that this package reads.
	errVersion = errors.New("unknown profile version")
	// ErrModels: the profile was fitted for other models.
	ErrModels = errors.New("profile fitted for other models")
	// errPrices: the profile was fitted at other prices.
	errPrices = errors.New("profile fitted at other prices")
)

// Load reads a profile for the given models, which must be those that it was fitted
// for, in any order, at the same prices, beside those that only judge. With models nil it is not checked.
func Load(path string, models []sdk.Model) (*Profile, error) {
	data, err := readProfile(path)
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
	return &p, nil
}

// maxProfile is the largest profile that is read: a hundred times what 80 models need.
const maxProfile = 64 << 20

// readProfile reads a regular file of at most maxProfile bytes.
func readProfile(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxProfile+1))
	if err == nil && len(data) > maxProfile {
		err = fmt.Errorf("%s is larger than %d MiB", path, maxProfile>>20)
	}
	return data, err
}

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

// check reports all differences between the given models and those that the profile
// was fitted for. A price that the profile does not know is not compared.
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

func priceText(p sdk.Price) string {
	return fmt.Sprintf("%v in, %v out USD per million tokens", p.Input, p.Output)
}

// NewStrategy returns the fitted strategy over models indexed as in the given names.
func (p *Profile) NewStrategy(models []string) (cascade.Strategy, error) {
	s, err := p.Strategy.Strategy(models)
	if errors.Is(err, cascade.ErrUnknownModel) {
		err = fmt.Errorf("%w: %w", ErrModels, err)
	}
	return s, err
}

// Save writes the profile to a file, whole or not at all.
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
