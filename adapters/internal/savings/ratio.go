package savings

import (
	"cmp"
	"math"

	"github.com/stepfall/stepfall/sdk"
)

// groups is the number of parts into which runs are randomly divided, for the delete-a-group jackknife of Quenouille
// and Tukey, which needs only sums.
const groups = 32

// everyone is passed to withoutGroup to leave out no group.
const everyone = -1

// groupOf returns the group of a step's run or, without one, of its session or of the step itself. All steps of a run
// are in one group, as they resemble each other.
func groupOf(t *sdk.Trace) int {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	for _, s := range [...]string{t.Tenant, cmp.Or(t.Run, t.Session, t.ID)} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
	}
	return int((h ^ h>>32) % groups)
}

// sumPair holds a sum of numbers y and one of numbers x.
type sumPair struct{ y, x float64 }

func (s *sumPair) add(o sumPair) { s.y, s.x = s.y+o.y, s.x+o.x }

type groupSum struct {
	group int
	sumPair
}

// ratio compares numbers y with numbers x, as a ratio of their sums. Ratios can be merged.
type ratio struct {
	n          int
	all        sumPair
	yy, xy, xx float64
	byGroup    []groupSum // only groups with values
}

func (r *ratio) add(group int, y, x float64) {
	r.n++
	r.yy, r.xy, r.xx = r.yy+y*y, r.xy+x*y, r.xx+x*x
	r.all.add(sumPair{y, x})
	r.addTo(group, sumPair{y, x})
}

func (r *ratio) addTo(group int, sum sumPair) {
	if own := r.of(group); own != nil {
		own.add(sum)
	} else {
		r.byGroup = append(r.byGroup, groupSum{group, sum})
	}
}

func (r *ratio) merge(o *ratio) {
	r.n += o.n
	r.all.add(o.all)
	r.yy, r.xy, r.xx = r.yy+o.yy, r.xy+o.xy, r.xx+o.xx
	for _, s := range o.byGroup {
		r.addTo(s.group, s.sumPair)
	}
}

func (r *ratio) of(group int) *sumPair {
	for i := range r.byGroup {
		if s := &r.byGroup[i]; s.group == group {
			return &s.sumPair
		}
	}
	return nil
}

func (r *ratio) isKnown() bool { return r.all.x > 0 && r.all.y > 0 }

// withoutGroup returns the ratio without a group; 1 if nothing was added.
func (r *ratio) withoutGroup(group int) float64 {
	if !r.isKnown() {
		return 1
	}
	s := r.all
	if own := r.of(group); own != nil {
		s.add(sumPair{-own.y, -own.x})
	}
	// Everything is in this group, up to rounding.
	if s.y < 1e-9*r.all.y || s.x < 1e-9*r.all.x {
		return r.all.y / r.all.x
	}
	return s.y / s.x
}

// deviation returns the standard deviation of single numbers y around the ratio's prediction, relative to their mean.
func (r *ratio) deviation() float64 {
	if !r.isKnown() {
		return 0
	}
	value := r.all.y / r.all.x
	residual := max(0, r.yy-2*value*r.xy+value*value*r.xx)
	return math.Sqrt(residual*float64(r.n)) / r.all.y
}

// variance returns the relative variance of the estimated ratio.
func (r *ratio) variance() float64 {
	if !r.isKnown() {
		return 0
	}
	return r.residual() * float64(r.n) / max(1, float64(r.n-1))
}

// residual returns the variance of the sum of the numbers y around the ratio's prediction, relative to the sum: by
// group or by number, whichever is larger.
func (r *ratio) residual() (sum float64) {
	if !r.isKnown() {
		return 0
	}
	value := r.all.y / r.all.x
	for _, s := range r.byGroup {
		u := (s.y - value*s.x) / r.all.y
		sum += u * u
	}
	single := r.deviation()
	return max(sum, single*single/float64(r.n))
}
