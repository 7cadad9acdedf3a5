package feature

import (
	"math"
	"strings"

	"github.com/stepfall/stepfall/sdk"
)

// Classes returns a distribution over classes from the alternatives of the first
// token that names a class, and false if no token does. A token names a class if it
// equals the class or is a prefix of it, ignoring letter case and white space; the
// probability of a prefix of several classes is shared among them. The result sums
// to 1.
func Classes(tokens []sdk.TokenLogProb, classes []string) ([]float64, bool) {
	for _, t := range tokens {
		alts := t.Top
		if len(alts) == 0 {
			alts = []sdk.TopLogProb{{Token: t.Token, LogProb: t.LogProb}}
		}
		if len(classesOf(t.Token, classes)) == 0 {
			continue
		}
		p, sum := make([]float64, len(classes)), 0.0
		for _, alt := range alts {
			hit := classesOf(alt.Token, classes)
			for _, c := range hit {
				share := math.Exp(min(alt.LogProb, 0)) / float64(len(hit))
				p[c] += share
				sum += share
			}
		}
		if !(sum > 0) {
			return nil, false
		}
		for c := range p {
			p[c] /= sum
		}
		return p, true
	}
	return nil, false
}

func classesOf(token string, classes []string) []int {
	token = strings.ToLower(strings.TrimSpace(token))
	if token == "" {
		return nil
	}
	var begins []int
	for i, class := range classes {
		class = strings.ToLower(class)
		if class == token {
			return []int{i}
		}
		if strings.HasPrefix(class, token) {
			begins = append(begins, i)
		}
	}
	return begins
}

// Entropy returns the entropy of a distribution in nats, from 0 for a certain
// outcome to log n.
func Entropy(p []float64) float64 {
	sum := 0.0
	for _, x := range p {
		sum += plogp(x)
	}
	return sum
}

// JensenShannon returns the Jensen-Shannon divergence, in nats, of two distributions
// over the same classes: the entropy of their mean minus the mean of their entropies,
// from 0 if they are equal to log 2 if they have no class in common. It panics if the
// lengths differ.
//
// Source: J. Lin, "Divergence measures based on the Shannon entropy", IEEE
// Transactions on Information Theory 37(1), 1991.
func JensenShannon(p, q []float64) float64 {
	if len(p) != len(q) {
		panic("feature: distributions over different classes")
	}
	sum := 0.0
	for i := range p {
		sum += plogp((p[i]+q[i])/2) - (plogp(p[i])+plogp(q[i]))/2
	}
	return max(0, sum) // rounding can make it slightly negative
}
