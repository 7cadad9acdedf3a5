package verify_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

var goTree = map[string]string{
	"go.mod":           "module example.com/calc\n\ngo 1.22\n",
	"calc/add.go":      "package calc\n\n// Add adds.\nfunc Add(a, b int) int {\n\treturn a - b\n}\n",
	"calc/add_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif got := Add(2, 3); got != 5 {\n\t\tt.Errorf(\"Add(2, 3) = %d\", got)\n\t}\n}\n\nfunc TestZero(t *testing.T) {\n\tif Add(0, 0) != 0 {\n\t\tt.Error(\"zero\")\n\t}\n}\n",
}

const addRight = "calc/add.go\n<<<<<<< SEARCH\n\treturn a - b\n=======\n\treturn a + b\n>>>>>>> REPLACE\n"

// goFile returns an answer that replaces calc/add.go.
func goFile(body string) string { return "```go path=calc/add.go\npackage calc\n\n" + body + "\n```\n" }

func goVerifier(t *testing.T, config verify.Config) *verify.Verifier {
	t.Helper()
	if config.Command == nil {
		config.Command = []string{"go", "test", "./..."}
	}
	if config.Timeout == 0 {
		config.Timeout = 5 * time.Minute // with nothing compiled yet
	}
	return open(t, config)
}

func with(more map[string]string) map[string]string {
	files := maps.Clone(goTree)
	maps.Copy(files, more)
	return files
}

func TestGo(t *testing.T) {
	long(t)
	v := goVerifier(t, verify.Config{Reruns: -1})
	query := &sdk.Query{WorkDir: write(t, goTree)}
	for _, test := range sample([]struct {
		name, answer string
		want         sdk.Outcome
		says         string
	}{
		{"right", addRight, sdk.Passed, "2 of 2"},
		{"wrong", strings.Replace(addRight, "a + b", "a * b", 1), sdk.Failed, "Add(2, 3) = 6"},
		{"does not compile", goFile("func Add(a, b int) string { return a }"), sdk.Failed, "cannot use"},
		{"does not apply", strings.Replace(addRight, "a - b", "a / b", 1), sdk.Failed, "cannot be applied"},
		{"no edit", "The sign is wrong.", sdk.Failed, "holds no edit"},
		{"panics", goFile("func Add(a, b int) int { panic(\"no\") }"), sdk.Failed, "panic"},
		{"needs a package that is not there", goFile("import \"example.org/none\"\n\nfunc Add(a, b int) int { return none.Add(a, b) }"), sdk.Failed, "example.org/none"},
		{"edits the test", "```go path=calc/add_test.go\npackage calc\n```\n", sdk.Failed, "left out"},
		{"edits the test and is right", addRight + "```go path=calc/add_test.go\npackage calc\n```\n", sdk.Passed, "left out"},
		{"adds a test that ends the process", "```go path=calc/main_test.go\npackage calc\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestMain(m *testing.M) { os.Exit(0) }\n```\n", sdk.Failed, "left out"},
		{"ends the process in init", goFile("import \"os\"\n\nfunc init() { os.Exit(0) }\n\nfunc Add(a, b int) int { return 0 }"), sdk.Failed, ""},
		{"ends the process in a test", goFile("import \"os\"\n\nfunc Add(a, b int) int { os.Exit(0); return 0 }"), sdk.Failed, ""},
		{"prints results and ends the process", goFile("import (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc init() {\n\tfmt.Print(\"\\x16=== RUN   TestAdd\\n\\x16--- PASS: TestAdd (0.00s)\\n\\x16=== RUN   TestZero\\n\\x16--- PASS: TestZero (0.00s)\\nPASS\\n\")\n\tos.Exit(0)\n}\n\nfunc Add(a, b int) int { return 0 }"), sdk.Failed, "tampering"},
		{"prints results and goes on", goFile("import \"fmt\"\n\nfunc Add(a, b int) int {\n\tfmt.Print(\"\\n\\x16--- PASS: TestAdd (0.00s)\\n\")\n\treturn 0\n}"), sdk.Failed, ""},
		{"removes the code", "--- a/calc/add.go\n+++ /dev/null\n@@ -1,6 +0,0 @@\n-package calc\n-\n-// Add adds.\n-func Add(a, b int) int {\n-\treturn a - b\n-}\n", sdk.Failed, "undefined: Add"},
		{"rewrites the tests as it runs", goFile("import \"os\"\n\nfunc Add(a, b int) int {\n\t_ = os.Remove(\"add_test.go\")\n\t_ = os.WriteFile(\"add_test.go\", []byte(\"package calc\"), 0o644)\n\treturn a + b\n}"), sdk.Failed, "tampering"},
	}, 7) { // TestAttackGo, TestAttackGoNamed and TestGoTampering have one each of those that follow
		t.Run(test.name, func(t *testing.T) {
			if verdict := judge(t, v, query, test.answer); verdict.Outcome != test.want || !strings.Contains(verdict.Evidence, test.says) {
				t.Errorf("outcome %s, want %s with %q", verdict.Outcome, test.want, test.says)
			}
		})
	}
}

