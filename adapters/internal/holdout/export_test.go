package holdout

import "strings"

// Exports for tests outside the package.
var (
	Compare    = compare
	Proportion = proportion
)

// Arm adds up runs.
type Arm = arm

// Dearer and Worse report the two kinds of significant harm.
func (c *Comparison) Dearer() bool { return strings.Contains(c.Harm(), "costs more") }
func (c *Comparison) Worse() bool  { return strings.Contains(c.Harm(), "of its runs") }
