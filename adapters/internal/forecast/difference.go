package forecast

import "slices"

// Difference is how a forecast differs from another, per query. Both are of one world, so
// that they are compared query by query.
type Difference struct {
	USD, USDStdError         float64
	Quality, QualityStdError float64
	// Judged is the number of queries whose answer is judged in both.
	Judged int
}

// Minus returns f less base, which must be of the same world.
func (f *Forecast) Minus(base *Forecast) (d Difference) {
	pairs := Forecast{samples: slices.Clone(f.samples), resampled: f.resampled}
	for i := range pairs.samples {
		s, b := &pairs.samples[i], &base.samples[i]
		s.usd -= b.usd
		s.quality -= b.quality
		if s.isJudged && b.isJudged {
			d.Judged++
		}
	}
	d.USD, d.USDStdError, _ = pairs.figure(func(s *sample) (float64, bool) { return s.usd, true })
	d.Quality, d.QualityStdError, _ = pairs.figure(func(s *sample) (float64, bool) { return s.quality, true })
	return d
}
