package cascade

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// ExpectedMaxFactors returns E[max] of correlated normals that share factors:
//
//	X_i = means[i] + sum over f of loadings[i][f]·Z_f + stdDevs[i]·e_i,
//
// all Z_f and e_i independent standard normals. Given the factors the X are
// independent, so it is [ExpectedMax] averaged over the factors, by adaptive
// quadrature, one dimension inside the other: the time grows exponentially with the
// number of factors (well below a millisecond for one, tens of them for two). The
// absolute error is below 1e-8 for means, deviations and loadings in [0, 1] and one
// factor, 1e-7 for two.
func ExpectedMaxFactors(means, stdDevs []float64, loadings [][]float64) (float64, error) {
	n := len(means)
	if len(stdDevs) != n || len(loadings) != n {
		return 0, fmt.Errorf("cascade: %d means, %d deviations, %d rows of loadings", n, len(stdDevs), len(loadings))
	}
	if n == 0 {
		return negInf, nil
	}
	factors := len(loadings[0])
	for i, row := range loadings {
		if len(row) != factors {
			return 0, fmt.Errorf("cascade: model %d has %d loadings, model 0 has %d", i, len(row), factors)
		}
		if !(stdDevs[i] >= 0) {
			return 0, fmt.Errorf("cascade: model %d has standard deviation %v", i, stdDevs[i])
		}
	}
	// One set of laws, whose means move with the factors.
	shifted := make(laws, n)
	for i := range shifted {
		shifted[i] = Belief{Mean: means[i], StdDev: stdDevs[i]}.law(1)
	}
	var over func(f int) float64
	over = func(f int) float64 {
		if f == factors {
			return shifted.withPoints()
		}
		base := make([]float64, n)
		for i := range shifted {
			base[i] = shifted[i].mean
		}
		v := averageNormal(1e-10, func(z float64) float64 {
			for i := range shifted {
				shifted[i].mean = base[i] + loadings[i][f]*z
			}
			return over(f + 1)
		})
		for i := range shifted {
			shifted[i].mean = base[i]
		}
		return v
	}
	return over(0), nil
}

// withPoints returns E[max] of laws of which some may be certain.
func (ls laws) withPoints() float64 {
	floor, lo, hi := negInf, negInf, negInf
	for i := range ls {
		l := &ls[i]
		if l.dev == 0 && !l.two {
			floor = max(floor, l.mean)
		}
		lo, hi = max(lo, l.mean-reach*l.dev), max(hi, l.mean+reach*l.dev)
	}
	lo = max(lo, floor)
	return hi - ls.below(lo, hi)
}

// averageNormal returns E[f(Z)] of a standard normal Z, where f grows at most
// linearly, to about the tolerance.
func averageNormal(tolerance float64, f func(z float64) float64) float64 {
	g := func(z float64) float64 { return normalPDF(z) * f(z) }
	sum := 0.0
	const end, parts = 8.0, 16
	for k := range parts {
		a := -end + 2*end/parts*float64(k)
		b := a + 2*end/parts
		sum += adaptive(g, a, b, panel(g, a, b), tolerance/parts, 14)
	}
	return sum
}

// adaptive integrates g over [a, b], whose one-panel value is whole, halving while
// the halves disagree with it.
func adaptive(g func(float64) float64, a, b, whole, tolerance float64, depth int) float64 {
	mid := 0.5 * (a + b)
	left, right := panel(g, a, mid), panel(g, mid, b)
	if depth == 0 || math.Abs(left+right-whole) <= tolerance {
		return left + right
	}
	return adaptive(g, a, mid, left, tolerance/2, depth-1) + adaptive(g, mid, b, right, tolerance/2, depth-1)
}

// panel integrates g over [a, b] by one Gauss-Legendre rule.
func panel(g func(float64) float64, a, b float64) float64 {
	c, h := 0.5*(a+b), 0.5*(b-a)
	sum := 0.0
	for _, r := range gauss12 {
		sum += r.w * (g(c-h*r.x) + g(c+h*r.x))
	}
	return h * sum
}

// ErrNotCovariance is what ExpectedMaxCovariance returns for a matrix that is not
// symmetric and positive semidefinite.
var ErrNotCovariance = errors.New("cascade: not a covariance matrix")

