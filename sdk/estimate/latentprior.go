package estimate

// latentPrior is the prior of the slopes of latent. Few outcomes leave single slopes
// uncertain, and the distribution over all models is the best guess then.
type latentPrior struct{ slope, precision float64 }

// learnPrior fits the prior to the slopes (empirical Bayes), with the curvature of the
// likelihood as the uncertainty of each. all has the weights of the outcomes by group,
// model and node.
func (f *latentFit) learnPrior(all [][][]float64) {
	// A pseudo-observation of slope 1, and one a unit away from the mean, regularise
	// the prior for few models.
	sum, squares := 1.0, 1.0
	for _, s := range f.Slope {
		sum += s
	}
	n := float64(len(f.Slope))
	mean := sum / (n + 1)
	for i, s := range f.Slope {
		information := f.slopes.precision
		for g := range f.Mean {
			for k, w := range all[g][i] {
				p, z := f.tables.p[g][i][k], f.Nodes[k]
				information += w * p * (1 - p) * z * z
			}
		}
		squares += (s-mean)*(s-mean) + 1/information
	}
	f.slopes = latentPrior{slope: mean, precision: (n + 2) / squares}
	f.learnShifts(all)
}

// learnShifts fits the precision of the prior of the shifts of models in groups in the same
// way, with pseudo-observations of the usual size.
func (f *latentFit) learnShifts(all [][][]float64) {
	const usual = 20
	n, squares := float64(usual), usual/float64(shiftPrecision)
	for g := range f.Groups {
		for i := range f.Base {
			information := f.shifts
			for k, w := range all[g][i] {
				p := f.tables.p[g][i][k]
				information += w * p * (1 - p)
			}
			squares += f.Shift[g][i]*f.Shift[g][i] + 1/information
			n++
		}
	}
	f.shifts = n / squares
}