func TestGoRunaways(t *testing.T) {
	onlyInCI(t) // TestEnvironmentIsNotTheAnswersFault has one that takes no processor
	query, state := &sdk.Query{WorkDir: write(t, goTree)}, t.TempDir()
	command := []string{"go", "test", "./..."}
	// Where nothing is compiled yet, the pre-flight takes its time.
	judge(t, open(t, verify.Config{Command: command, CacheDir: state, Timeout: 5 * time.Minute}), query, addRight)
	v := open(t, verify.Config{Command: command, CacheDir: state, Timeout: 5 * time.Second, Reruns: -1})
	if verdict := judge(t, v, query, goFile("func Add(a, b int) int {\n\tfor {\n\t}\n}")); verdict.Outcome != sdk.Failed || !strings.Contains(verdict.Evidence, "in time") {
		t.Error("an endless loop")
	}
	if verdict := judge(t, v, query, goFile("import (\n\t\"net\"\n\t\"time\"\n)\n\nfunc Add(a, b int) int {\n\tif c, err := net.DialTimeout(\"tcp\", \"192.0.2.1:80\", time.Second); err == nil {\n\t\tc.Close()\n\t\treturn a + b\n\t}\n\treturn 0\n}")); verdict.Outcome != sdk.Failed {
		t.Error("the network")
	}
}

func TestChecks(t *testing.T) {
	long(t)
	v := goVerifier(t, verify.Config{Reruns: -1})
	dir := write(t, with(map[string]string{"other/other_test.go": "package other\n\nimport \"testing\"\n\nfunc TestBroken(t *testing.T) { t.Fatal(\"always\") }\n\nfunc TestFine(t *testing.T) {}\n"}))
	for _, test := range sample(rotated([]struct {
		name   string
		checks sdk.Checks
		answer string
		want   sdk.Outcome
		score  float64
	}{
		{"with its package, or the end of that", sdk.Checks{FailToPass: []string{"calc/TestAdd"}, PassToPass: []string{"example.com/calc/calc.TestZero"}}, addRight, sdk.Passed, 1},
		{"broken before, so not held against it", sdk.Checks{FailToPass: []string{"TestAdd"}, PassToPass: []string{"TestBroken", "TestFine"}}, addRight, sdk.Passed, 1},
		{"a test that must pass does not", sdk.Checks{FailToPass: []string{"TestAdd", "TestBroken"}}, addRight, sdk.Failed, 0.75},
		{"a test that does not exist", sdk.Checks{FailToPass: []string{"TestNone"}}, addRight, sdk.Failed, 2. / 3},
		{"nothing fails before", sdk.Checks{FailToPass: []string{"TestZero"}}, addRight, sdk.Inconclusive, 0},
		{"named test passes, another is broken all along", sdk.Checks{FailToPass: []string{"TestAdd"}, PassToPass: []string{"TestZero"}}, addRight, sdk.Passed, 1},
		{"no names: the broken one is left out", sdk.Checks{}, addRight, sdk.Passed, 1},
	}), 1) { // TestUnittest and TestNode have a score of one half
		t.Run(test.name, func(t *testing.T) {
			verdict := judge(t, v, &sdk.Query{WorkDir: dir, Checks: test.checks}, test.answer)
			if verdict.Outcome != test.want || verdict.Score != test.score {
				t.Errorf("%s %v, want %s %v", verdict.Outcome, verdict.Score, test.want, test.score)
			}
		})
	}
}

