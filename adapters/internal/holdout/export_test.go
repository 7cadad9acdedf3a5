package holdout

// Exports for tests outside the package.
var (
	Compare    = compare
	Proportion = proportion
)

// Arm adds up runs.
type Arm = arm
