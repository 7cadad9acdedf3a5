package runner

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stepfall/stepfall/sdk/jail"
)

// A test passes if its last line says so, and fails if no line names it. [TestHarness] shows that the harness agrees.
func TestLogsAreReadByLines(t *testing.T) {
	pytest := "\x1b[1m=== short test summary info ===\x1b[0m\nPASSED tests/test_a.py::test_one\nPASSED tests/test_a.py::T::test_two[x y]\nXFAIL tests/test_a.py::test_known - reason\nXPASS tests/test_a.py::test_strange\nSKIPPED [1] tests/test_a.py:10: not here\nFAILED tests/test_a.py::test_bad - assert 1 == 2\nERROR tests/test_b.py::test_setup - fixture\nFAILED tests/test_a.py::test_again\nPASSED tests/test_a.py::test_again\n"
	django := "test_one (app.tests.T) ... ok\ntest_two (app.tests.T)\nIt does two things. ... ok\ntest_bad (app.tests.T) ... FAIL\ntest_err (app.tests.T) ... ERROR\ntest_skip (app.tests.T) ... skipped 'no database'\ntest_known (app.tests.T) ... expected failure\nTesting against Django installed in '/testbed' ... ok\nFAIL: test_sub (app.tests.T) (i=1)\n"
	for _, test := range []struct {
		format, log    string
		passes, others []string
	}{
		{
			"pytest", pytest,
			[]string{"tests/test_a.py::test_one", "tests/test_a.py::T::test_two[x", "tests/test_a.py::test_known", "tests/test_a.py::test_again"},
			[]string{"tests/test_a.py::test_strange", "tests/test_a.py::test_bad", "tests/test_b.py::test_setup", "tests/test_a.py::test_none", "tests/test_a.py"},
		},
		{
			"unittest", django,
			[]string{"test_one (app.tests.T)", "test_two (app.tests.T)", "It does two things.", "test_known (app.tests.T)"},
			[]string{"test_bad (app.tests.T)", "test_err (app.tests.T)", "test_skip (app.tests.T)", "test_sub (app.tests.T)"},
		},
		{"go", "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- FAIL: TestB/x (0.00s)\n--- SKIP: TestC (0.00s)\n", []string{"TestA"}, []string{"TestB/x", "TestC"}},
		{"cargo", "test a::b ... ok\ntest a::c ... FAILED\ntest a::d ... ignored\n", []string{"a::b"}, []string{"a::c", "a::d"}},
	} {
		report := (&logFile{format: test.format}).Read(nil, &jail.Result{Stdout: []byte(test.log), ExitCode: 1})
		passed := func(name string) bool {
			found := report.Find(name)
			return len(found) > 0 && !slices.ContainsFunc(found, func(t Test) bool { return t.Status != Pass })
		}
		for _, name := range test.passes {
			if !passed(name) {
				t.Errorf("%s: %s has not passed: %+v", test.format, name, report.Find(name))
			}
		}
		for _, name := range test.others {
			if passed(name) {
				t.Errorf("%s: %s has passed", test.format, name)
			}
		}
	}
}

func TestNamesOfDataSets(t *testing.T) {
	for name, test := range map[string]Test{
		"tests/test_a.py::T::test_b[1/2]": {Group: "tests.test_a.T", Name: "test_b[1/2]"},
		"tests/test_a.py::test_b":         {Group: "tests.test_a", Name: "test_b"},
		"test_b (app.tests.T)":            {Group: "app.tests.T", Name: "test_b"},
		"test_b (app.tests.T.test_b)":     {Group: "app.tests.T", Name: "test_b"},
	} {
		if !test.Is(name) {
			t.Errorf("%s is not %s", name, test.ID())
		}
		if other := (Test{Group: test.Group, Name: "test_c"}); other.Is(name) {
			t.Errorf("%s is %s", name, other.ID())
		}
	}
}

// FuzzReports: no report crashes its parser.
func FuzzReports(f *testing.F) {
	f.Add([]byte(`<testsuites><testsuite><testcase name="a" classname="b"><failure message="c"/></testcase></testsuite></testsuites>`))
	f.Add([]byte(`[{"Group": "a", "Name": "b", "Status": "pass"}]`))
	f.Add([]byte(`{"Action": "run", "Package": "p", "Test": "T"}` + "\n" + `{"Action": "pass", "Package": "p", "Test": "T"}`))
	f.Add([]byte("PASSED a.py::b\ntest a ... ok\n--- PASS: T (0.00s)\nt (m.C)\nDoc. ... ok\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		result := &jail.Result{Stdout: data, Reports: map[string][]byte{"r": data, "r.seal": data, "r.more": data}}
		plan := &Plan{Reports: []string{"r", "r.seal", "r.more"}}
		for _, r := range []Driver{&goTest{}, &cargo{}, &junit{reports: []string{"r"}}, newPytest(Config{}), exitCode{}, &logFile{format: "pytest"}, &logFile{format: "django"}} {
			report := r.Read(plan, result)
			for _, test := range report.Tests {
				report.Find(test.ID())
			}
			if _, isSealed := r.(*sealedRun); isSealed && len(report.Tampering) == 0 {
				t.Error("a report without the seal was believed")
			}
		}
		readJUnit(data)
		readSealed(data)
	})
}

// FuzzFollow: no script crashes the function that follows it.
func FuzzFollow(f *testing.F) {
	f.Add("cd x && exec ./check.sh \"$@\"", "test:\n\t@$(X) ./a\n")
	f.Fuzz(func(t *testing.T, script, makefile string) {
		tree := &Tree{Dir: t.TempDir()}
		Follow([]string{"sh", "-c", script}, tree)
		if err := os.WriteFile(filepath.Join(tree.Dir, "Makefile"), []byte(makefile), 0o600); err != nil {
			t.Fatal(err)
		}
		Follow([]string{"make"}, tree)
	})
}

// A program whose output a script compares is under test, also if the script looks at the files that it creates; one
// that the script runs for its exit code decides, and so does one that is named like a check.
func TestFollow(t *testing.T) {
	tree := javaTreeOf(t, map[string]string{
		"run.sh": "got=$(./tool.sh 1)\n./tool.sh 2 | diff - want\npython3 wc.py <in >out\npython3 check.py\npython3 build.py page\n[ \"$(cat page/index)\" = x ]\ncp a made\npython3 mend.py want\npython3 verify.py page\nexec sh more/test.sh 2>&1 | tee log\n", "tool.sh": "", "wc.py": "", "check.py": "", "build.py": "", "mend.py": "", "verify.py": "", "want": "", "more/test.sh": ". ./more/env\n",
	})
	files, _, _ := Follow([]string{"./run.sh"}, tree)
	if want := []string{"check.py", "mend.py", "more/env", "more/test.sh", "run.sh", "verify.py"}; !slices.Equal(files, want) {
		t.Errorf("%q, want %q", files, want)
	}
}