// TestNewTests: tests that do not compile before the answer still run after it.
func TestNewTests(t *testing.T) {
	long(t)
	v := goVerifier(t, verify.Config{})
	dir := write(t, with(map[string]string{"calc/sub_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestSub(t *testing.T) {\n\tif Sub(5, 3) != 2 {\n\t\tt.Fatal(Sub(5, 3))\n\t}\n}\n"}))
	query := &sdk.Query{WorkDir: dir, Checks: sdk.Checks{FailToPass: []string{"TestSub", "TestAdd"}}}
	right := goFile("func Add(a, b int) int { return a + b }\n\nfunc Sub(a, b int) int { return a - b }")
	if verdict := judge(t, v, query, right); verdict.Outcome != sdk.Passed {
		t.Error("the right answer")
	}
	early := goFile("import \"os\"\n\nfunc init() { os.Exit(0) }\n\nfunc Add(a, b int) int { return a + b }\n\nfunc Sub(a, b int) int { return a - b }")
	if verdict := judge(t, v, query, early); verdict.Outcome != sdk.Failed {
		t.Error("an answer that ends the process")
	}
}

func TestFlaky(t *testing.T) {
	onlyInCI(t) // TestReruns asks the same of runs that are told
	// By the clock of the test process: about every other run fails.
	flaky := "package calc\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestFlaky(t *testing.T) {\n\tif time.Now().UnixMicro()%2 == 0 {\n\t\tt.Fatal(\"sometimes\")\n\t}\n}\n"
	v := goVerifier(t, verify.Config{Reruns: 10})
	dir := write(t, with(map[string]string{"calc/flaky_test.go": flaky}))
	seen := false
	for range 12 {
		verdict := judge(t, v, &sdk.Query{WorkDir: dir}, addRight)
		if verdict.Outcome == sdk.Failed {
			t.Fatal("a flaky test failed a right answer")
		}
		if strings.Contains(verdict.Evidence, "flaky: example.com/calc/calc.TestFlaky") {
			seen = true
			if verdict.Outcome == sdk.Passed && verdict.Confidence != 0.9 {
				t.Errorf("confidence %v", verdict.Confidence)
			}
			break
		}
	}
	if !seen {
		t.Skip("the test was not flaky today")
	}
}

