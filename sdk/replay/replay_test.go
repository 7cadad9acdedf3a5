package replay_test

import (
	"slices"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/replay"
)

// reader is a cursor with a mean of 0.5 for models that have not run, and the last mark of those seen.
type reader struct{ asked int }

func (r *reader) Believe(seen []int, beliefs []cascade.Belief, costs []float64) {
	r.asked++
	for m := range beliefs {
		beliefs[m], costs[m] = cascade.Belief{Mean: 0.5}, 1
	}
	for _, mark := range seen {
		beliefs[mark%len(beliefs)].Mean = float64(mark)
	}
}

func (*reader) LookUSD(look int) float64 { return float64(look) }

// list is a strategy that returns the given decisions in turn.
type list []cascade.Decision

func (l *list) Decide(*cascade.State) cascade.Decision {
	d := (*l)[0]
	*l = (*l)[1:]
	return d
}

func TestWalk(t *testing.T) {
	r := &reader{}
	w := replay.NewWalker(r, []float64{0.25, 0.75}, []float64{10, 100})
	decisions := list{{Run: 1, Answer: cascade.None}, {Run: 1, Look: true, Answer: 1}, {Run: 0, Answer: 1}, {Run: cascade.Stop, Answer: 1}}
	for range 2 {
		var ran []int
		again := slices.Clone(decisions)
		step := w.Walk(&again, 0.5, func(turn *replay.Turn) {
			if turn.State.Coin != 0.5 {
				t.Errorf("coin %v", turn.State.Coin)
			}
			ran = append(ran, len(turn.State.Ran))
		})
		if !slices.Equal(step.Seen, []int{1, 3, 0}) || step.Models != 2 || step.Answer != 1 {
			t.Errorf("%+v", step)
		}
		// Model 1 at 100, the first look at its answer at 3, model 0 at 10.
		if step.CostUSD != 113 || step.Quality != 0.75 || step.Estimate != 3 {
			t.Errorf("%+v", step)
		}
		if !slices.Equal(ran, []int{0, 1, 1, 2}) {
			t.Errorf("models that had run at each decision: %v", ran)
		}
	}
	if r.asked != 4 {
		t.Errorf("%d sets of models were estimated, want each of 4 once", r.asked)
	}
}

func TestNoAnswer(t *testing.T) {
	step := replay.NewWalker(&reader{}, []float64{1}, []float64{1}).Walk(&list{{Run: cascade.Stop, Answer: cascade.None}}, 0, nil)
	if step.Answer != cascade.None || step.Quality != 0 || step.Models != 0 {
		t.Errorf("%+v", step)
	}
}
