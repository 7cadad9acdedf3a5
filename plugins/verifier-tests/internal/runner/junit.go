package runner

import (
	"encoding/xml"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// junit runs a command that writes a JUnit file.
type junit struct {
	anyLanguage
	report string
	guards []string
}

func (*junit) Name() string { return "JUnit" }

// Confidence: see [Runner].
func (*junit) Confidence() float64 { return reported }

func (j *junit) Guards() []string { return j.guards }

func (j *junit) Plan(argv []string, tree *Tree, _ string) (*Plan, error) {
	plan := &Plan{Argv: slices.Clone(argv), Reports: []string{j.report}}
	if slices.Contains(tree.Files, j.report) {
		// A report of an earlier run must not be taken for this one's.
		plan.Changes = []jail.Change{{Path: j.report, Delete: true}}
	}
	return plan, nil
}

func (j *junit) Read(_ *Plan, result *jail.Result) *Report {
	data, ok := result.Reports[j.report]
	if !ok {
		return &Report{Broken: lastOutput(result)}
	}
	report := readJUnit(data)
	if report.Broken != "" {
		report.Broken += "\n" + lastOutput(result)
		return report
	}
	report.check(result)
	return report
}

type testSuite struct {
	Name   string      `xml:"name,attr"`
	Suites []testSuite `xml:"testsuite"`
	Cases  []testCase  `xml:"testcase"`
}

type testCase struct {
	Name    string   `xml:"name,attr"`
	Class   string   `xml:"classname,attr"`
	File    string   `xml:"file,attr"`
	Failure *problem `xml:"failure"`
	Error   *problem `xml:"error"`
	Skipped *problem `xml:"skipped"`
}

type problem struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func readJUnit(data []byte) *Report {
	// The outermost element is testsuites or testsuite; both nest.
	var root testSuite
	if err := xml.Unmarshal(data, &root); err != nil {
		return &Report{Broken: "the report is no JUnit file: " + err.Error()}
	}
	report := &Report{}
	root.collect(report)
	return report
}

func (s *testSuite) collect(report *Report) {
	for i := range s.Suites {
		s.Suites[i].collect(report)
	}
	for _, c := range s.Cases {
		test := Test{Group: c.Class, Name: c.Name, Status: Pass}
		if test.Group == "" || test.Group == "test" {
			test.Group = c.File
		}
		switch {
		case c.Failure != nil:
			test.Status, test.Output = Fail, tail(c.Failure.Message+"\n"+c.Failure.Text, maxOutput)
		case c.Error != nil:
			test.Status, test.Output = Fail, tail(c.Error.Message+"\n"+c.Error.Text, maxOutput)
		case c.Skipped != nil:
			test.Status = Skip
		}
		test.Group = strings.TrimSpace(test.Group)
		report.Tests = append(report.Tests, test)
	}
}
