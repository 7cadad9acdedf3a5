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
	// Name is the name of the check, such as "verifier/order".
	Name   string
	Status Status
	// Message is the reason why the check failed or was skipped.
	Message  string
	Duration time.Duration
}

// Report has the results of a run.
type Report struct {
	Plugin  string
	Version string
	Results []Result
}

// OK reports whether no check failed.
func (r *Report) OK() bool { return r.Count(Failed) == 0 }

// Count returns the number of checks with the status s.
func (r *Report) Count(s Status) int {
	n := 0
	for _, result := range r.Results {
		if result.Status == s {
			n++
		}
	}
	return n
}
