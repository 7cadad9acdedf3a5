package cascade

import (
	"slices"
	"testing"
)

func TestStrategiesNameThemselves(t *testing.T) {
	for _, name := range Names() {
		s, err := New(name, Params{Lambdas: []float64{3, 2}, Gamma: 0.25})
		if err != nil {
			t.Fatal(err)
		}
		tuned, err := s.(Tunable).Tune([]float64{0.5}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := Describe(s); got.Name != name || !slices.Equal(got.Lambdas, []float64{3, 2}) || got.Gamma != 0.25 {
			t.Errorf("%s describes itself as %+v", name, got)
		}
		if got := Describe(tuned); got.Name != name || got.Gamma != 1 {
			t.Errorf("%s, tuned, describes itself as %+v", name, got)
		}
	}
	if got := Describe(nil); got.Name != "" {
		t.Errorf("no strategy describes itself as %+v", got)
	}
}