// ExpectedMaxCovariance returns E[max] of normals with a covariance matrix, and an
// estimate of its error. One model's values are subtracted from all others, which
// leaves one dimension less, and the last dimension is integrated in closed form
// (for two models that is Clark's formula, exact). What is left is adaptive
// quadrature, to about 1e-9, for up to 4 models, and for more of them randomised
// quasi-Monte Carlo, to 1e-4 or better; the error then is the standard error of 16
// independent repetitions with fixed seeds. Where the correlation comes from one or
// two shared factors, [ExpectedMaxFactors] is more accurate for many models.
func ExpectedMaxCovariance(means []float64, covariance [][]float64) (value, stdErr float64, err error) {
	n := len(means)
	if len(covariance) != n {
		return 0, 0, fmt.Errorf("cascade: %d means and %d rows of covariance", n, len(covariance))
	}
	scale := 0.0
	for i, row := range covariance {
		if len(row) != n {
			return 0, 0, fmt.Errorf("cascade: row %d of the covariance has %d entries, want %d", i, len(row), n)
		}
		scale = max(scale, row[i])
	}
	for i := range n {
		for j := range i {
			if !(math.Abs(covariance[i][j]-covariance[j][i]) <= 1e-12*scale) {
				return 0, 0, fmt.Errorf("%w: entries %d,%d and %d,%d differ", ErrNotCovariance, i, j, j, i)
			}
		}
	}
	switch n {
	case 0:
		return negInf, 0, nil
	case 1:
		if !(covariance[0][0] >= 0) {
			return 0, 0, fmt.Errorf("%w: variance %v", ErrNotCovariance, covariance[0][0])
		}
		return means[0], 0, nil
	}
	// Y_k = X_(k+1) - X_0: E[max X] = means[0] + E[max(0, Y)].
	m := n - 1
	mean, l := make([]float64, m), make([][]float64, m)
	for i := range m {
		mean[i] = means[i+1] - means[0]
		l[i] = make([]float64, m)
		for j := range i + 1 {
			l[i][j] = covariance[i+1][j+1] - covariance[i+1][0] - covariance[0][j+1] + covariance[0][0]
		}
	}
	if !cholesky(l, scale) {
		return 0, 0, fmt.Errorf("%w: not positive semidefinite", ErrNotCovariance)
	}
	if m <= 3 {
		return means[0] + nested(mean, l, make([]float64, m), 0, 0), 1e-9, nil
	}
	value, stdErr = lattice(mean, l)
	return means[0] + value, stdErr, nil
}

// cholesky replaces the lower triangle of a positive semidefinite matrix by its
// factor; it reports false for another matrix.
func cholesky(a [][]float64, scale float64) bool {
	for j := range a {
		for i := j; i < len(a); i++ {
			s := a[i][j]
			for k := range j {
				s -= a[i][k] * a[j][k]
			}
			switch {
			case i == j && !(s >= -1e-10*scale):
				return false
			case i == j:
				a[j][j] = math.Sqrt(max(s, 0))
			case a[j][j] > 1e-8*math.Sqrt(scale):
				a[i][j] = s / a[j][j]
			case math.Abs(s) > 1e-6*scale:
				return false
			default:
				a[i][j] = 0
			}
		}
	}
	return true
}

// given returns the mean of dimension i when the normals before it are z.
func given(mean []float64, l [][]float64, z []float64, i int) float64 {
	y := mean[i]
	for j := range i {
		y += l[i][j] * z[j]
	}
	return y
}

// last returns E[max(floor, Y)] for Y normal.
func last(floor, mean, dev float64) float64 {
	if dev == 0 {
		return max(floor, mean)
	}
	return floor + dev*normalExcess((mean-floor)/dev)
}

// nested integrates over dimension i and all after it.
func nested(mean []float64, l [][]float64, z []float64, i int, floor float64) float64 {
	y := given(mean, l, z, i)
	if i == len(mean)-1 {
		return last(floor, y, l[i][i])
	}
	if l[i][i] == 0 {
		z[i] = 0
		return nested(mean, l, z, i+1, max(floor, y))
	}
	return averageNormal(1e-11, func(x float64) float64 {
		z[i] = x
		return nested(mean, l, z, i+1, max(floor, y+l[i][i]*x))
	})
}

// lattice averages over a randomly shifted lattice of square roots of primes, in
// all dimensions but the last.
func lattice(mean []float64, l [][]float64) (value, stdErr float64) {
	const repetitions, points = 16, 4096
	m := len(mean)
	step := make([]float64, m-1)
	for d, p := 0, 2; d < len(step); p++ {
		if prime(p) {
			_, step[d] = math.Modf(math.Sqrt(float64(p)))
			d++
		}
	}
	shift, z := make([]float64, m-1), make([]float64, m)
	sum, squares := 0.0, 0.0
	for r := range repetitions {
		rng := rand.New(rand.NewPCG(1, uint64(r)))
		for d := range shift {
			shift[d] = rng.Float64()
		}
		total := 0.0
		for k := range points {
			floor := 0.0
			for d := range step {
				_, u := math.Modf(shift[d] + float64(k+1)*step[d])
				u = math.Abs(2*u - 1) // folded: continuous where the lattice wraps
				z[d] = math.Sqrt2 * math.Erfinv(2*min(max(u, 1e-15), 1-1e-15)-1)
				floor = max(floor, given(mean, l, z, d)+l[d][d]*z[d])
			}
			total += last(floor, given(mean, l, z, m-1), l[m-1][m-1])
		}
		v := total / points
		sum += v
		squares += v * v
	}
	value = sum / repetitions
	return value, math.Sqrt(max(squares/repetitions-value*value, 0) / (repetitions - 1))
}

func prime(p int) bool {
	for d := 2; d*d <= p; d++ {
		if p%d == 0 {
			return false
		}
	}
	return true
}
