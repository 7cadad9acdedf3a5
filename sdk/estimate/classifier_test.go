package estimate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// simulated has n queries by two models whose answers are right with probability
// sigmoid(1 + 2 x), x the standard normal signal "sure"; "noise" tells nothing.
func simulated(n int, seed uint64) *outcome.Table {
	random := rand.New(rand.NewPCG(seed, 1))
	t := &outcome.Table{Models: []string{"a", "b"}, Signals: map[string][][]float64{}}
	for q := range n {
		t.Queries = append(t.Queries, fmt.Sprint(q))
		var quality, sure, noise []float64
		for range t.Models {
			x := random.NormFloat64()
			y := 0.0
			if random.Float64() < 1/(1+math.Exp(-1-2*x)) {
				y = 1
			}
			quality, sure, noise = append(quality, y), append(sure, x), append(noise, random.NormFloat64())
		}
		t.Quality = append(t.Quality, quality)
		t.Signals["sure"] = append(t.Signals["sure"], sure)
		t.Signals["noise"] = append(t.Signals["noise"], noise)
	}
	return t
}

func TestTrainRecovers(t *testing.T) {
	c, err := estimate.TrainClassifier(simulated(4000, 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{"a", "b", "unknown"} {
		worst := 0.0
		for x := -2.0; x <= 2; x += 0.25 {
			p, ok := c.Predict(model, map[string]float64{"sure": x, "noise": 0})
			if !ok {
				t.Fatal("no prediction")
			}
			worst = max(worst, math.Abs(p-1/(1+math.Exp(-1-2*x))))
		}
		// Four standard errors of a fit to this many rows are below this.
		if worst > 0.06 {
			t.Errorf("%s: prediction off by %.3f", model, worst)
		}
	}
	any := c.Models["*"]
	if !(any.Brier < 0.75*any.BaseBrier) || any.AUC < 0.8 || any.Rows != 8000 {
		t.Errorf("%+v", any)
	}
}

func TestCalibrationTamesOverfitting(t *testing.T) {
	table := simulated(60, 2)
	random := rand.New(rand.NewPCG(3, 3))
	for i := range 30 {
		var column [][]float64
		for range table.Queries {
			column = append(column, []float64{random.NormFloat64(), random.NormFloat64()})
		}
		table.Signals[fmt.Sprintf("junk%d", i)] = column
	}
	c, err := estimate.TrainClassifier(table)
	if err != nil {
		t.Fatal(err)
	}
	if slope := c.Models["a"].Slope; !(slope > 0 && slope < 0.7) {
		t.Errorf("slope %v of a regression that must have overfitted", slope)
	}
}

func TestMissingSignals(t *testing.T) {
	table := simulated(2000, 4)
	for q := range table.Queries {
		if q%2 == 0 {
			table.Signals["sure"][q][0] = math.NaN()
		}
	}
	c, err := estimate.TrainClassifier(table)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Predict("a", map[string]float64{"other": 1, "sure": math.NaN()}); ok {
		t.Error("a prediction from nothing")
	}
	if p, ok := c.Predict("a", map[string]float64{"noise": 0}); !ok || math.Abs(p-0.66) > 0.1 {
		t.Errorf("without the signal that tells: %v %v", p, ok)
	}
	if low, _ := c.Predict("a", map[string]float64{"sure": -1e300}); math.IsNaN(low) || low < 1e-6 {
		t.Errorf("far outside: %v", low)
	}
}

func TestTrainRefuses(t *testing.T) {
	constant := simulated(100, 5)
	constant.Signals = map[string][][]float64{"same": nil}
	for range constant.Queries {
		constant.Signals["same"] = append(constant.Signals["same"], []float64{1, 1})
	}
	if _, err := estimate.TrainClassifier(constant); err == nil || !strings.Contains(err.Error(), "no signals to learn from") {
		t.Errorf("constant signals: %v", err)
	}
}

// Too few answers with a signal are rejected with a reason.
func TestTooFewAnswers(t *testing.T) {
	few := &outcome.Table{Models: []string{"a"}, Signals: map[string][][]float64{"sure": {}}}
	for q := range 22 {
		few.Queries = append(few.Queries, strconv.Itoa(q))
		few.Quality = append(few.Quality, []float64{float64(q % 2)})
		few.Signals["sure"] = append(few.Signals["sure"], []float64{float64(q%3) / 3})
	}
	if _, err := estimate.TrainClassifier(few); err == nil || !strings.Contains(err.Error(), "22 answers") {
		t.Errorf("22 answers: %v", err)
	}
}

func TestAllRight(t *testing.T) {
	table := simulated(200, 6)
	for q := range table.Queries {
		table.Quality[q] = []float64{1, 1}
	}
	c, err := estimate.TrainClassifier(table)
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := c.Predict("a", map[string]float64{"sure": 0}); !ok || p < 0.95 || p > 1 {
		t.Errorf("%v %v", p, ok)
	}
}

func TestRead(t *testing.T) {
	c, err := estimate.TrainClassifier(simulated(300, 7))
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	back, err := estimate.ReadClassifier(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	signals := map[string]float64{"sure": 0.5, "noise": -1}
	p, _ := c.Predict("b", signals)
	if q, _ := back.Predict("b", signals); p != q {
		t.Errorf("%v before, %v after", p, q)
	}
	for _, bad := range []string{
		`{}`, `{"version": 2, "models": {}}`, `{"version": 1, "models": {"a": null}}`, `{"version": 1, "model": {}}`,
		`{"version": 1, "models": {"a": {"signals": [{"name": "x", "std_dev": 0}]}}}`, `nonsense`,
	} {
		if _, err := estimate.ReadClassifier(strings.NewReader(bad)); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}
