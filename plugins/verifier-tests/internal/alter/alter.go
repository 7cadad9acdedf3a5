// Package alter alters the expectations of tests. Correct code fails a test whose expectation was altered;
// code that still passes does not depend on the expectation.
//
// Sources are edited in place, at the positions given by a parser of their language: go/parser for Go, ast of
// the project's Python, and the acorn that Node bundles. For Rust, Java and C there is no parser at hand;
// there, assertions on lines of their own are altered. Expected values are followed through variables and
// tables to the literals that they are made of, and these are replaced by other literals: code that reads
// what its tests expect, from their source or through its caller, reads the altered value and passes. Each
// run draws other literals.
package alter

import (
	_ "embed" // the programs that alter Python and JavaScript
	"math/rand/v2"
	"path"
	"strings"
)

// Way is the way in which tests are altered.
type Way string

// The ways. For tests that pass with altered expectations, Reach and End find out why.
const (
	// Expectation alters literals in assertions, wraps other expected values and inverts conditions. In
	// Python, Node and Go, a test continues after it has noticed an altered expectation, and fails at its end.
	Expectation Way = "expectation"
	// Reach fails in place of each altered expectation: a test that passes does not reach one.
	Reach Way = "reach"
	// End fails at the end of each test, however it ends: a test that passes does not determine its reported
	// result. A file that is a single test fails at its beginning: if it passes, it is not run.
	End Way = "end"
	// Record leaves expectations unchanged and records what is compared with them.
	Record Way = "record"
	// Hold alters the expectations whose values are known, and makes the comparisons with them come out
	// equal, so that every test runs in the state that it is used to.
	Hold Way = "hold"
)

// Source is a file with tests.
type Source struct {
	Path string `json:"path"`
	Text string `json:"text"`
	// Tests are the names of the altered tests: a function with its class, a title, "" if the file as a whole
	// is one test, "*" if the title is computed. Truths are those of them in which only conditions could be
	// inverted. Count is the number of altered expectations.
	Tests  []string `json:"tests,omitempty"`
	Truths []string `json:"truths,omitempty"`
	Count  int      `json:"count,omitempty"`
	// Data are the tests that were left unchanged; see [Request.Data].
	Data []string `json:"data,omitempty"`
	// Hidden are Go tests that hand their testing.T to what may compare unseen, so that one assertion tells little of
	// the others.
	Hidden []string `json:"hidden,omitempty"`
	// Fault is the reason why a test, or all of them, could not be altered; "" if they could.
	Fault string `json:"fault,omitempty"`
	// Compared are the comparisons with altered expectations that record what the code returned.
	Compared []Comparison `json:"compared,omitempty"`
	// Watched are places that record =false if an assertion within a function of the test fails,
	// independently of expectations, and =true if it holds; or =false if a number is NaN.
	Watched []Comparison `json:"watched,omitempty"`
	// Questions are comparisons of tests that can be evaluated outside of any test. The tests in Answerable
	// compare nothing else.
	Questions  []Question `json:"questions,omitempty"`
	Answerable []string   `json:"answerable,omitempty"`
	// Unseen are the first places in tests at which something is compared, or may be, that was not altered. Those of
	// Python, Rust and Java are known.
	Unseen []Unseen `json:"unseen,omitempty"`
}

// Question is a program that makes the calls by which a test obtains the value that it compares. Value is
// the note of the expected value; if that is computed, Expected is the program that computes it. Alone means
// that there is one call, with literals; Apart means that the program uses nothing of the tree.
type Question struct {
	File     string `json:"file"`
	Test     string `json:"test"`
	Program  string `json:"program"`
	Value    string `json:"value"`
	Expected string `json:"expected"`
	Alone    bool   `json:"alone"`
	Apart    bool   `json:"apart"`
}

// Comparison is a place at which a test compares what the code returned with an expected value.
type Comparison struct {
	Name string `json:"name"`
	// Test is the test of [Source.Tests] that contains it.
	Test string `json:"test"`
	// Values are the notes of the unaltered expected values, in the order of the source; none if they are
	// unknown.
	Values []string `json:"values,omitempty"`
	// Listed means that Values are a list that must be compared to its end.
	Listed bool `json:"listed,omitempty"`
	// Lenient means that the comparison can fail in a test that passes. Handed means that it is in a
	// function that the code under test can call and guard.
	Lenient bool `json:"lenient,omitempty"`
	Handed  bool `json:"handed,omitempty"`
	// Beside means that a watched place is not one of the altered expectations.
	Beside bool `json:"beside,omitempty"`
}

