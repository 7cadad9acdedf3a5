package runner

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/stepfall/stepfall/sdk/jail"
)

var (
	// hooked matches words that start a framework which runs the tests in the files that follow.
	hooked = regexp.MustCompile(`(^|/)(jest(\.js)?|vitest(\.mjs)?)$`)
	// frameworks matches the programs of those whose tests are reported.
	frameworks = regexp.MustCompile(`^(jest|vitest|_?mocha|tape)(\.m?js)?$`)
	// elsewise matches words with which they do not run their tests, or not in one process.
	elsewise = regexp.MustCompile(`^(bench|list|init|watch|dev|related|typecheck)$|^-[hvpw]$|` +
		`(?i)^--(clear-?cache|list-?tests|show-?config|init|help|version|parallel|typecheck|workspaces?|projects?|watch)([=.A-Z]|$)`)
	// nodeFiles matches programs in JavaScript; valued matches options of Node with a value.
	nodeFiles = regexp.MustCompile(`^[^-].*\.[cm]?js$`)
	valued    = regexp.MustCompile(`^(-r|--(require|import|loader|experimental-loader))$`)
	silent    = regexp.MustCompile(`^(-s|--silent)$`)
)

// RunsFramework reports whether a command is one process of a framework whose tests are reported, and nothing else,
// which package managers may start.
func RunsFramework(argv []string, tree *Tree) bool {
	return (&follower{tree: tree}).isFramework(argv, 0)
}

func (f *follower) isFramework(words []string, depth int) bool {
	if len(words) == 0 || depth > maxFollowed {
		return false
	}
	rest := words[1:]
	switch program := path.Base(words[0]); {
	case program == "npm" || program == "yarn" || program == "pnpm":
		return f.isFrameworkScript(program, rest, depth+1)
	case program == "npx":
		return f.isFramework(rest, depth+1)
	case program == "sh" && len(rest) == 2 && rest[0] == "-c":
		return f.isFrameworkLine(rest[1], nil, depth+1)
	case program == "node":
		return f.isFrameworkFile(rest)
	default:
		return frameworks.MatchString(program) && !slices.ContainsFunc(rest, elsewise.MatchString)
	}
}

// isFrameworkFile is isFramework for the arguments of node: a program of a framework, or a test for tape.
func (f *follower) isFrameworkFile(words []string) bool {
	for len(words) > 1 && valued.MatchString(words[0]) {
		words = words[2:]
	}
	if len(words) == 0 {
		return false
	}
	if strings.Contains(words[0], "node_modules/") {
		return frameworks.MatchString(path.Base(words[0])) && !slices.ContainsFunc(words[1:], elsewise.MatchString)
	}
	_, err := os.Stat(filepath.Join(f.tree.Dir, "node_modules", "tape"))
	return err == nil && len(words) == 1 && nodeFiles.MatchString(words[0])
}

// isFrameworkScript is isFramework for the arguments of a package manager. Scripts before and after it are others.
func (f *follower) isFrameworkScript(manager string, words []string, depth int) bool {
	words = slices.DeleteFunc(slices.Clone(words), silent.MatchString)
	if len(words) > 1 && (words[0] == "run" || words[0] == "run-script") {
		words = words[1:]
	} else if len(words) == 0 || manager == "npm" && words[0] != "test" && words[0] != "t" {
		return false
	}
	name, more := words[0], words[1:]
	if name == "t" {
		name = "test"
	}
	if len(more) > 0 && more[0] == "--" {
		more = more[1:]
	} else if manager == "npm" && len(more) > 0 {
		return false
	}
	var content struct{ Scripts map[string]string }
	if json.Unmarshal([]byte(f.text("package.json")), &content) != nil || content.Scripts["pre"+name]+content.Scripts["post"+name] != "" {
		return false
	}
	return f.isFrameworkLine(content.Scripts[name], more, depth)
}

// isFrameworkLine is isFramework for a line of a shell and more words.
func (f *follower) isFrameworkLine(line string, more []string, depth int) bool {
	file, err := syntax.NewParser().Parse(strings.NewReader(line), "")
	if err != nil || len(file.Stmts) != 1 {
		return false
	}
	one := file.Stmts[0]
	call, ok := one.Cmd.(*syntax.CallExpr)
	if !ok || one.Background || one.Negated || one.Coprocess || len(one.Redirs) > 0 {
		return false
	}
	isPlain := !slices.ContainsFunc(call.Assigns, func(a *syntax.Assign) bool { return a.Name.Value == "NODE_OPTIONS" })
	syntax.Walk(file, func(node syntax.Node) bool {
		switch node.(type) {
		case *syntax.ParamExp, *syntax.CmdSubst, *syntax.ProcSubst, *syntax.ArithmExp:
			isPlain = false
		}
		return isPlain
	})
	return isPlain && f.isFramework(append(literals(call), more...), depth)
}

// Narrow appends the files if the command is jest or vitest and has its tests reported.
func (exitCode) Narrow(argv []string, tree *Tree, files []string) []string {
	if !tree.IsHooked || !slices.ContainsFunc(argv, hooked.MatchString) || slices.Contains(argv, "--") {
		return argv
	}
	return appendFiles(argv, tree, files)
}

// restName is the name of a test that stands for what a command does besides its tests, which all passed. Unlike after
// [CommandName], they were run.
const restName = "(rest of the command)"

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

// readHooked returns the tests that the process of a framework reported.
func readHooked(plan *Plan, result *jail.Result) *Report {
	seal, text, _ := bytes.Cut(result.Reports[strings.Join(plan.Reports, "")], []byte(" "))
	if sign(plan.key, text) != string(seal) {
		if result.ExitCode == 0 {
			return &Report{Tampering: []string{"the command reported success and left no report"}}
		}
		return &Report{Broken: lastOutput(result)}
	}
	report := &Report{Tests: readSealed(text).Tests}
	for _, test := range report.Tests {
		report.Files = append(report.Files, test.Group)
	}
	slices.Sort(report.Files)
	report.Files = slices.Compact(report.Files)
	hasFailed := Worst(report.Tests) == Fail
	if result.ExitCode != 0 && !hasFailed {
		report.Tests = append(report.Tests, Test{Name: restName, Status: Fail, Output: lastOutput(result)})
	}
	report.IsEntire = len(report.Files) > 0 && hasFailed == (result.ExitCode != 0)
	return report
}

func sign(key string, text []byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(text)
	return hex.EncodeToString(mac.Sum(nil))
}
