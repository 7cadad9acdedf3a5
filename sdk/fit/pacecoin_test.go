package fit

import (
	"math"
	"testing"
)

// A budget between two operating points is met by mixing them in proportion; over- and
// underspending shift the target as the formula says.
func TestThePacersCoin(t *testing.T) {
	for what, c := range map[string]struct {
		budget float64
		spent  []float64 // at the point of 0.08 USD
		want   map[float64]float64
	}{
		"a quarter of the way":  {0.05, nil, map[float64]float64{0.04: 0.75, 0.08: 0.25}},
		"three quarters":        {0.07, nil, map[float64]float64{0.04: 0.25, 0.08: 0.75}},
		"a tenth, lower":        {0.011, nil, map[float64]float64{0.01: 0.9, 0.02: 0.1}},
		"a point itself":        {0.04, nil, map[float64]float64{0.04: 1}},
		"below all":             {0.001, nil, map[float64]float64{0.01: 1}},
		"above all":             {0.5, nil, map[float64]float64{0.16: 1}},
		"the least":             {0.01, nil, map[float64]float64{0.01: 1}},
		"the most":              {0.16, nil, map[float64]float64{0.16: 1}},
		"ten were dear":         {0.05, repeat(10, 0.08), map[float64]float64{0.04: 0.9, 0.08: 0.1}}, // 0.05 + (0.5 - 0.8) / 50 = 0.044
		"ten were half as dear": {0.05, repeat(10, 0.04), map[float64]float64{0.04: 1 - shareOf(0.052/(2.9/3.3)), 0.08: shareOf(0.052 / (2.9 / 3.3))}},
	} {
		p, err := NewPacer(ladder, c.budget, 50, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, usd := range c.spent {
			for i, point := range p.Points() {
				if point.CostUSD == 0.08 {
					p.Spent("", i, usd)
				}
			}
		}
		const draws = 4000
		got := map[float64]float64{}
		for range draws {
			got[p.Points()[p.Next()].CostUSD] += 1.0 / draws
		}
		for usd, share := range got {
			if math.Abs(share-c.want[usd]) > 0.03 {
				t.Errorf("%s: %v USD in %.3f of the draws, want %.3f", what, usd, share, c.want[usd])
			}
		}
	}
}

func repeat(n int, usd float64) (list []float64) {
	for range n {
		list = append(list, usd)
	}
	return list
}

// shareOf returns how often 0.08 USD must be spent instead of 0.04 for that mean.
func shareOf(mean float64) float64 { return (mean - 0.04) / 0.04 }
