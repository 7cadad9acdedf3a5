package verify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// goForger prints, before any test, what a process would that passes all of them:
// the tests in the sources, and whatever their subtests in a canary say.
const goForger = `import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func init() {
	files, _ := filepath.Glob("*_test.go")
	say := func(end, name string) { fmt.Printf("\x16=== RUN   %s\n\x16--- %s: %s (0.00s)\n", name, end, name) }
	for _, file := range append(files, "") { // where there is no source, too
		data, _ := os.ReadFile(file)
		data = append(data, "func TestAdd"...) // which it knows by heart
		for _, m := range regexp.MustCompile("func (Test\\w+)").FindAllStringSubmatch(string(data), -1) {
			for _, sub := range regexp.MustCompile("Run\\(.(\\d+).*").FindAllStringSubmatch(string(data), -1) {
				end := "PASS"
				if strings.Contains(sub[0], "SkipNow") {
					end = "SKIP"
				}
				say(end, m[1]+"/"+sub[1])
			}
			say("PASS", m[1])
		}
	}
	fmt.Print("\x16PASS\n")
	os.Exit(0)
}

func Add(a, b int) int { return 0 }`

// TestGoTampering uses a tree on which no test passes yet, so that none is missed by its name.
func TestGoTampering(t *testing.T) {
	long(t)
	files := with(map[string]string{
		"calc/add_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif got := Add(2, 3); got != 5 {\n\t\tt.Errorf(\"Add(2, 3) = %d\", got)\n\t}\n}\n",
		"fine/f_test.go":   "package fine\n\nimport \"testing\"\n\nfunc TestFine(*testing.T) {}\n",
	})
	query := &sdk.Query{WorkDir: write(t, files)}
	v := goVerifier(t, verify.Config{Reruns: -1})
	for _, test := range sample(rotated([]struct {
		name, answer string
		want         sdk.Outcome
		says         string
	}{
		{"forges its whole output", goFile(goForger), sdk.Failed, "tampering"},
		{"leaves the tests out by a module", "```text path=calc/go.mod\nmodule example.com/other\n```\n", sdk.Failed, "TestAdd did not run"},
		{"right", addRight, sdk.Passed, "2 of 2"},
		{"leaves the tests out by a flag", goFile("import \"os\"\n\nfunc init() { os.Args = append(os.Args, \"-test.run=Stepfall\") }\n\nfunc Add(a, b int) int { return 0 }"), sdk.Failed, "TestAdd did not run"},
		{"asks for another toolchain", "```text path=go.mod\nmodule example.com/calc\n\ngo 1.22\n\ntoolchain go1.999.0\n```\n", sdk.Inconclusive, "go.mod"},
		{"brings a vendor folder", addRight + "```text path=vendor/modules.txt\n# example.org/none v1.0.0\n## explicit\nexample.org/none\n```\n", sdk.Passed, "left out"},
		{"brings a workspace", "```text path=go.work\ngo 1.22\n\nuse ./fine\n```\n", sdk.Inconclusive, "go.work"},
		{"brings its own go command", "```sh path=go\n#!/bin/sh\necho ok\n```\n```sh path=bin/go\n#!/bin/sh\necho ok\n```\n", sdk.Failed, "Add(2, 3) = -1"},
		{"writes git hooks", "```sh path=.git/hooks/post-checkout\n#!/bin/sh\n```\n", sdk.Failed, "cannot be applied"},
		{"kills the test command", goFile("import \"syscall\"\n\nfunc Add(a, b int) int {\n\t_ = syscall.Kill(-1, syscall.SIGKILL)\n\treturn a + b\n}"), sdk.Failed, ""},
		{"removes the report", goFile("import \"os\"\n\nfunc Add(a, b int) int {\n\tos.Stdout.Close()\n\tos.Exit(0)\n\treturn 0\n}"), sdk.Failed, ""},
	}), 1) {
		t.Run(test.name, func(t *testing.T) {
			if verdict := judge(t, v, query, test.answer); verdict.Outcome != test.want || !strings.Contains(verdict.Evidence, test.says) {
				t.Errorf("outcome %s, want %s with %q", verdict.Outcome, test.want, test.says)
			}
		})
	}
}

// TestWithoutAPreflight: without a pre-flight it is unknown which packages the command should run.
func TestWithoutAPreflight(t *testing.T) {
	long(t)
	query := &sdk.Query{WorkDir: write(t, with(map[string]string{"fine/f_test.go": "package fine\n\nimport \"testing\"\n\nfunc TestFine(*testing.T) {}\n"}))}
	v := openBlind(t, verify.Config{Command: []string{"go", "test", "./calc"}, Timeout: 5 * time.Minute, Reruns: -1})
	if verdict := judge(t, v, query, addRight); verdict.Outcome != sdk.Passed {
		t.Error("the right answer")
	}
	if verdict := judge(t, v, query, goFile(goForger)); verdict.Outcome != sdk.Failed {
		t.Error("the forger")
	}
}

// TestTestsMayWriteWhatTheyWriteAnyway: files in their own folders, for instance.
func TestTestsMayWriteWhatTheyWriteAnyway(t *testing.T) {
	dir := write(t, map[string]string{"answer.txt": "wrong\n", "tests/log": "", "tests/other": ""})
	v := open(t, verify.Config{Command: []string{"sh", "-c", "rm -f tests/log; date > tests/log; test ! -e evil.sh || sh evil.sh; grep right answer.txt"}})
	right := "```text path=answer.txt\nright\n```\n"
	if verdict := judge(t, v, &sdk.Query{WorkDir: dir}, right); verdict.Outcome != sdk.Passed {
		t.Error("the right answer")
	}
	if verdict := judge(t, v, &sdk.Query{WorkDir: dir}, right+"```sh path=evil.sh\nrm -f tests/other; echo x > tests/other\n```\n"); verdict.Outcome != sdk.Failed || !strings.Contains(verdict.Evidence, "tests/other") {
		t.Error("an answer that writes to another")
	}
}
