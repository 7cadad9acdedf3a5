package verify

import "time"

// CompileFrom sets the processor time from which on packages are compiled first.
func (v *Verifier) CompileFrom(d time.Duration) *Verifier {
	v.compileFrom = d
	return v
}
