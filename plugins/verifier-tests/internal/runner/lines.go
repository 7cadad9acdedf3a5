package runner

import (
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// lines runs a command that prints a line for each test.
type lines struct {
	name string
	// test finds a test's name, perhaps its group, and its end in a line.
	test *regexp.Regexp
	// broken is what a line begins with that says why no test could run.
	broken string
	add    []string
	env    []string
}

var (
	cargoLine    = regexp.MustCompile(`(?m)^test (?P<name>\S+)(?: - should panic)? \.\.\. (?P<end>ok|FAILED|ignored)`)
	unittestLine = regexp.MustCompile(`(?m)^(?P<name>\w+) \((?P<group>[\w.]+)\)(?:\n.*?)? \.\.\. (?:.*?)(?P<end>ok|FAIL|ERROR|skipped|expected failure|unexpected success)`)
)

func (l *lines) Name() string { return l.name }

func (l *lines) Plan(argv []string, _ *Tree, _ string) (*Plan, error) {
	return &Plan{Argv: append(slices.Clone(argv), l.add...), Env: l.env}, nil
}

func (l *lines) Read(_ *Plan, result *jail.Result) *Report {
	output := string(result.Stdout) + "\n" + string(result.Stderr)
	report := &Report{}
	seen := map[string]int{}
	for _, match := range l.test.FindAllStringSubmatch(output, -1) {
		test := Test{Name: match[l.test.SubexpIndex("name")], Status: Fail}
		if i := l.test.SubexpIndex("group"); i >= 0 {
			test.Group = strings.TrimSuffix(match[i], "."+test.Name)
		}
		switch match[l.test.SubexpIndex("end")] {
		case "ok", "expected failure":
			test.Status = Pass
		case "ignored", "skipped":
			test.Status = Skip
		}
		if at, ok := seen[test.ID()]; ok {
			// Whatever failed once has failed.
			if test.Status == Fail {
				report.Tests[at].Status = Fail
			}
			continue
		}
		seen[test.ID()] = len(report.Tests)
		report.Tests = append(report.Tests, test)
	}
	failed := slices.ContainsFunc(report.Tests, func(t Test) bool { return t.Status == Fail })
	switch {
	case len(report.Tests) == 0 || l.broken != "" && result.ExitCode != 0 && !failed:
		report.Broken = lastOutput(result)
	case result.ExitCode == 0 && failed:
		report.Tampering = append(report.Tampering, "the command reported failures and ended as if there were none")
	case result.ExitCode != 0:
		report.Tests = append(report.Tests, Test{Name: "(command)", Status: Fail, Output: lastOutput(result)})
	}
	return report
}

// exitCode runs any command: 0 is one test passed.
type exitCode struct{}

func (exitCode) Name() string { return "exit code" }

func (exitCode) Plan(argv []string, _ *Tree, _ string) (*Plan, error) {
	return &Plan{Argv: slices.Clone(argv)}, nil
}

func (exitCode) Read(plan *Plan, result *jail.Result) *Report {
	test := Test{Name: strings.Join(plan.Argv, " "), Status: Pass}
	if result.ExitCode != 0 {
		test.Status, test.Output = Fail, lastOutput(result)
	}
	return &Report{Tests: []Test{test}}
}
