package fit

import (
	"math"

	"github.com/stepfall/stepfall/sdk"
)

// runForecast compares how many runs were right, by verdicts on them, with the profile's forecast.
type runForecast struct {
	// Runs counts the runs with a verdict whose steps the profile decided, all of them.
	Runs int `json:"runs"`
	// Expected is the mean probability that all answers of a run are right, each as the profile believed when the step
	// ended, and Observed the share of right runs.
	Expected float64 `json:"expected"`
	Observed float64 `json:"observed"`
	// Holds reports that the two differ by no more than chance.
	Holds bool `json:"holds"`
}

// forecastRuns returns nil if fewer than leastDrift runs can be compared. The forecast is as uncertain as the mean of the
// runs that the profile was fitted to.
func forecastRuns(p *Profile, traces []*sdk.Trace) *runForecast {
	right, verdicts := map[[2]string]float64{}, map[[2]string]float64{}
	for _, t := range traces {
		run := [2]string{t.Tenant, t.Run}
		if v, isReport := t.RunVerdict(); isReport {
			delete(verdicts, run)
			if quality, judged := v.Quality(); judged {
				verdicts[run] = quality
			}
		}
		if !sdk.HasChoice(t.Mode) || t.Mode == "shadow_alternative" {
			continue
		}
		if _, isKnown := right[run]; !isKnown {
			right[run] = 1
		}
		right[run] *= chosenQuality(p, t)
	}
	sum := &tally{}
	for run, quality := range verdicts {
		if chance, isKnown := right[run]; isKnown && !math.IsNaN(chance) {
			sum.add(chance, quality, quality-chance, bernoulliVariance(chance), 1)
		}
	}
	if sum.n < leastDrift {
		return nil
	}
	now := sum.offset("")
	_, unlikely := welchTest(now, Offset{Count: max(1, float64(p.Data.Queries)/max(1, p.Data.StepsPerRun)), Variance: now.Variance})
	return &runForecast{Runs: int(sum.n), Expected: sum.expected / sum.n, Observed: sum.observed / sum.n, Holds: unlikely >= falseAlarm}
}

// chosenQuality returns the quality that the profile believed of a step's answer in the end, or NaN if unknown.
func chosenQuality(p *Profile, t *sdk.Trace) float64 {
	quality := math.NaN()
	for i := range t.Calls {
		if c := &t.Calls[i]; c.Model == t.Chosen && c.Error == "" && c.Quality.Mean > 0 && p.HasDecided(t) {
			quality = c.Quality.Mean
		}
	}
	return quality
}
