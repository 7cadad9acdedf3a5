package policies

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Pair is two cheap models of different makers, called before a large one: if the answers of the two agree,
// the step ends, otherwise the large model is called.
type Pair struct {
	Cheap [2]*Model
	Large *Model
	// Cost is the expected cost of the cascade, as a share of the cost of always calling the large model.
	Cost float64
}

const (
	// agreeShare is the share of 1,700 recorded function calls (BFCL) on which two cheap models of different
	// makers agree. They are then right as often as the large one.
	agreeShare = 0.73
	// DoubtUpTo is the doubt_up_to of an agent's first policy: agreement is doubted up to this share of the
	// large model's cost, so that with the policy's holdout 40 % are saved. On sixty simulated agents it
	// reduced the loss of success from 2.8 points to 1.1.
	DoubtUpTo = 0.55
	// holdoutShare is the share of runs that an agent's first policy leaves to the large model alone.
	holdoutShare = 0.05
	// leastSaving is the minimum expected saving, as a share, for which a cascade is proposed.
	leastSaving = 0.25
)

// ErrNoPair means that there is no [Pair], because there are not two cheap models of different makers.
var ErrNoPair = errors.New("a pair requires two cheap models of different makers and a large one")

// CheapPair returns the two cheap models of different makers whose cascade before the most expensive
// model has the lowest expected cost, or an error with the reason why there is none. Models without tools are
// left out, and so are free models, whose prices do not show how much cheaper than the large one they are.
func (p *Policy) CheapPair() (*Pair, error) {
	list := p.toolModels()
	if len(list) == 0 {
		return nil, ErrNoPair
	}
	dearest := len(list) - 1
	best := Pair{Large: list[dearest], Cost: math.Inf(1)}
	for i, a := range list[:dearest] {
		for _, b := range list[i+1 : dearest] {
			if p.maker(a) == p.maker(b) {
				continue
			}
			if cost := pairCost((stepPrice(a) + stepPrice(b)) / stepPrice(best.Large)); cost < best.Cost {
				best.Cheap, best.Cost = [2]*Model{a, b}, cost
			}
		}
	}
	switch {
	case best.Cheap[0] == nil:
		return nil, ErrNoPair
	case best.Cost > 1-leastSaving:
		return nil, fmt.Errorf("%s and %s are not cheap enough next to %s: %.0f %% of its cost is expected; use a cheaper model of each maker",
			best.Cheap[0].Served, best.Cheap[1].Served, best.Large.Served, 100*best.Cost)
	}
	return &best, nil
}

// toolModels returns the models that can call tools and have a price, the cheapest first.
func (p *Policy) toolModels() (list []*Model) {
	for i := range p.Models {
		if m := &p.Models[i]; slices.Contains(m.Capabilities, "tools") && stepPrice(m) > 0 {
			list = append(list, m)
		}
	}
	slices.SortStableFunc(list, func(a, b *Model) int { return cmp.Compare(stepPrice(a), stepPrice(b)) })
	return list
}

// Expectation describes how much the pair is expected to save, and the basis of that figure.
func (pair *Pair) Expectation() string {
	return fmt.Sprintf("up to %.0f %% saved compared with %s alone, less if most of the prompts are read from caches. This is based on prices and on 1,700 recorded function calls where such models agreed on %.0f %% "+
		"and were then right as often as the large one; further savings are spent on hard runs and on tools on which they differ", 100*(1-holdoutShare)*(1-pair.Cost), pair.Large.Served, 100*agreeShare)
}

// Blocks returns the blocks of an agent's first policy other than its models, in HCL.
func (pair *Pair) Blocks() string {
	return fmt.Sprintf(`# Whether the answers of the two cheap models agree: tool calls are compared by their arguments.
# Both are asked at once; if they agree, the step ends, else the large model is asked. It is also
# asked if they agree on a call of a tool on which they differ more than one time in ten, as long
# as the total costs at most doubt_up_to of always asking it, and its answer is then used.
estimator "agreement" {
  plugin      = "agreement"
  doubt_up_to = %[4]v
}
strategy "threshold" {
  order     = [%[1]q, %[2]q, %[3]q]
  threshold = 0.9
  answer    = "last"
  parallel  = true
}

# After a step whose answers differed, or after two tool errors or repeated calls, a run is hard:
# the large model does the rest of it, within doubt_up_to. A cheap model replaces it while it is
# unavailable.
match "hard" {
  when {
    setbacks = 1
  }
  strategy "threshold" {
    order     = [%[3]q, %[2]q, %[1]q]
    threshold = 0
  }
}

# One run in twenty asks the large model alone, so that savings are measured: name runs in
# middleware.Info.Run, and report their outcomes with Router.Report.
baseline = %[3]q
holdout {
  share = %[5]v
}

`, pair.Cheap[0].Name, pair.Cheap[1].Name, pair.Large.Name, DoubtUpTo, holdoutShare)
}

// Dearest returns the name of the model whose steps are the most expensive.
func (p *Policy) Dearest() string {
	return slices.MaxFunc(p.Models, func(a, b Model) int { return cmp.Compare(stepPrice(&a), stepPrice(&b)) }).Name
}

// stepPrice orders models by the cost of a step. It assumes a prompt five times as long as a call of default
// length; the call's length is the expected length that the policy states.
func stepPrice(m *Model) float64 {
	const usual = 500.0 // the default of expected_output_tokens
	return 5*m.Price.Input + m.Price.Output*cmp.Or(float64(m.ExpectedOutputTokens), usual)/usual
}

// maker identifies the maker of a model by its provider and address, or, for the provider go, by the model's
// provider in the catalogue.
func (p *Policy) maker(m *Model) string {
	if facts := p.facts(m); m.Provider == "go" && facts != nil {
		who, _, _ := strings.Cut(facts.Name, "/")
		return who
	}
	return m.Provider + " " + m.BaseURL
}

// pairCost returns the expected cost of the cascade of a pair, with all costs as shares of the large model's:
// both cheap models plus, where they differ, the large one, or what doubt_up_to allows if that is more.
func pairCost(pair float64) float64 { return max(pair+1-agreeShare, DoubtUpTo) }
