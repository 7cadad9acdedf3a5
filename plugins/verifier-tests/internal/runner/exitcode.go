package runner

import (
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// exitCode runs any command: 0 is one test passed.
type exitCode struct{}

func (exitCode) Name() string { return "exit code" }

// Confidence: see [Runner].
func (exitCode) Confidence() float64 { return exited }

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
