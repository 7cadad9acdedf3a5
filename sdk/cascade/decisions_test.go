package cascade

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/decisions.txt anew")

// The decisions of every strategy in random states, and the values of its best two
// alternatives, must match testdata/decisions.txt. Brute-force tests check that they are
// right; this one that they do not change unnoticed.
func TestDecisionsDoNotChangeUnseen(t *testing.T) {
	const file = "testdata/decisions.txt"
	rng := rand.New(rand.NewPCG(21, 23))
	var got strings.Builder
	for n := range 24 {
		s := randomState(rng, 2+rng.IntN(5))
		for i := range s.Beliefs {
			if n%3 == 0 {
				s.Beliefs[i].Look = Look{StdDev: 0.5 * rng.Float64(), CostUSD: 0.1 * rng.Float64()}
			}
		}
		p := Params{Lambdas: []float64{rng.Float64(), 0.1 * rng.Float64()}, Thresholds: []float64{0.4, 0.7}, Gamma: rng.Float64(), MaxDepth: rng.IntN(4)}
		for _, name := range Names() {
			own := p
			if name == NameThreshold {
				own.Lambdas = nil
			} else {
				own.Thresholds = nil
			}
			st := newStrategy(t, name, own)
			d := st.Decide(s)
			fmt.Fprintf(&got, "%d %s %d %d %t %t", n, name, d.Run, d.Answer, d.Look, d.Approximate)
			if x, ok := st.(Explainer); ok {
				e := x.Explain(s)
				fmt.Fprintf(&got, " %.7g %.7g", e.Lambda, e.Threshold)
				for _, a := range e.Alternatives[:min(2, len(e.Alternatives))] {
					fmt.Fprintf(&got, " %d %.7g %.7g %.7g %.7g", a.Models, a.ExpectedMax, a.Cost, a.Tau, a.Reservation)
				}
			}
			got.WriteString("\n")
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	have, want := strings.Split(got.String(), "\n"), strings.Split(string(kept), "\n")
	if len(have) != len(want) {
		t.Fatalf("%d decisions, %d are kept", len(have), len(want))
	}
	for i := range have {
		if !sameNumbers(have[i], want[i]) {
			t.Errorf("decided %s\nkept is %s", have[i], want[i])
		}
	}
}

// sameNumbers reports whether two lines differ by no more than a millionth in any number.
func sameNumbers(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] == y[i] {
			continue
		}
		var u, v float64
		if n, _ := fmt.Sscan(x[i], &u); n == 0 {
			return false
		}
		if n, _ := fmt.Sscan(y[i], &v); n == 0 || !(math.Abs(u-v) <= 1e-6) {
			return false
		}
	}
	return true
}
