package plugintest

import (
	"encoding/xml"
	"fmt"
	"io"
	"time"
)

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
	Path    string
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

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Seconds  string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Seconds string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure,omitempty"`
	Skipped *junitMessage `xml:"skipped,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
}

// WriteJUnit writes the report in the XML form that CI systems read.
func (r *Report) WriteJUnit(w io.Writer) error {
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
	suite := junitSuite{Name: "plugin conformance: " + r.Plugin, Tests: len(r.Results), Failures: r.Count(Failed), Skipped: r.Count(Skipped)}
	var total time.Duration
	for _, result := range r.Results {
		total += result.Duration
		c := junitCase{Class: r.Plugin, Name: result.Name, Seconds: seconds(result.Duration)}
		switch result.Status {
		case Failed:
			c.Failure = &junitMessage{Message: result.Message}
		case Skipped:
			c.Skipped = &junitMessage{Message: result.Message}
		}
		suite.Cases = append(suite.Cases, c)
	}
	suite.Seconds = seconds(total)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
