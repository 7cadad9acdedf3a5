package runner

import (
	"cmp"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// exitCode runs any command as a single test, which passes if the exit code is 0. If the tree IsHooked, the
// tests of jest, vitest, mocha or tape take its place.
type exitCode struct{ tools *goTest }

// Plan gives a command in a tree with a Go module, make for instance, what the go command needs from this
// machine. The outermost module is compiled first.
func (e exitCode) Plan(argv []string, tree *Tree, nonce string) (*Plan, error) {
	plan := &Plan{Argv: slices.Clone(argv), command: strings.Join(argv, " ")}
	if tree.IsHooked {
		hook(plan, nonce)
	}
	var folders []string
	for _, file := range tree.Files {
		if path.Base(file) == "go.mod" {
			folders = append(folders, path.Dir(file))
		}
	}
	if len(folders) == 0 || e.tools.Foreign {
		return plan, nil
	}
	slices.SortFunc(folders, func(a, b string) int {
		return cmp.Or(strings.Count(path.Join("/", a), "/")-strings.Count(path.Join("/", b), "/"), strings.Compare(a, b))
	})
	program, err := exec.LookPath("go")
	if err == nil {
		err = e.tools.useToolchain(plan, []string{program, "test", "-C=" + folders[0], "./..."}, tree.Dir)
	}
	if err == nil { // without Go the command will say so itself
		plan.Env = append(slices.Clone(goVariables), plan.Env...)
	}
	return plan, nil
}

func (exitCode) Read(plan *Plan, result *jail.Result) *Report {
	if plan.key != "" {
		return readHooked(plan, result)
	}
	test := Test{Name: plan.command, Status: Pass}
	report := &Report{IsWhole: true}
	if result.ExitCode != 0 {
		test.Status, test.Output = Fail, lastOutput(result)
		report.Unfit = strings.TrimSpace(notInstalled.FindString(test.Output))
	}
	report.Tests = []Test{test}
	return report
}

// notInstalled matches messages of Python, shells and make about a tool that is not installed. It does not
// match a path, since the answer may have to create that program.
var notInstalled = regexp.MustCompile(`(?m)^\S*python[\d.]*: No module named '?(pytest|nose2?|tox|nox|coverage)'?$|` +
	`^(\S+: (line )?\d+|(\S*/)?(ba|da|a)?sh): [\w.-]+: (command )?not found$|` +
	`^g?make(\[\d+\])?: [\w.-]+: (No such file or directory|Command not found)$`)
