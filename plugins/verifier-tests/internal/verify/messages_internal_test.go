package verify

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk"
)

// Evidence names the test of a comparison, the value that it expects and the value that was returned.
func TestNamesOfComparisons(t *testing.T) {
	rows := alter.Comparison{Name: "q.test.js:0", Test: "*", Values: []string{`="A"`, `="B"`}}
	for want, got := range map[string]string{
		"TestUp": nameOf(alter.Comparison{Name: "q_test.go:3", Test: "TestUp"}, []string{"=1"}),
		"a test with a computed title in q.test.js":                                      nameOf(rows, []string{`="A"`, `="B"`}),
		`a test with a computed title in q.test.js (expected "B", and "C" was returned)`: nameOf(rows, []string{`="A"`, `="C"`}),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The number of tests that were seen to get what they expect does not exceed the number that failed.
func TestWeighCountsWhatFailed(t *testing.T) {
	source := alter.Source{Path: "a_test.go", Tests: []string{"TestA", "TestB", "TestC"}}
	expected := map[string][]string{}
	tests := []runner.Test{{Name: "TestA"}, {Name: "TestB"}, {Name: "TestC"}, {Name: "TestD"}}
	for _, test := range tests[:3] {
		source.Compared = append(source.Compared, alter.Comparison{Name: test.Name, Test: test.Name, Values: []string{"=1"}})
		expected[test.Name] = []string{"=1"}
	}
	e := &expectations{j: &judgement{}, sources: []alter.Source{source}, expected: expected}
	if got := e.weigh(tests, tests[:2], &sdk.Verdict{Outcome: sdk.Passed, Confidence: 1}).Evidence; !strings.Contains(got, "2 of 2 tests with altered expectations failed, as they must, 2 of them") {
		t.Error(got)
	}
}
