package estimate

// latentPrior is what the slopes of latent are drawn to. Few outcomes leave single
// slopes uncertain, and what is usual among the models is the best guess at the rest.
type latentPrior struct{ slope, precision float64 }

// learnPrior sets the prior to what the slopes show: empirical Bayes, with the
// curvature of the likelihood for the uncertainty of each. All is the weight of the
// outcomes by group, model and node.
func (f *latentFit) learnPrior(all [][][]float64) {
	// One slope of 1, and one that lies a unit from the mean, keep those of few
	// models in place.
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

// learnShifts sets how strongly the shifts of models in groups are drawn to none, in the
// same way: as if shifts of the usual size had been seen besides.
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