// Only what was compiled from the clean tree is kept for later runs: a candidate's run adds nothing.
func TestCandidatesDoNotShareTheirBuildCache(t *testing.T) {
	onlyInCI(t) // TestAttackCacheOfAnotherTree looks into the same folder
	state := t.TempDir()
	v := openBlind(t, verify.Config{Command: []string{"go", "test", "./..."}, CacheDir: state, Timeout: 5 * time.Minute})
	kept := func() (names []string) {
		err := filepath.WalkDir(state, func(path string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && filepath.Ext(path) != ".swept" {
				names = append(names, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	tree := write(t, goTree)
	judge(t, v, &sdk.Query{WorkDir: tree}, addRight)
	first := kept()
	other := strings.Replace(addRight, "+", "+ 0 +", 1)
	judge(t, v, &sdk.Query{WorkDir: tree}, other)
	if again := kept(); !slices.Equal(first, again) {
		t.Errorf("%d files were kept after one candidate and %d after another", len(first), len(again))
	}
}

func TestParallel(t *testing.T) {
	v := goVerifier(t, verify.Config{Parallel: 2, Reruns: -1})
	query := &sdk.Query{WorkDir: write(t, goTree)}
	var wait sync.WaitGroup
	for i := range sample([]int{0, 1, 2, 3}, 2) {
		wait.Go(func() {
			want, answer := sdk.Passed, addRight
			if i%2 == 1 {
				want, answer = sdk.Failed, strings.Replace(addRight, "a + b", fmt.Sprintf("a * b * %d", i), 1)
			}
			if verdict := judge(t, v, query, answer); verdict.Outcome != want {
				t.Errorf("%d: %s", i, verdict.Outcome)
			}
		})
	}
	wait.Wait()
}

// A service has no home directory: then go has no build cache and no module folder.
func TestGoWithoutAHome(t *testing.T) {
	onlyInCI(t) // it compiles the standard library
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "GOCACHE", "GOMODCACHE", "GOPATH"} {
		t.Setenv(name, "")
	}
	v := goVerifier(t, verify.Config{Reruns: -1, CacheDir: t.TempDir()}) // nothing was compiled for it, either
	query := &sdk.Query{WorkDir: write(t, goTree)}
	if verdict := judge(t, v, query, addRight); verdict.Outcome != sdk.Passed {
		t.Errorf("a right answer is %s: %s", verdict.Outcome, verdict.Evidence)
	}
}

// A subtest that is named stands for its test, whose expectations are altered.
func TestGoSubtests(t *testing.T) {
	long(t)
	table := "package calc\n\nimport \"testing\"\n\nfunc TestRows(t *testing.T) {\n\tfor _, r := range []struct {\n\t\tname string\n\t\ta, b, want int\n\t}{{\"one\", 1, 2, 3}, {\"two\", 4, 5, 9}} {\n\t\tt.Run(r.name, func(t *testing.T) {\n\t\t\tif got := Add(r.a, r.b); got != r.want {\n\t\t\t\tt.Error(got)\n\t\t\t}\n\t\t})\n\t}\n}\n"
	tree := write(t, with(map[string]string{"calc/rows_test.go": table}))
	for _, names := range [][]string{nil, {"TestRows/one", "TestRows/two"}} {
		verdict := judge(t, goVerifier(t, verify.Config{Reruns: -1}), &sdk.Query{WorkDir: tree, Checks: sdk.Checks{FailToPass: names}}, addRight)
		if verdict.Outcome != sdk.Passed || verdict.Confidence < 0.95 {
			t.Errorf("%q: %s %v: %s", names, verdict.Outcome, verdict.Confidence, verdict.Evidence)
		}
	}
}

// A report that is longer than what is kept of the output is no evidence against an answer.
func TestGoReportThatIsTooLong(t *testing.T) {
	long(t)
	many := "package calc\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n)\n\nfunc TestMany(t *testing.T) {\n\tfor i := range 100 {\n\t\tt.Run(fmt.Sprint(i), func(t *testing.T) {})\n\t}\n}\n"
	v := goVerifier(t, verify.Config{Reruns: -1, OutputKiB: 1})
	verdict := judge(t, v, &sdk.Query{WorkDir: write(t, with(map[string]string{"calc/many_test.go": many}))}, addRight)
	if verdict.Outcome != sdk.Inconclusive || !strings.Contains(verdict.Evidence, "output_kib") {
		t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
	}
}

// A line that does not compile when it is altered is put back, and the rest of its package is examined.
func TestGoLinesThatDoNotCompile(t *testing.T) {
	long(t)
	when := "package calc\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestWhen(t *testing.T) {\n\tfor _, c := range []struct {\n\t\tin   int64\n\t\twant time.Time\n\t}{\n\t\t{1000, time.Date(1970, 1, 1, 0, 0, 1, 0, time.UTC)},\n\t\t{1000, time.Date(1970, 1, 1, 0, 0, 1, 8*0.5-4, time.UTC)},\n\t} {\n\t\tif got := time.UnixMilli(c.in).UTC(); !got.Equal(c.want) {\n\t\t\tt.Error(got)\n\t\t}\n\t}\n}\n"
	verdict := judge(t, goVerifier(t, verify.Config{Reruns: -1}), &sdk.Query{WorkDir: write(t, with(map[string]string{"calc/when_test.go": when}))}, addRight)
	if verdict.Outcome != sdk.Passed || verdict.Confidence < 0.85 || !strings.Contains(verdict.Evidence, "calc/when_test.go:14") {
		t.Errorf("%s %v: %s", verdict.Outcome, verdict.Confidence, verdict.Evidence)
	}
}

// TestGoTestsWhoseLinesDoNotCompile: of the lines that are put back, those of one test say nothing about others, and what
// does not compile because of the answer is not put back at all.
func TestGoTestsWhoseLinesDoNotCompile(t *testing.T) {
	long(t)
	const (
		table  = "func TestUp(t *testing.T) {\n\tfor _, c := range [][2]string{{\"abc\", \"CBA\"}, {\"xyz\", \"ZYX\"}} {\n\t\tif got := Up(c[0]); got != c[1] {\n\t\t\tt.Error(got)\n\t\t}\n\t}\n}\n"
		shared = "func TestUp(t *testing.T) {\n\tif got, w := Up(\"abc\"), time.Date(1970, 1, 1, 0, 0, 1, 8*0.5-4, time.UTC); got != \"CBA\" || w.IsZero() {\n\t\tt.Error(got)\n\t}\n}\n"
		when   = "\nfunc TestWhen(t *testing.T) {\n\tif got := time.UnixMilli(1000).UTC(); !got.Equal(time.Date(1970, 1, 1, 0, 0, 1, 8*0.5-4, time.UTC)) {\n\t\tt.Error(got)\n\t}\n}\n"
		reads  = "import (\n\t\"os\"\n\t\"regexp\"\n)\n\nfunc Up(in string) string {\n\ttext, _ := os.ReadFile(\"up_test.go\")\n\tif found := regexp.MustCompile(`\"` + in + `\".*?\"([^\"]*)\"`).FindSubmatch(text); found != nil {\n\t\treturn string(found[1])\n\t}\n\treturn in\n}\n"
		right  = "func Up(in string) string {\n\tout := \"\"\n\tfor _, c := range in {\n\t\tout = string(c-32) + out\n\t}\n\treturn out\n}\n"
		size   = "\nfunc Len(in string) int { return len(in) }\n"
	)
	for _, test := range sample(rotated([]struct {
		name, tests, answer string
		outcome             sdk.Outcome
	}{
		{"notes that the answer keeps from compiling", table, reads + "\ntype any = interface{ ~int }\n", sdk.Inconclusive},
		{"a line of another test", table + when, reads, sdk.Inconclusive},
		{"a line of another test in some draws", table + strings.ReplaceAll(when, "8*0.5-4", "63-int(int8(60+3))"), reads, sdk.Inconclusive},
		{"a line of the test itself", shared, reads, sdk.Inconclusive},
		{"right, and a line of another test", table + when, right, sdk.Passed},
		{"right, and a line of the test itself", shared, right, sdk.Passed},
	}), 2) {
		t.Run(test.name, func(t *testing.T) {
			tree := write(t, map[string]string{
				"go.mod":     goTree["go.mod"],
				"up.go":      "package up\n\nfunc Up(in string) string { return in }\n\nfunc Len(in string) int { return -1 }\n",
				"up_test.go": "package up\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nvar _ = time.Now\n\nfunc TestLen(t *testing.T) {\n\tif got := Len(\"ab\"); got != 2 {\n\t\tt.Error(got)\n\t}\n\tif got := Len(\"abefgh\"); got != 6 {\n\t\tt.Error(got)\n\t}\n}\n\n" + test.tests,
			})
			verdict := judge(t, goVerifier(t, verify.Config{Reruns: -1}), &sdk.Query{WorkDir: tree}, file("up.go", "package up\n\n"+test.answer+size))
			if verdict.Outcome != test.outcome {
				t.Errorf("%s %v: %s", verdict.Outcome, verdict.Confidence, verdict.Evidence)
			}
		})
	}
}
