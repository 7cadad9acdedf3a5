package runner

import (
	"cmp"
	"encoding/xml"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

type junit struct {
	// reports are paths of JUnit files, or patterns of them.
	reports []string
}

func (j *junit) Plan(argv []string, tree *Tree, _ string) (*Plan, error) {
	plan := &Plan{Argv: slices.Clone(argv), Reports: j.reports, classes: classesOf(tree)}
	for _, file := range tree.Files {
		if slices.ContainsFunc(j.reports, func(report string) bool { return jail.Match(report, file) }) {
			// A report of an earlier run must not be mistaken for this one's.
			plan.Changes = append(plan.Changes, jail.Change{Path: file, Delete: true})
		}
	}
	return plan, nil
}

// notFetched matches messages of Maven and Gradle about a plugin or library that their repositories on this
// machine lack.
var notFetched = regexp.MustCompile(`\w[^\]\n]* in offline mode and the artifact \S+ has not been downloaded from it before|No cached version of .* available for offline mode`)

func (j *junit) Read(plan *Plan, result *jail.Result) *Report {
	report := &Report{}
	for _, name := range slices.Sorted(maps.Keys(result.Reports)) {
		one := readJUnit(result.Reports[name])
		if one.Broken != "" {
			report.Broken = name + ": " + one.Broken + "\n" + lastOutput(result)
			return report
		}
		report.Tests = append(report.Tests, one.Tests...)
	}
	if len(result.Reports) == 0 {
		report.Broken = lastOutput(result)
		report.Unfit = string(notFetched.Find(result.Stdout))
		return report
	}
	report.Files = plan.sources(report.Tests)
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
	// The root element is testsuites or testsuite; both nest.
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
		switch failure := cmp.Or(c.Failure, c.Error); {
		case failure != nil:
			test.Status, test.Output = Fail, tail(failure.Message+"\n"+failure.Text, maxOutput)
		case c.Skipped != nil:
			test.Status = Skip
		}
		test.Group = strings.TrimSpace(test.Group)
		report.Tests = append(report.Tests, test)
	}
}
