package cascade

import (
	"errors"
	"fmt"
	"slices"
)

// Setting is a strategy with its parameters, and models by name, as in policies, profiles and traces. The
// fields are those of [Params].
type Setting struct {
	// Name is one of [Names].
	Name       string    `json:"name,omitempty"`
	Lambdas    []float64 `json:"lambdas,omitempty"`
	Thresholds []float64 `json:"thresholds,omitempty"`
	Gamma      float64   `json:"gamma,omitempty"`
	MaxDepth   int       `json:"max_depth,omitempty"`
	// Scale is 1 if omitted; NoExpect stands for 0.
	Scale    float64 `json:"scale,omitempty"`
	NoExpect bool    `json:"no_expect,omitempty"`
	// Order names the models of a fixed order.
	Order []string `json:"order,omitempty"`
	// LastAnswer returns the last answer instead of the best.
	LastAnswer bool `json:"last_answer,omitempty"`
	// NodeLimit is not recorded in traces.
	NodeLimit int `json:"node_limit,omitempty"`
}

// ErrUnknownModel is wrapped by errors of [Setting.Params] if the order lists an unknown model.
var ErrUnknownModel = errors.New("unknown model")

// SettingOf returns the setting of a strategy whose models have the given names. Indexes beyond them are
// left out.
func SettingOf(d Description, models []string) Setting {
	s := Setting{
		Name: d.Name, Lambdas: d.Lambdas, Thresholds: d.Thresholds, Gamma: d.Gamma, MaxDepth: d.MaxDepth,
		Scale: d.Scale, NoExpect: d.NoExpect, LastAnswer: d.Answer == Last,
	}
	for _, i := range d.Order {
		if i < len(models) {
			s.Order = append(s.Order, models[i])
		}
	}
	return s
}

// Params returns the parameters, with models by their index in the given names.
func (s *Setting) Params(models []string) (Params, error) {
	p := Params{
		Lambdas: s.Lambdas, Thresholds: s.Thresholds, Gamma: s.Gamma, MaxDepth: s.MaxDepth,
		Scale: s.Scale, NoExpect: s.NoExpect, NodeLimit: s.NodeLimit,
	}
	if s.LastAnswer {
		p.Answer = Last
	}
	for _, name := range s.Order {
		i := slices.Index(models, name)
		if i < 0 {
			return p, fmt.Errorf("%w %q in the order of strategy %s", ErrUnknownModel, name, s.Name)
		}
		p.Order = append(p.Order, i)
	}
	return p, nil
}

// Strategy returns the strategy, with models by their index in the given names.
func (s *Setting) Strategy(models []string) (Strategy, error) {
	p, err := s.Params(models)
	if err != nil {
		return nil, err
	}
	return New(s.Name, p)
}

// At returns the setting at another operating point: a threshold, or for any other strategy a lambda
// for all depths. Ties go to the cheapest.
func (s Setting) At(value float64) Setting {
	s.Lambdas, s.Thresholds, s.Gamma = []float64{value}, nil, 1
	if s.Name == NameThreshold {
		s.Lambdas, s.Thresholds = nil, s.Lambdas
	}
	return s
}
