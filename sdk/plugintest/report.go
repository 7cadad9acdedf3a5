package plugintest

import "time"

// Status is the result of one check.
type Status string

// The results.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// Result is the result of one check of one role.
type Result struct {
	// Name says what was checked: "verifier/order".
	Name   string
	Status Status
	// Message says what is wrong, or why the check does not apply.
	Message  string
	Duration time.Duration
}

// Report is what a run found.
type Report struct {
	Plugin  string
	Version string
	Results []Result
}

// OK reports whether nothing failed.
func (r *Report) OK() bool { return r.Count(Failed) == 0 }

// Count returns how many checks ended so.
func (r *Report) Count(s Status) int {
	n := 0
	for _, result := range r.Results {
		if result.Status == s {
			n++
		}
	}
	return n
}
