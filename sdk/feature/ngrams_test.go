package feature_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stepfall/stepfall/sdk/feature"
)

func ngrams(text string) []float64 {
	counts := make([]float64, 1<<12)
	feature.NGrams(text, counts)
	return counts
}

func TestNGrams(t *testing.T) {
	if n := feature.NGrams("Sum the 12 primes, below 97!", make([]float64, 64)); n != 8 {
		t.Errorf("%d words", n)
	}
	same := [][2]string{
		{"How many eggs?", "how  MANY\neggs ?"},
		{"add 17 and 23", "add 40 and 99"}, // numbers count by their length
		{"Straße", "straße"},
	}
	for _, pair := range same {
		if !slices.Equal(ngrams(pair[0]), ngrams(pair[1])) {
			t.Errorf("%q and %q differ", pair[0], pair[1])
		}
	}
	differ := [][2]string{
		{"dog bites man", "man bites dog"},
		{"add 1", "add 100"},
		{"a+b", "a-b"},
		{"", "x"},
	}
	for _, pair := range differ {
		if slices.Equal(ngrams(pair[0]), ngrams(pair[1])) {
			t.Errorf("%q and %q are the same", pair[0], pair[1])
		}
	}
	if c := ngrams(" \n\t"); slices.ContainsFunc(c, func(v float64) bool { return v != 0 }) {
		t.Error("white space counts")
	}
	if n := feature.NGrams("\xff\xfe bad \x00", make([]float64, 8)); n == 0 {
		t.Error("a text that is not UTF-8 has no words")
	}
}

func FuzzNGrams(f *testing.F) {
	f.Add("Sum of 12 primes ß \xff", 64)
	f.Add("", 1)
	f.Fuzz(func(t *testing.T, text string, buckets int) {
		if buckets < 1 || buckets > 1<<12 {
			return
		}
		counts := make([]float64, buckets)
		n := feature.NGrams(text, counts)
		for _, c := range counts {
			if math.IsNaN(c) || math.Abs(c) > math.Log1p(float64(2*n)) {
				t.Fatalf("count %v of %d words", c, n)
			}
		}
	})
}

func BenchmarkNGrams(b *testing.B) {
	text := ""
	for range 40 {
		text += "A train leaves at 10:45 and travels 120 miles; "
	}
	counts := make([]float64, 1<<12)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		feature.NGrams(text, counts)
	}
}
