package runner

import "testing"

// A name that no test has means all tests within what has the name, as in frameworks; in a log it means nothing.
func TestFindAllInWhatHasTheName(t *testing.T) {
	report := &Report{Tests: []Test{
		{Group: "tests.test_slug", Name: "test_slug[a-b]"}, {Group: "tests.test_slug", Name: "test_slug[c]"}, {Group: "tests.test_slug.TestMore", Name: "test_taken"},
		{Group: "tests.test_slug", Name: "test_slugs"},
		{Group: "calc.CalcTest", Name: "adds(int, int)[1]"}, {Group: "calc.CalcTest", Name: "adds(int, int)[2]"}, {Group: "calc.CalcTest", Name: "addsNothing"},
		{Group: "example.com/calc", Name: "TestAdd"}, {Group: "example.com/calc", Name: "TestAdd/zero"},
		{Group: "a/sums.test.js", Name: "adds", Within: []string{"sums", "of two"}}, {Group: "a/sums.test.js", Name: "zero", Within: []string{"sums"}},
	}}
	for name, want := range map[string]int{
		"tests/test_slug.py::test_slug": 2, "tests.test_slug.test_slug": 2, "test_slug.test_slug": 2, "test_slug": 2, "tests/test_slug.py::test_slug[c]": 1, "tests/test_slug.py::test_slug[d]": 0,
		"tests/test_slug.py": 4, "tests/test_slug.py::TestMore": 1, "tests/test_other.py::test_slug": 0, "test_slu": 0,
		"CalcTest.adds": 2, "calc.CalcTest": 3,
		"TestAdd": 1, "TestAdd/zero": 1, "TestAd": 0, "example.com": 0,
		"sums": 2, "of two": 1, "sums of two": 1, "sums of two adds": 1, "sums of": 1, "sum": 0, "zero": 1,
	} {
		if got := len(report.Find(name)); got != want {
			t.Errorf("%s: %d tests, want %d", name, got, want)
		}
	}
	report.Exact = true
	if found := report.Find("tests/test_slug.py::test_slug"); len(found) > 0 {
		t.Errorf("in a log: %v", found)
	}
}
