package view

import (
	"fmt"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
)

// saving is what steps cost beside what one model would have cost, asked always.
//
// Where the baseline ran, its cost is known. Where it did not, it is what the first
// decision expected of it, times the ratio of real to expected cost where it did run.
// The interval covers two standard errors of that: of the ratio, and of the single
// costs around it.
type saving struct {
	Baseline string
	// Steps could have been asked of the baseline, and Ran were.
	Steps, Ran int
	SpentUSD   float64
	WouldUSD   float64
	// ErrorUSD is two standard errors of WouldUSD; NaN where too few steps tell.
	ErrorUSD float64
	// Expected is the mean quality that the first decisions believed of the baseline.
	Expected float64
	Ratio    float64
	// PerStep are the costs step by step: spent, and the baseline's.
	PerStep [][2]float64
}

// Saved says in one sentence what the steps cost, what always asking the baseline would
// have cost on the same steps, the difference with its interval, and how much of that is
// measured. An empty baseline is the dearest model that the traces know; the sentence is
// empty where they know fewer than two.
func Saved(traces []*sdk.Trace, baseline string) string {
	names := candidates(traces)
	if len(names) < 2 {
		return ""
	}
	if baseline == "" {
		baseline = names[len(names)-1]
	}
	s := against(traces, baseline)
	if s.Steps == 0 {
		return fmt.Sprintf("no step could have been asked of %s", baseline)
	}
	word, by, share := "saved", s.SavedUSD(), 100*s.Share()
	if by < 0 {
		word, by, share = "spent more", -by, -share
	}
	interval := "no interval: too few steps asked it"
	if !math.IsNaN(s.ErrorUSD) {
		interval = fmt.Sprintf("± %.6f", s.ErrorUSD)
	}
	return fmt.Sprintf("spent %.6f USD; always asking %s would have cost %.6f on the same %d steps: %s %.6f (%.0f %%, %s). "+
		"Its cost is measured on %d of them and counted from tokens on %d.",
		s.SpentUSD, baseline, s.WouldUSD, s.Steps, word, by, share, interval, s.Ran, s.Steps-s.Ran)
}

func (s *saving) SavedUSD() float64 { return s.WouldUSD - s.SpentUSD }

func (s *saving) Share() float64 {
	if s.WouldUSD == 0 {
		return 0
	}
	return s.SavedUSD() / s.WouldUSD
}

func (s *saving) ShareError() float64 {
	if s.WouldUSD == 0 {
		return 0
	}
	return s.ErrorUSD * s.SpentUSD / (s.WouldUSD * s.WouldUSD)
}

// enoughRan is how many steps must have asked the baseline before its expected costs
// are set right by its real ones.
const enoughRan = 5

// against compares the traces with a baseline.
func against(traces []*sdk.Trace, baseline string) *saving {
	s := &saving{Baseline: baseline, Ratio: 1, ErrorUSD: math.NaN()}
	type pair struct{ expected, real, spent float64 }
	var pairs []pair
	var sumE, sumA, sumEE, sumEA, sumAA float64
	for _, t := range traces {
		if len(t.Decisions) == 0 {
			continue
		}
		models := t.Decisions[0].Models
		i := slices.IndexFunc(models, func(b sdk.Belief) bool { return b.Model == baseline })
		if i < 0 {
			continue
		}
		p := pair{expected: models[i].CostUSD, real: math.NaN(), spent: t.CostUSD}
		cost, answered := 0.0, false
		for k := range t.Calls {
			if c := &t.Calls[k]; c.Model == baseline {
				cost += c.CostUSD
				answered = answered || c.Error == ""
			}
		}
		if answered {
			p.real = cost
			s.Ran++
			sumE, sumA = sumE+p.expected, sumA+cost
			sumEE, sumEA, sumAA = sumEE+p.expected*p.expected, sumEA+p.expected*cost, sumAA+cost*cost
		}
		s.Steps++
		s.SpentUSD += t.CostUSD
		s.Expected += models[i].Quality.Mean
		pairs = append(pairs, p)
	}
	if s.Steps > 0 {
		s.Expected /= float64(s.Steps)
	}
	if s.Ran >= enoughRan && sumE > 0 {
		s.Ratio = sumA / sumE
	}
	unseen, unseenSquares := 0.0, 0.0
	for _, p := range pairs {
		would := p.real
		if math.IsNaN(would) {
			would = s.Ratio * p.expected
			unseen += p.expected
			unseenSquares += p.expected * p.expected
		}
		s.WouldUSD += would
		s.PerStep = append(s.PerStep, [2]float64{p.spent, would})
	}
	if s.Ran >= enoughRan && sumE > 0 {
		r := s.Ratio
		// The deviation of a real cost around ratio times expected, per expected dollar.
		residual := max(0, sumAA-2*r*sumEA+r*r*sumEE) * float64(s.Ran) / float64(s.Ran-1)
		ratioVar := residual / (sumE * sumE)
		singles := 0.0
		if sumEE > 0 {
			singles = residual / sumEE * unseenSquares
		}
		s.ErrorUSD = 2 * math.Sqrt(ratioVar*unseen*unseen+singles)
	}
	return s
}

// candidates returns the models that the traces believe something of, the cheapest
// first by expected cost.
func candidates(traces []*sdk.Trace) []string {
	cost, n := map[string]float64{}, map[string]float64{}
	for _, t := range traces {
		if len(t.Decisions) == 0 {
			continue
		}
		for _, b := range t.Decisions[0].Models {
			cost[b.Model] += b.CostUSD
			n[b.Model]++
		}
	}
	var names []string
	for name := range cost {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		switch x, y := cost[a]/n[a], cost[b]/n[b]; {
		case x < y:
			return -1
		case x > y:
			return 1
		case a < b:
			return -1
		}
		return 1
	})
	return names
}
