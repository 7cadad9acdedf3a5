package runner

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
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

// maxHooked limits the reports of one command, each of a process that runs tests.
const maxHooked = 9

// hook has each process of Node load a module that reports the tests of jest, vitest, mocha and tape. It has no
// extension, so that no linter takes it for a part of the tree.
func hook(plan *Plan, nonce string) {
	dir := ".stepfall-" + strings.ToLower(nonce)
	plan.key = rand.Text()
	plan.Changes = append(plan.Changes, jail.Change{Path: dir + "/hook", Data: []byte(hookNode)}, jail.Change{Path: dir + "/key", Data: []byte("1" + plan.key)})
	plan.Guarded = append(plan.Guarded, dir+"/hook")
	for i := range maxHooked {
		plan.Reports = append(plan.Reports, fmt.Sprintf("%s/report-%d", dir, i+1))
	}
	// The shell knows where the tree is.
	set := `NODE_OPTIONS="--require=\"$PWD/` + dir + `/hook\"${NODE_OPTIONS:+ $NODE_OPTIONS}" exec "$@"`
	plan.Argv = slices.Concat([]string{"sh", "-c", set, "sh"}, plan.Argv)
}

// readHooked returns the tests that the processes of a command reported, or nil if none did.
func readHooked(plan *Plan, result *jail.Result) *Report {
	report, key := &Report{}, plan.key
	for _, name := range plan.Reports {
		data := result.Reports[name]
		sum := sign(key, data[min(len(data), 2*sha256.Size):])
		if len(data) < len(sum) || sum != string(data[:len(sum)]) || report.add(data[len(sum):]) != nil {
			break
		}
		key = sign(key, []byte("next"))
	}
	if len(report.Tests) == 0 {
		return nil
	}
	for _, test := range report.Tests {
		if test.Group != "" && !strings.HasPrefix(test.Group, "..") && !slices.Contains(report.Files, test.Group) {
			report.Files = append(report.Files, path.Clean(test.Group))
		}
	}
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
