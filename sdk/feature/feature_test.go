package feature_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
)

func token(text string, probs ...float64) sdk.TokenLogProb {
	t := sdk.TokenLogProb{Token: text, LogProb: math.Log(probs[0])}
	for i, p := range probs {
		name := text
		if i > 0 {
			name = fmt.Sprint("alt", i)
		}
		t.Top = append(t.Top, sdk.TopLogProb{Token: name, LogProb: math.Log(p)})
	}
	return t
}

func near(t *testing.T, name string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-12 {
		t.Errorf("%s is %v, want %v", name, got, want)
	}
}

// The expected values are worked out by hand from the definitions.
func TestFeaturesOfTokens(t *testing.T) {
	f, ok := feature.OfTokens([]sdk.TokenLogProb{token("a", 0.5, 0.25), token("b", 0.125, 0.5), token("c", 1)})
	if !ok || f.Count != 3 {
		t.Fatalf("%+v %v", f, ok)
	}
	ln2 := math.Ln2
	near(t, "mean", f.MeanLogProb, -(1+3)*ln2/3)
	near(t, "perplexity", f.Perplexity, math.Pow(2, 4.0/3))
	near(t, "min", f.MinLogProb, -3*ln2)
	near(t, "median", f.Quantile[4], -ln2)
	near(t, "quartile", f.Quantile[3], -2*ln2)
	// Entropies: (1/2, 1/4, rest 1/4), (1/8, 1/2, rest 3/8), (1).
	second := 3*ln2/8 + ln2/2 + 3.0/8*math.Log(8.0/3)
	near(t, "entropy", f.MeanEntropy, (1.5*ln2+second)/3)
	near(t, "top", f.MeanTop, (0.5+0.5+1)/3)
	near(t, "margin", f.MeanMargin, (0.25+0.375+1)/3)
	if got := len(f.Values(nil)); got != len(feature.Names()) {
		t.Errorf("%d values have %d names", got, len(feature.Names()))
	}
}

func TestTokensThatAreNoneAreRefused(t *testing.T) {
	for name, tokens := range map[string][]sdk.TokenLogProb{
		"none": nil, "NaN": {{LogProb: math.NaN()}}, "a probability": {{LogProb: 0.7}},
	} {
		if f, ok := feature.OfTokens(tokens); ok {
			t.Errorf("%s gave %+v", name, f)
		}
	}
	f, ok := feature.OfTokens([]sdk.TokenLogProb{{LogProb: math.Inf(-1)}})
	if !ok || math.IsInf(f.Perplexity, 0) || math.IsNaN(f.MeanEntropy) {
		t.Errorf("probability zero gave %+v", f)
	}
}

func TestClasses(t *testing.T) {
	answer := []sdk.TokenLogProb{
		{Token: "The "},
		{Token: " Yes", LogProb: math.Log(0.6), Top: []sdk.TopLogProb{
			{Token: " Yes", LogProb: math.Log(0.6)}, {Token: "no", LogProb: math.Log(0.2)}, {Token: "maybe", LogProb: math.Log(0.1)},
		}},
	}
	p, ok := feature.Classes(answer, []string{"no", "yes"})
	if !ok {
		t.Fatal("no class found")
	}
	near(t, "yes", p[1], 0.75)
	near(t, "no", p[0], 0.25)
	near(t, "entropy", feature.Entropy(p), 2*math.Ln2-0.75*math.Log(3))
	if _, ok := feature.Classes(answer[:1], []string{"no", "yes"}); ok {
		t.Error("a token that names no class gave a distribution")
	}
	shared, _ := feature.Classes([]sdk.TokenLogProb{{Token: "neu"}}, []string{"neutral", "neuter"})
	near(t, "shared", shared[0], 0.5)
}

func TestJensenShannon(t *testing.T) {
	near(t, "equal", feature.JensenShannon([]float64{0.3, 0.7}, []float64{0.3, 0.7}), 0)
	near(t, "disjoint", feature.JensenShannon([]float64{1, 0}, []float64{0, 1}), math.Ln2)
	p, q := []float64{0.9, 0.1}, []float64{0.4, 0.6}
	near(t, "symmetric", feature.JensenShannon(p, q), feature.JensenShannon(q, p))
}

func ExampleOfTokens() {
	f, _ := feature.OfTokens([]sdk.TokenLogProb{{Token: "4", LogProb: math.Log(0.5)}, {Token: "2", LogProb: math.Log(0.5)}})
	fmt.Printf("%d tokens, perplexity %.1f\n", f.Count, f.Perplexity)
	// Output: 2 tokens, perplexity 2.0
}

func BenchmarkOfTokens(b *testing.B) {
	tokens := make([]sdk.TokenLogProb, 500)
	for i := range tokens {
		tokens[i] = token("x", 0.7, 0.2, 0.05, 0.01)
	}
	b.ReportAllocs()
	for b.Loop() {
		feature.OfTokens(tokens)
	}
}
