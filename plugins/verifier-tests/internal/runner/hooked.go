package runner

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// hooked matches words that start a framework which runs the tests in the files that follow.
var hooked = regexp.MustCompile(`(^|/)(jest(\.js)?|vitest(\.mjs)?)$`)

// Narrow appends the files if the command is jest or vitest.
func (exitCode) Narrow(argv []string, tree *Tree, files []string) []string {
	if !slices.ContainsFunc(argv, hooked.MatchString) || slices.Contains(argv, "--") {
		return argv
	}
	return appendFiles(argv, tree, files)
}

// restName is the name of a test that stands for what a command does besides its tests, which all passed. Unlike after
// [CommandName], they were run.
const restName = "(rest of the command)"

// frameworks are those whose tests are reported; other trees have no key that code could find.
var frameworks = []string{"jest", "jest-cli", "vitest", "mocha", "tape"}

// hook has each process of Node load a module that reports the tests of jest, vitest, mocha and tape. It has no
// extension, so that no linter takes it for a part of the tree.
func hook(plan *Plan, nonce string) {
	dir := ".stepfall-" + strings.ToLower(nonce)
	plan.key, plan.Reports, plan.Guarded = rand.Text(), []string{dir + "/report"}, []string{dir + "/hook"}
	plan.Changes = []jail.Change{{Path: dir + "/hook", Data: []byte(hookNode)}, {Path: dir + "/key", Data: []byte(plan.key)}}
	// The shell knows where the tree is.
	set := `NODE_OPTIONS="--require=\"$PWD/` + dir + `/hook\"${NODE_OPTIONS:+ $NODE_OPTIONS}" exec "$@"`
	plan.Argv = slices.Concat([]string{"sh", "-c", set, "sh"}, plan.Argv)
}

// readHooked returns the tests that the processes of a command reported, each in a line, or nil if none did.
func readHooked(plan *Plan, result *jail.Result) *Report {
	report, key := &Report{}, plan.key
	for line := range bytes.Lines(result.Reports[strings.Join(plan.Reports, "")]) {
		seal, text, _ := bytes.Cut(line, []byte(" "))
		if sign(key, text) != string(seal) {
			break
		}
		report.Tests = append(report.Tests, readSealed(text).Tests...)
		key = sign(key, []byte("next"))
	}
	if len(report.Tests) == 0 {
		return nil
	}
	for _, test := range report.Tests {
		report.Files = append(report.Files, test.Group)
	}
	slices.Sort(report.Files)
	report.Files = slices.Compact(report.Files)
	if result.ExitCode != 0 && Worst(report.Tests) != Fail {
		report.Tests = append(report.Tests, Test{Name: restName, Status: Fail, Output: lastOutput(result)})
	}
	return report
}

func sign(key string, text []byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(text)
	return hex.EncodeToString(mac.Sum(nil))
}
