// Package alter changes what tests expect. A program that is right fails a test whose
// expectation was altered; one that passes it does not depend on what is expected.
//
// Sources are changed in place, by the places that a parser of their language gives:
// Go's own for Go, ast of the project's Python, acorn as node carries it. Rust, Java and C
// have none at hand: there, assertions that stand on lines of their own are altered.
// What is expected is followed to the literals that it is made of, in variables and
// tables, and these become other literals: code that reads what its tests expect, from
// their source or from its caller, reads the altered value and passes. Every draw is
// another one.
package alter

import (
	_ "embed" // the programs that alter Python and JavaScript
	"math/rand/v2"
	"path"
	"strings"
)

// Way is what is done to a test.
type Way string

// The ways. Of tests that pass although their expectations are altered, the other two
// tell why.
const (
	// Expectation changes literals in assertions, wraps other expected values and
	// inverts truths. In Python, Node and Go tests go on where one is noticed, and fail at their end.
	Expectation Way = "expectation"
	// Reach fails in the place of each changed expectation: a test that passes does not
	// come there.
	Reach Way = "reach"
	// End fails at the end of each test, however that comes: a test that passes has no
	// say in what is reported of it. A file that is one test fails at its beginning: one
	// that passes is not run.
	End Way = "end"
	// Record leaves what is expected as it is, and notes what is compared with it.
	Record Way = "record"
	// Hold alters the expectations whose values are known, and has what compares with them
	// come out as equal, so that no test finds another state than it is used to.
	Hold Way = "hold"
)

// Source is a file with tests.
type Source struct {
	Path string `json:"path"`
	Text string `json:"text"`
	// Tests are the names of those that were altered: a function with its class, a title,
	// "" where the file as a whole is one, "*" where a title is computed. Of Truths only
	// what must be true could be inverted. Count is how many expectations were altered.
	Tests  []string `json:"tests,omitempty"`
	Truths []string `json:"truths,omitempty"`
	Count  int      `json:"count,omitempty"`
	// Data are the tests that were left as they are, see [Request.Data].
	Data []string `json:"data,omitempty"`
	// Compared are the comparisons with altered expectations that note what the code returned.
	Compared []Comparison `json:"compared,omitempty"`
	// Watched are places that note =false where an assertion within a function of the test fails,
	// whatever is expected, and =true where it does not, or =false where a number is none.
	Watched []Comparison `json:"watched,omitempty"`
	// Questions are what is compared in tests, to be asked where none of them is. Of Answerable
	// tests nothing else is compared.
	Questions  []Question `json:"questions,omitempty"`
	Answerable []string   `json:"answerable,omitempty"`
}

// Question is a program with the calls by which a test comes to what it compares, and the
// note of what is expected there, or the program that gives it. One that is Alone makes one
// call, with literals; one that is Apart finds nothing of the tree.
type Question struct {
	File     string `json:"file"`
	Test     string `json:"test"`
	Program  string `json:"program"`
	Value    string `json:"value"`
	Expected string `json:"expected"`
	Alone    bool   `json:"alone"`
	Apart    bool   `json:"apart"`
}

// Comparison is a place where a test compares what the code returned with what it expects.
type Comparison struct {
	Name string `json:"name"`
	// Test is that of [Source.Tests] in which it lies.
	Test string `json:"test"`
	// Values are the notes of what is expected there unaltered, in the order of the source;
	// none where that is not known.
	Values []string `json:"values,omitempty"`
	// Listed says that Values are a list that is to be compared to its end.
	Listed bool `json:"listed,omitempty"`
	// Lenient says that the comparison may fail in a test that passes, Handed that it lies in a
	// function that the code under test may call and guard.
	Lenient bool `json:"lenient,omitempty"`
	Handed  bool `json:"handed,omitempty"`
	// Beside says that a watched place is none of those that are altered.
	Beside bool `json:"beside,omitempty"`
}

// Request is what the programs of other languages read, as JSON.
type Request struct {
	Way   Way      `json:"way"`
	Seed  uint64   `json:"seed"`
	Files []Source `json:"files"`
	// Whole says that a file is a test, whatever functions it has.
	Whole bool `json:"whole,omitempty"`
	// Data leaves the tests as they are that compare with what they read from files: the
	// files are altered in their place.
	Data bool `json:"data,omitempty"`
	// Rest has altered what is left as it is without: in a test of which several kinds of
	// expectations are known one kind is altered, and then what of it is not noted and the next.
	Rest bool `json:"rest,omitempty"`
	// Record is the file, at the top of the tree, in which comparisons note what they are
	// given: a line has a comparison's name, with = behind it for what it expects, a tab, and
	// a note: a mark of its types (= for the language's own, ~ for some made of them, ? for
	// others) and the value reduced to these as text, or ! where it has none.
	Record string `json:"record,omitempty"`
	// Names are functions in Python that are tests by the settings of their framework.
	Names []string `json:"names,omitempty"`
}

// Program alters the sources of a language.
type Program struct {
	// Name is that of the file that Text is put into, Arguments those of the language's
	// interpreter before it, and Env its environment.
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

// Languages are the programs of languages that are not altered in this process.
var Languages = map[string]Program{
	"python": {Name: "alter.py", Text: pythonNotes + python + questions + "\n\nmain(*sys.argv[1:])\n", Arguments: []string{"-I", "-S"}},
	"node":   {Name: "alter.cjs", Text: node + nodeTree + nodeValues + nodeRecords + nodeQuestions + nodeNotes + "\nmain();\n", Arguments: []string{"--expose-internals"}},
}

// Askers are the programs that answer questions about code, see ask.py and ask.cjs.
var Askers = map[string]Program{
	"python": {Name: "ask.py", Text: pythonNotes + asks, Env: []string{"PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0"}},
	"node":   {Name: "ask.cjs", Text: nodeAsks + nodeNotes},
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

// Alter alters the sources that need no other program. Those in which nothing is altered are left out.
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
