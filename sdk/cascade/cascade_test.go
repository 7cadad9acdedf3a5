package cascade

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Cascade against its definition: the best prefix of the order by the accurate
// rule, wherever the margin is clear.
func TestCascadeIsTheBestPrefix(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	decided := [2]int{}
	for trial := range 5000 {
		n := 2 + rng.IntN(9)
		s := randomState(rng, n)
		order := rng.Perm(n)
		s.Ran = order[:1+rng.IntN(n-1)]
		lambda := math.Pow(10, -3*rng.Float64())
		p := Params{Lambdas: []float64{lambda}, Order: order, Scale: 1 - rng.Float64(), Answer: AnswerRule(rng.IntN(2))}
		if rng.IntN(3) == 0 {
			p.MaxDepth = 1 + rng.IntN(n)
		}
		c, err := newCascade(p)
		if err != nil {
			t.Fatal(err)
		}
		floor := negInf
		for _, i := range s.Ran {
			floor = max(floor, s.Beliefs[i].Mean)
			if p.Answer == Last {
				floor = s.Beliefs[i].Mean
			}
		}
		var ls laws
		by, cost, run := negInf, 0.0, Stop
		for _, i := range order[len(s.Ran):] {
			if !s.open(i) || p.MaxDepth > 0 && len(s.Ran)+len(ls) >= p.MaxDepth {
				continue
			}
			if run == Stop {
				run = i
			}
			ls = append(ls, s.Beliefs[i].law(p.Scale))
			cost += s.Costs[i]
			value := ls.expectedMax(floor)
			if p.Answer == Last {
				value = s.Beliefs[i].Mean
			}
			by = max(by, value-lambda*cost-floor)
		}
		if math.Abs(by) < 1e-6 {
			continue
		}
		want := Stop
		if by > 0 {
			want = run
			decided[1]++
		} else {
			decided[0]++
		}
		if d := c.Decide(s); d.Run != want {
			t.Fatalf("trial %d: runs %d, want %d; going on is worth %v more\n%+v\n%+v", trial, d.Run, want, by, s, p)
		}
	}
	if decided[0] < 500 || decided[1] < 500 {
		t.Errorf("lopsided: %v", decided)
	}
}
