package eval

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(t *testing.T, name string, got, want float64) {
	t.Helper()
	if math.IsNaN(want) != math.IsNaN(got) || math.Abs(got-want) > 1e-12 {
		t.Errorf("%s = %v, want %v", name, got, want)
	}
}

// Two models: (1, 0.4) and (5, 0.8), so that areas can be worked out by hand.
func twoModels() Frame { return newFrame([]float64{1, 5}, []float64{0.4, 0.8}) }

func TestAUCByHand(t *testing.T) {
	f := twoModels()
	for _, test := range []struct {
		name  string
		curve Curve
		want  float64
	}{
		{"nothing: lowest quality throughout", nil, 0.4},
		{"the line between the models", Curve{{Cost: 1, Quality: 0.4}, {Cost: 5, Quality: 0.8}}, 0.6},
		// Corner (1, 0.4) to (3, 0.8): 2 * 0.6; then flat: 2 * 0.8; over 4.
		{"one point in the middle", Curve{{Cost: 3, Quality: 0.8}}, (1.2 + 1.6) / 4},
		// Left of the range: interpolated at 1 to 0.6, then 0.6 to 0.8 on [1, 2], then flat.
		{"a point cheaper than any model", Curve{{Cost: 0, Quality: 0.4}, {Cost: 2, Quality: 0.8}}, (0.7 + 3*0.8) / 4},
		// Beyond the range: the line from (3, 0.6) to (7, 1) is 0.8 at 5.
		{"a point dearer than any model", Curve{{Cost: 3, Quality: 0.6}, {Cost: 7, Quality: 1}}, (2*0.5 + 2*0.7) / 4},
		{"all points cheaper", Curve{{Cost: 0.5, Quality: 0.7}}, 0.7},
		// Corner (1, .4) to (6, .9): at 5 it is 0.8.
		{"all points dearer", Curve{{Cost: 6, Quality: 0.9}}, 0.6},
		{"a vertical jump", Curve{{Cost: 1, Quality: 0.4}, {Cost: 3, Quality: 0.4}, {Cost: 3, Quality: 0.9}}, (2*0.4 + 2*0.9) / 4},
		{"a falling curve counts as it is", Curve{{Cost: 1, Quality: 0.8}, {Cost: 5, Quality: 0.6}}, 0.7},
	} {
		near(t, test.name, test.curve.AUC(&f), test.want)
	}
}

func TestMetricsByHand(t *testing.T) {
	f := twoModels()
	// (1, 0.4) (2, 0.7) (3, 0.6) (4, 0.9): the hull leaves (3, 0.6) out.
	m := Curve{
		{Cost: 1, Quality: 0.4, Steps: 1}, {Cost: 2, Quality: 0.7, Steps: 1.5},
		{Cost: 3, Quality: 0.6, Steps: 2}, {Cost: 4, Quality: 0.9, Steps: 3},
	}.Measure(&f)
	near(t, "AUC", m.AUC, (0.55+0.65+0.75+0.9)/4)
	near(t, "AIQ", m.AIQ, (0.55+2*0.8+0.9)/4)
	// Weak is (1, 0.4), strong (5, 0.8), the gap 0.4.
	near(t, "APGR", m.APGR, ((0.55+0.65+0.75+0.9)/4-0.4)/0.4)
	// 0.6 is reached two thirds of the way from (1, .4) to (2, .7): cost 5/3.
	near(t, "CPT50", m.CPT50, (2.0/3)/4)
	// 0.72 is reached on the way from (3, 0.6) to (4, 0.9), at 3.4.
	near(t, "CPT80", m.CPT80, 2.4/4)
	near(t, "CostAtBest", m.CostAtBest, 3+2.0/3)
	near(t, "QualityAtBestCost", m.QualityAtBestCost, 0.9)
	near(t, "CostPerSuccess", m.CostPerSuccess, (3+2.0/3)/0.8)
	near(t, "Steps", m.Steps, 2+2.0/3)
}

func TestMetricsOfAStrategyThatNeverReachesTheBest(t *testing.T) {
	f := twoModels()
	m := Curve{{Cost: 1, Quality: 0.4, Steps: 1}, {Cost: 2, Quality: 0.5, Steps: 2}}.Measure(&f)
	near(t, "CostAtBest", m.CostAtBest, math.NaN())
	near(t, "CPT50", m.CPT50, math.NaN())
	near(t, "CostPerSuccess at the peak", m.CostPerSuccess, 4)
	near(t, "Steps at the peak", m.Steps, 2)
}

func TestFrameOfEqualCosts(t *testing.T) {
	f := newFrame([]float64{2, 2}, []float64{0.5, 0.6})
	if auc := bestSingle(nil, &f).AUC(&f); !math.IsNaN(auc) {
		t.Errorf("AUC over an empty range = %v, want NaN", auc)
	}
}

func TestBestSingleIsTheCheaperOfEquals(t *testing.T) {
	f := newFrame([]float64{3, 1, 2}, []float64{0.7, 0.1, 0.7})
	if f.Best != 2 || f.Cheapest != 1 || f.Dearest != 0 || f.Lowest != 0.1 {
		t.Errorf("frame = %+v", f)
	}
}

// The exact area agrees with a Riemann sum that only uses QualityAt, on curves in
// and around the range.
func TestAUCIsTheMeanOfQualityAt(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	f := newFrame([]float64{1, 2, 4}, []float64{0.3, 0.2, 0.9})
	for range 200 {
		points := make([]Point, 1+rng.IntN(6))
		for i := range points {
			points[i] = Point{Cost: 5 * rng.Float64(), Quality: rng.Float64()}
		}
		c := NewCurve(points)
		const n = 20000
		sum := 0.0
		for i := range n {
			sum += c.QualityAt(1+3*(float64(i)+0.5)/n, &f)
		}
		if got, want := c.AUC(&f), sum/n; math.Abs(got-want) > 1e-3 {
			t.Fatalf("AUC of %v = %v, sum says %v", c, got, want)
		}
	}
}

// A random mixture of two hull points is at least as good as every point.
func TestHullDominatesEveryPoint(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	f := newFrame([]float64{0, 1}, []float64{0, 1})
	for range 300 {
		points := make([]Point, 1+rng.IntN(9))
		for i := range points {
			points[i] = Point{Cost: float64(rng.IntN(6)) / 5, Quality: float64(rng.IntN(6)) / 5}
		}
		h := upperHull(points)
		for _, p := range points {
			if got := h.QualityAt(p.Cost, &f); got < p.Quality-1e-12 {
				t.Fatalf("hull %v of %v has %v at %v, below %v", h, points, got, p.Cost, p.Quality)
			}
		}
		for i := 2; i < len(h); i++ {
			a := (h[i-1].Quality - h[i-2].Quality) / (h[i-1].Cost - h[i-2].Cost)
			b := (h[i].Quality - h[i-1].Quality) / (h[i].Cost - h[i-1].Cost)
			if b >= a || b <= 0 {
				t.Fatalf("hull %v is not concave and rising", h)
			}
		}
	}
}
