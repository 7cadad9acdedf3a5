package eval

import (
	"encoding/json"
	"io"
	"math"
)

// Document is the machine-readable form of a comparison. Qualities and AUC are in
// [0, 1], costs in US dollars per query; undefined values are null.
type Document struct {
	Units map[string]string `json:"units"`
	Setup map[string]string `json:"setup,omitempty"`

	Queries    int             `json:"queries"`
	Bootstrap  int             `json:"bootstrap"`
	Seed       uint64          `json:"seed"`
	Reference  string          `json:"reference"`
	Models     []documentModel `json:"models"`
	BestSingle string          `json:"best_single"`
	// PickedSingle is the best single model of the train half.
	PickedSingle string             `json:"picked_single,omitempty"`
	Strategies   []documentStrategy `json:"strategies"`
}

type documentModel struct {
	Name    string  `json:"name"`
	Cost    float64 `json:"cost"`
	Quality float64 `json:"quality"`
}

type documentStrategy struct {
	Name    string   `json:"name"`
	Note    string   `json:"note,omitempty"`
	AUC     *float64 `json:"auc"`
	AUCLow  *float64 `json:"auc_low"`
	AUCHigh *float64 `json:"auc_high"`
	// Difference is the AUC minus that of the reference.
	Difference     *float64 `json:"difference"`
	DifferenceLow  *float64 `json:"difference_low"`
	DifferenceHigh *float64 `json:"difference_high"`
	Significant    bool     `json:"significant"`

	AIQ   *float64 `json:"aiq"`
	APGR  *float64 `json:"apgr"`
	CPT50 *float64 `json:"cpt_50"`
	CPT80 *float64 `json:"cpt_80"`

	CostAtBest            *float64 `json:"cost_at_best_single"`
	CostAtPicked          *float64 `json:"cost_at_picked_single"`
	CostAtBestLow         *float64 `json:"cost_at_best_single_low"`
	CostAtBestHigh        *float64 `json:"cost_at_best_single_high"`
	ReachedBest           *float64 `json:"share_of_resamples_reaching_best_single"`
	QualityAtBestCost     *float64 `json:"quality_at_best_single_cost"`
	QualityAtBestCostLow  *float64 `json:"quality_at_best_single_cost_low"`
	QualityAtBestCostHigh *float64 `json:"quality_at_best_single_cost_high"`
	CostPerSuccess        *float64 `json:"usd_per_success"`
	Steps                 *float64 `json:"mean_steps"`
	DecisionMicroseconds  *float64 `json:"decision_us"`

	Points Curve `json:"points"`
}

// optional returns nil for NaN and infinities, which JSON cannot represent.
func optional(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// Document returns the machine-readable form.
func (c *Comparison) Document() *Document {
	d := &Document{
		Units:   map[string]string{"quality": "[0, 1]", "auc": "[0, 1]", "cost": "US dollars per query"},
		Queries: c.Queries, Bootstrap: c.Resamples, Seed: c.Seed, Reference: c.Reference,
		BestSingle: c.Models[c.Frame.Best], Setup: c.Setup,
	}
	if c.Picked >= 0 {
		d.PickedSingle = c.Models[c.Picked]
	}
	for i, p := range c.Frame.Models {
		d.Models = append(d.Models, documentModel{c.Models[i], p.Cost, p.Quality})
	}
	for _, r := range c.Rows {
		s := documentStrategy{
			Name: r.Name, Note: r.Note,
			AUC: optional(r.AUC), AUCLow: optional(r.AUCInterval.Low), AUCHigh: optional(r.AUCInterval.High),
			Difference: optional(r.Difference.Value), DifferenceLow: optional(r.Difference.Low),
			DifferenceHigh: optional(r.Difference.High), Significant: r.Difference.isSignificant(),
			AIQ: optional(r.AIQ), APGR: optional(r.APGR), CPT50: optional(r.CPT50), CPT80: optional(r.CPT80),
			CostAtBest: optional(r.CostAtBest), CostAtPicked: optional(r.CostAtPicked), CostAtBestLow: optional(r.CostAtBestInterval.Low),
			CostAtBestHigh: optional(r.CostAtBestInterval.High), QualityAtBestCost: optional(r.QualityAtBestCost),
			QualityAtBestCostLow:  optional(r.QualityAtBestCostInterval.Low),
			QualityAtBestCostHigh: optional(r.QualityAtBestCostInterval.High),
			CostPerSuccess:        optional(r.CostPerSuccess), Steps: optional(r.Steps),
			Points: r.Curve,
		}
		if c.Resamples > 0 {
			s.ReachedBest = optional(r.Reached)
		}
		if r.Decisions > 0 {
			s.DecisionMicroseconds = optional(float64(r.DecisionTime.Nanoseconds()) / 1e3)
		}
		d.Strategies = append(d.Strategies, s)
	}
	return d
}

// Write writes the document as indented JSON.
func (d *Document) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(d)
}
