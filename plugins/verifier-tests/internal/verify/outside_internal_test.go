package verify

import (
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/sdk/jail"
)

// What could not be asked again in time is unknown: it neither differs nor depends on files.
func TestLateAnswersAreUnknown(t *testing.T) {
	odd, late, right := []string{"=1"}, []string{lateAnswer}, []string{"=2"}
	for name, test := range map[string]struct {
		second    secondAnswers
		differing int
		unknown   string
	}{
		"odd again":            {secondAnswers{alone: [][]string{odd}, inOrder: odd}, 1, ""},
		"late":                 {secondAnswers{alone: [][]string{late}, inOrder: late}, 0, slowReason},
		"late in order":        {secondAnswers{alone: [][]string{odd}, inOrder: late}, 0, slowReason},
		"late with data":       {secondAnswers{alone: [][]string{odd}, inOrder: odd, withData: [][]string{late}}, 0, slowReason},
		"right with data":      {secondAnswers{alone: [][]string{odd}, inOrder: odd, withData: [][]string{right}}, 0, "what is returned depends on files that no code names"},
		"right in order":       {secondAnswers{alone: [][]string{odd}, inOrder: right}, 0, ""},
		"ended while in order": {secondAnswers{alone: [][]string{odd}}, 1, ""},
	} {
		q := alter.Question{File: "a.js", Test: "adds", Value: "=2"}
		i := &inquiry{expectations: &expectations{}, asked: []alter.Question{q}, earlier: 1}
		i.addDiffering(i.asked, [][]string{odd}, &test.second)
		want := ""
		if test.unknown != "" {
			want = test.unknown + ": " + titleOf(q.Test, q.File)
		}
		if len(i.differing) != test.differing || i.unknown != want {
			t.Errorf("%s: %d differ, unknown %q, want %d and %q", name, len(i.differing), i.unknown, test.differing, want)
		}
	}
}

// Rust code takes files in by macros and by the attribute path, not by words in comments and texts.
func TestTakenIn(t *testing.T) {
	for code, want := range map[string]bool{
		`include_str!("../tests/s.rs")`: true, "include ! { \"a.rs\" }": true, `#[path = "../tests/s.rs"]`: true, `#[cfg_attr(test, path = "a.rs")]`: true,
		"//! Words, which include their case.": false, `#[deprecated(note = "use the path")]`: false, `#[error("bad path")]`: false, `#[arg(long, value_name = "path")]`: false,
	} {
		if takenIn.MatchString(code) != want {
			t.Errorf("%s is taken in: %v", code, !want)
		}
	}
}

// An answer that was stopped while it compiled says nothing of its tests.
func TestStoppedWhileItCompiled(t *testing.T) {
	for name, test := range map[string]struct {
		file, output string
		want         bool
	}{
		"python": {"a.py", "", true}, "typescript": {"a.ts", "", true}, "rust": {"src/lib.rs", "", false},
		"go": {"a.go", `{"Action":"start","Package":"a"}`, false}, "go, in a test": {"a.go", `{"Action":"run","Package":"a","Test":"TestA"}`, true},
	} {
		if got := hasBegun(&attempt{changes: []jail.Change{{Path: test.file}}}, &jail.Result{Stdout: []byte(test.output)}); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
