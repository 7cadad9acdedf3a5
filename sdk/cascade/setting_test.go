package cascade_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// A strategy's description reproduces the strategy, through JSON and with the models in
// another order.
func TestSettingsMakeTheStrategyThatTheyDescribe(t *testing.T) {
	p := cascade.Params{Lambdas: []float64{3, 5}, Gamma: 0.25, MaxDepth: 2, Scale: 0.5, Order: []int{2, 0}, Thresholds: []float64{0.5}, Answer: cascade.Last}
	for _, name := range cascade.Names() {
		p := p
		if name == cascade.NameCascadeRouteNoExpect {
			p.Scale = 0
		}
		s, err := cascade.New(name, p)
		if err != nil {
			t.Fatal(err)
		}
		first := cascade.SettingOf(cascade.Describe(s), []string{"a", "b", "c"})
		text, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		var read cascade.Setting
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		turned, err := read.Strategy([]string{"c", "a", "b"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again := cascade.SettingOf(cascade.Describe(turned), []string{"c", "a", "b"}); !reflect.DeepEqual(again, first) {
			t.Errorf("%s: %+v, want %+v", name, again, first)
		}
		if _, err := read.Strategy([]string{"c"}); len(first.Order) > 0 && !errors.Is(err, cascade.ErrUnknownModel) {
			t.Errorf("%s: an order of models that are not there: %v", name, err)
		}
		at := read.At(0.75)
		values := at.Lambdas
		if name == cascade.NameThreshold {
			values = at.Thresholds
		}
		if !reflect.DeepEqual(values, []float64{0.75}) || len(at.Lambdas)+len(at.Thresholds) != 1 || at.Gamma != 1 {
			t.Errorf("%s at another point: %+v", name, at)
		}
	}
}

func TestSettingsNameTheOrder(t *testing.T) {
	d := cascade.Description{Name: cascade.NameCascade, Params: cascade.Params{Order: []int{1, 2, 0, 5}}}
	if got := cascade.SettingOf(d, []string{"a", "b"}).Order; !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("the order is %q; models without a name are left out", got)
	}
}
