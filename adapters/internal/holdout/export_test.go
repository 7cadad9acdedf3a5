package holdout

// Functions that only tests outside the package use.
var (
	Compare    = compare
	Proportion = proportion
)

// Arm adds up runs.
type Arm = arm
