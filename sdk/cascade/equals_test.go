package cascade_test

import (
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// Of equal answers the first is returned, but of rejected ones the last.
func TestWhichOfEqualAnswers(t *testing.T) {
	strategy, err := cascade.New(cascade.NameIndex, cascade.Params{})
	if err != nil {
		t.Fatal(err)
	}
	for mean, want := range map[float64]int{0: 1, 0.5: 0} {
		d := strategy.Decide(&cascade.State{Ran: []int{0, 1}, Beliefs: []cascade.Belief{{Mean: mean}, {Mean: mean}}, Costs: []float64{1, 1}})
		if d.Answer != want {
			t.Errorf("of two answers of %v: %d, want %d", mean, d.Answer, want)
		}
	}
}