// Unseen is what a test does, in the words of its source, that may compare something.
type Unseen struct {
	Test string `json:"test"`
	Text string `json:"text"`
}

// Request is the JSON input of the programs in other languages.
type Request struct {
	Way   Way      `json:"way"`
	Seed  uint64   `json:"seed"`
	Files []Source `json:"files"`
	// Whole means that a file is a test, whatever functions it has.
	Whole bool `json:"whole,omitempty"`
	// Data leaves the tests that compare with data from files unchanged: the files are altered instead.
	Data bool `json:"data,omitempty"`
	// Rest alters what a run without it leaves unchanged. Of a test with several kinds of expectations only
	// one kind is altered; with Rest, it is those of that kind that are not recorded, or else the next kind.
	Rest bool `json:"rest,omitempty"`
	// Record is the file, at the top of the tree, in which comparisons record values. A line has the name of
	// the comparison (with = appended for the expected value), a tab, and a note: a mark of the value's types
	// (= for built-in ones, ~ for others that extend them, ? for others) and the value as text, or just ! if
	// it has none.
	Record string `json:"record,omitempty"`
	// Names are Python functions that are tests by the settings of their framework.
	Names []string `json:"names,omitempty"`
	// suites are the tests of testify's suites, by folder and type.
	suites map[string]map[string][]string
}

// Program is a program that alters the sources of a language.
type Program struct {
	// Name is the name of the file for Text. Arguments are the interpreter's arguments before it, Env its
	// environment.
	Name, Text     string
	Arguments, Env []string
}

var (
	//go:embed alter.py
	python string
	//go:embed questions.py
	questions string
	//go:embed ask.py
	asks string
	//go:embed note.py
	pythonNotes string
	//go:embed note.cjs
	nodeNotes string
	//go:embed tree.cjs
	nodeTree string
	//go:embed values.cjs
	nodeValues string
	//go:embed records.cjs
	nodeRecords string
	//go:embed alter.cjs
	node string
	//go:embed questions.cjs
	nodeQuestions string
	//go:embed ask.cjs
	nodeAsks string
)

// Languages are the programs for the languages that are not altered in this process.
var Languages = map[string]Program{
	"python": {Name: "alter.py", Text: pythonNotes + python + questions + "\n\nmain(*sys.argv[1:])\n", Arguments: []string{"-I", "-S"}},
	"node":   {Name: "alter.cjs", Text: node + nodeTree + nodeValues + nodeRecords + nodeQuestions + nodeNotes + "\nmain();\n", Arguments: []string{"--expose-internals"}},
}

// Askers are the programs that evaluate questions; see ask.py and ask.cjs.
var Askers = map[string]Program{
	"python": {Name: "ask.py", Text: pythonNotes + asks, Env: []string{"PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0"}},
	"node":   {Name: "ask.cjs", Text: nodeAsks + nodeNotes + nodeTree},
}

// Language returns the language in which a file is altered, or "".
func Language(file string) string {
	switch path.Ext(file) {
	case ".py":
		return "python"
	case ".js", ".cjs", ".mjs", ".ts", ".cts", ".mts":
		return "node"
	}
	if strings.HasSuffix(file, "_test.go") {
		return "go"
	}
	return map[string]string{".rs": "rust", ".java": "java", ".sh": "sh", ".c": "c", ".cc": "c", ".cpp": "c"}[path.Ext(file)]
}

// Alter alters the sources that need no other program. It omits sources in which nothing is altered.
func (r *Request) Alter() []Source {
	random := rand.New(rand.NewPCG(r.Seed, r.Seed>>1))
	var altered []Source
	for _, file := range r.Files {
		alter := goSource
		if lines[path.Ext(file.Path)] != nil {
			alter = lineSource
		} else if path.Ext(file.Path) == ".sh" {
			alter = shellSource
		}
		if source := alter(file, r, random); source.Count+len(source.Data) > 0 {
			altered = append(altered, source)
		}
	}
	return altered
}
