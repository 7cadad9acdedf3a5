package forecast

import "slices"

// Difference is the difference of two forecasts per query. Both are from the same world, so they are compared query
// by query.
type Difference struct {
	USD, USDStdError         float64
	Quality, QualityStdError float64
	// Judged is the number of queries with a judged answer in both.
	Judged int
}

// Minus returns f minus base, which must be from the same world.
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
