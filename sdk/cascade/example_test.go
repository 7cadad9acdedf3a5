package cascade_test

import (
	"fmt"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// Three models, three kinds of query. The maths model is good at maths, the code
// model at code, and the small one is cheap.
func ExampleRoute() {
	models := []string{"small", "maths", "code"}
	costs := []float64{0.001, 0.008, 0.010}
	route, err := cascade.New(cascade.NameRoute, cascade.Params{Lambdas: []float64{20}})
	if err != nil {
		panic(err)
	}
	for _, query := range []struct {
		kind    string
		quality [3]float64
	}{
		{"maths", [3]float64{0.40, 0.80, 0.55}},
		{"code", [3]float64{0.45, 0.50, 0.85}},
		{"generic", [3]float64{0.75, 0.80, 0.80}},
	} {
		s := &cascade.State{Costs: costs}
		for _, q := range query.quality {
			s.Beliefs = append(s.Beliefs, cascade.Belief{Mean: q})
		}
		d := route.Decide(s)
		fmt.Printf("%-8s", query.kind)
		for i, q := range query.quality {
			fmt.Printf(" %s %.2f - %.2f = %.2f ", models[i], q, 20*costs[i], q-20*costs[i])
		}
		fmt.Println("->", models[d.Run])
	}
	// Output:
	// maths    small 0.40 - 0.02 = 0.38  maths 0.80 - 0.16 = 0.64  code 0.55 - 0.20 = 0.35 -> maths
	// code     small 0.45 - 0.02 = 0.43  maths 0.50 - 0.16 = 0.34  code 0.85 - 0.20 = 0.65 -> code
	// generic  small 0.75 - 0.02 = 0.73  maths 0.80 - 0.16 = 0.64  code 0.80 - 0.20 = 0.60 -> small
}

// A cascade of two models. After the small one has answered, going on is worth
//
//	E[max(v, X)] - lambda·cost,  X ~ N(0.8, 0.1²),
//
// and stopping is worth v, the post-hoc estimate of the small one's answer.
func ExampleCascade() {
	c, err := cascade.New(cascade.NameCascade, cascade.Params{Lambdas: []float64{20}})
	if err != nil {
		panic(err)
	}
	s := &cascade.State{
		Beliefs: []cascade.Belief{{Mean: 0.5, StdDev: 0.2}, {Mean: 0.8, StdDev: 0.1}},
		Costs:   []float64{0.001, 0.010},
	}
	fmt.Println("first runs model", c.Decide(s).Run)
	s.Ran = []int{0}
	for _, v := range []float64{0.3, 0.6, 0.7} {
		s.Beliefs[0] = cascade.Belief{Mean: v}
		on := cascade.ExpectedMax(s.Beliefs) - 20*s.Costs[1]
		d := c.Decide(s)
		fmt.Printf("small is worth %.2f, going on %.4f: ", v, on)
		if d.Run == cascade.Stop {
			fmt.Println("stop")
		} else {
			fmt.Println("run model", d.Run)
		}
	}
	// Output:
	// first runs model 0
	// small is worth 0.30, going on 0.6000: run model 1
	// small is worth 0.60, going on 0.6008: run model 1
	// small is worth 0.70, going on 0.6083: stop
}

// Cascade routing with two models may start with either, or plan for both. The
// supermodels are valued one by one, and the cheapest model of the best is run.
func ExampleCascadeRoute() {
	r, err := cascade.New(cascade.NameCascadeRoute, cascade.Params{Lambdas: []float64{20}})
	if err != nil {
		panic(err)
	}
	s := &cascade.State{
		Beliefs: []cascade.Belief{{Mean: 0.6, StdDev: 0.3}, {Mean: 0.7, StdDev: 0.2}},
		Costs:   []float64{0.001, 0.005},
	}
	show := func() {
		e := r.(cascade.Explainer).Explain(s)
		for _, a := range e.Alternatives {
			fmt.Printf("%v: E[max] %.4f - %.2f = %.4f\n", a.Models, a.ExpectedMax, 20*a.Cost, a.Tau)
		}
		if e.Decision.Run == cascade.Stop {
			fmt.Println("stop, return the answer of", e.Decision.Answer)
		} else {
			fmt.Println("run", e.Decision.Run)
		}
	}
	show()
	s.Ran = []int{0}
	s.Beliefs[0] = cascade.Belief{Mean: 0.75}
	show()
	// Output:
	// [0 1]: E[max] 0.7993 - 0.12 = 0.6793
	// [1]: E[max] 0.7000 - 0.10 = 0.6000
	// [0]: E[max] 0.6000 - 0.02 = 0.5800
	// run 0
	// [0]: E[max] 0.7500 - 0.00 = 0.7500
	// [0 1]: E[max] 0.8073 - 0.10 = 0.7073
	// stop, return the answer of 0
}

// A verifier will judge the answers. Index knows that after a pass it will not have
// to pay for the second model, which a plan for a fixed set does not.
func ExampleIndex() {
	x, err := cascade.New(cascade.NameIndex, cascade.Params{Lambdas: []float64{20}})
	if err != nil {
		panic(err)
	}
	s := &cascade.State{
		Beliefs: []cascade.Belief{{Mean: 0.5, Bernoulli: true}, {Mean: 0.8, Bernoulli: true}},
		Costs:   []float64{0.002, 0.020},
	}
	for i, b := range s.Beliefs {
		fmt.Printf("model %d: reservation value %.2f\n", i, cascade.ReservationValue(b, 20*s.Costs[i]))
	}
	fmt.Println("run", x.Decide(s).Run)
	s.Ran = []int{0}
	for _, verdict := range []float64{1, 0} {
		s.Beliefs[0].Mean = verdict
		d := x.Decide(s)
		fmt.Printf("verdict %v: run %d, answer of %d\n", verdict, d.Run, d.Answer)
	}
	// Output:
	// model 0: reservation value 0.92
	// model 1: reservation value 0.50
	// run 0
	// verdict 1: run -1, answer of 0
	// verdict 0: run 1, answer of 0
}

func ExampleExpectedMax() {
	normals := []cascade.Belief{{Mean: 0.6, StdDev: 0.3}, {Mean: 0.7, StdDev: 0.2}}
	fmt.Printf("%.4f\n", cascade.ExpectedMax(normals))
	// Two answers that a verifier judges: 1 - 0.3·0.4.
	verified := []cascade.Belief{{Mean: 0.7, Bernoulli: true}, {Mean: 0.6, Bernoulli: true}}
	fmt.Printf("%.4f\n", cascade.ExpectedMax(verified))
	// Output:
	// 0.7993
	// 0.8800
}

// Retuning is cheap: only the changed parameters are validated.
func ExampleTunable() {
	s, err := cascade.New(cascade.NameCascadeRoute, cascade.Params{})
	if err != nil {
		panic(err)
	}
	state := &cascade.State{
		Beliefs: []cascade.Belief{{Mean: 0.5, StdDev: 0.1}, {Mean: 0.8, StdDev: 0.1}},
		Costs:   []float64{0.001, 0.010},
	}
	for _, lambda := range []float64{0.01, 20, 50} {
		tuned, err := s.(cascade.Tunable).Tune([]float64{lambda}, 0)
		if err != nil {
			panic(err)
		}
		fmt.Println(lambda, tuned.Decide(state).Run)
	}
	// Output:
	// 0.01 0
	// 20 1
	// 50 0
}
