package fit

import (
	"context"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome/outcometest"
)

// BenchmarkCurve fits the whole curve of every strategy to all queries, on signals drawn
// with noise: more of an estimate, and so more work, than the outcomes alone.
func BenchmarkCurve(b *testing.B) {
	for _, set := range []string{"11", "all"} {
		table := estimate.Simulate(outcometest.Zeroeval(b, set), estimate.NoiseLevels()["medium"], 1)
		for _, name := range []string{cascade.NameRoute, cascade.NameThreshold, cascade.NameCascade, cascade.NameCascadeRoute, cascade.NameIndex} {
			b.Run(set+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Fit(context.Background(), table, Options{Strategy: name}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
