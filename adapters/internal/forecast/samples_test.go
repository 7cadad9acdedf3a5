package forecast_test

import (
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// The first sample of a model says nothing about an unrecorded second one.
func TestAFurtherAnswerIsNotTheFirst(t *testing.T) {
	world := &forecast.Table{Outcomes: &outcome.Table{
		Models: []string{"acme/small", "acme/small#2"}, Queries: []string{"q"}, Quality: [][]float64{{0, 1}},
	}}
	for name, want := range map[string]struct {
		known   bool
		quality float64
	}{"cheap": {true, 0}, "cheap#2": {true, 1}, "cheap#3": {false, 0}} {
		got := world.Outcome(0, forecast.Model{Name: name, Served: "small"})
		if got.Known != want.known || got.Known && got.Quality != want.quality {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
