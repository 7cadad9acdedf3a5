package estimate

import "math"

// emission is the distribution of a signal if the answer is right and if it is wrong:
// normal, each with its mean and deviation. The zero value carries no information.
type emission struct {
	Right       float64 `json:"right"`
	Wrong       float64 `json:"wrong"`
	RightStdDev float64 `json:"right_std_dev"`
	WrongStdDev float64 `json:"wrong_std_dev"`
}

// likelihoods returns the densities of a signal, up to a common factor, or (1, 1) if it
// is unknown.
func (m *emission) likelihoods(x float64) (right, wrong float64) {
	if math.IsNaN(x) || m.RightStdDev <= 0 || m.WrongStdDev <= 0 {
		return 1, 1
	}
	a, b := (x-m.Right)/m.RightStdDev, (x-m.Wrong)/m.WrongStdDev
	l, k := -a*a/2-math.Log(m.RightStdDev), -b*b/2-math.Log(m.WrongStdDev)
	// One signal never counts for more than e^20 to one.
	d := min(max(l-k, -20), 20)
	return sigmoid(d), sigmoid(-d)
}

// deviations returns the standard deviation of the probability after the signal, as a
// function of the probability before it.
func (m *emission) deviations() lookup {
	const steps = 400
	var t lookup
	for j := range t {
		p := float64(j) / float64(len(t)-1)
		if p == 0 || p == 1 || m.RightStdDev <= 0 || m.WrongStdDev <= 0 {
			continue
		}
		low := min(m.Right-6*m.RightStdDev, m.Wrong-6*m.WrongStdDev)
		high := max(m.Right+6*m.RightStdDev, m.Wrong+6*m.WrongStdDev)
		width := (high - low) / steps
		second, mass := 0.0, 0.0
		for s := range steps {
			x := low + (float64(s)+0.5)*width
			right := p * normalDensity((x-m.Right)/m.RightStdDev) / m.RightStdDev
			wrong := (1 - p) * normalDensity((x-m.Wrong)/m.WrongStdDev) / m.WrongStdDev
			if right+wrong > 0 {
				second += right * right / (right + wrong) * width
				mass += (right + wrong) * width
			}
		}
		t[j] = math.Sqrt(max(0, second/mass-p*p))
	}
	return t
}

func normalDensity(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }

// lookup is a function on [0, 1], tabulated at equal steps.
type lookup [65]float64

func (l *lookup) at(x float64) float64 {
	at := min(max(x, 0), 1) * float64(len(l)-1)
	j := min(int(at), len(l)-2)
	return l[j] + (at-float64(j))*(l[j+1]-l[j])
}

// fitEmission fits the two normals. It returns the zero emission if either class has
// hardly any answers.
func fitEmission(x, quality []float64) emission {
	var right, wrong [3]float64 // weight, sum, sum of squares
	for q, v := range quality {
		if math.IsNaN(v) || math.IsNaN(x[q]) {
			continue
		}
		for j, power := 0, 1.0; j < 3; j++ {
			right[j] += v * power
			wrong[j] += (1 - v) * power
			power *= x[q]
		}
	}
	if right[0] < 3 || wrong[0] < 3 {
		return emission{}
	}
	m := emission{Right: right[1] / right[0], Wrong: wrong[1] / wrong[0]}
	a := max(0, right[2]/right[0]-m.Right*m.Right)
	b := max(0, wrong[2]/wrong[0]-m.Wrong*m.Wrong)
	// Each variance is shrunk towards the pooled one, which needs fewer outcomes.
	const weight = 20
	pooled := (a*right[0] + b*wrong[0]) / (right[0] + wrong[0])
	m.RightStdDev = math.Sqrt((a*right[0] + pooled*weight) / (right[0] + weight))
	m.WrongStdDev = math.Sqrt((b*wrong[0] + pooled*weight) / (wrong[0] + weight))
	return m
}
