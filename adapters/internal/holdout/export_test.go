package holdout

// Functions that only tests outside the package use.
var (
	Mean       = mean
	Proportion = proportion
)
