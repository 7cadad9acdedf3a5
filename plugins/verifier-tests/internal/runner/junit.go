package runner

import (
	"encoding/xml"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// junit runs a command that writes a JUnit file.
type junit struct {
	name   string
	report string
	// add goes after the arguments, insert before them.
	add, insert []string
	env         []string
}

func (j *junit) Name() string {
	if j.name == "" {
		return "JUnit"
	}
	return j.name
}

func (j *junit) Plan(argv []string, tree *Tree, _ string) (*Plan, error) {
	planned := slices.Insert(slices.Clone(argv), 1, j.insert...)
	plan := &Plan{Argv: append(planned, j.add...), Env: j.env, Reports: []string{j.report}}
	if slices.Contains(tree.Files, j.report) {
		// A report of an earlier run must not be taken for this one's.
		plan.Changes = []jail.Change{{Path: j.report, Delete: true}}
	}
	return plan, nil
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

func (j *junit) Read(_ *Plan, result *jail.Result) *Report {
	data, ok := result.Reports[j.report]
	if !ok {
		return &Report{Broken: lastOutput(result)}
	}
	// The outermost element is testsuites or testsuite; both nest.
	var root testSuite
	if err := xml.Unmarshal(data, &root); err != nil {
		return &Report{Broken: "the report is no JUnit file: " + err.Error() + "\n" + lastOutput(result)}
	}
	report := &Report{}
	root.collect(report)
	failed := slices.ContainsFunc(report.Tests, func(t Test) bool { return t.Status == Fail })
	switch {
	case len(report.Tests) == 0:
		report.Broken = lastOutput(result)
	case result.ExitCode == 0 && failed:
		report.Tampering = append(report.Tampering, "the report has failures and the command ended as if there were none")
	case result.ExitCode != 0 && !failed:
		report.Tests = append(report.Tests, Test{Name: "(command)", Status: Fail, Output: lastOutput(result)})
	}
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
