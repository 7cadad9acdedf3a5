package cases

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/regular"
)

const maxBytes = 512 << 20

// ErrNone means that there are no cases for a query.
var ErrNone = errors.New("there are no cases")

// Set has the cases of a query.
type Set struct {
	Cases []Case
	// Files are the real paths of the files that were read through symbolic links.
	Files []string
}

// Load reads the cases of a query from a file or a folder. In a folder they are in the subfolder or file
// with the query's name or, if there is none, in the folder itself, for all queries. A JSON Lines file has
// one row per query, identified by question_id, task_id, problem_id, id or name; a single row, or a list of
// cases, applies to every query.
func Load(path, query string) (*Set, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	l := &loader{}
	var found []Case
	if info.IsDir() {
		found, err = l.casesBelow(path, query)
	} else {
		found, err = l.file(path, query)
	}
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w in %s for the query %q", ErrNone, path, query)
	}
	for i := range found {
		found[i].Name = cmp.Or(found[i].Name, fmt.Sprint(i+1))
		if !found[i].expectsAnything() {
			return nil, fmt.Errorf("case %s in %s expects nothing", found[i].Name, path)
		}
	}
	return &Set{Cases: found, Files: l.linked}, nil
}

// loader reads cases and collects the real paths of symbolic links.
type loader struct{ linked []string }

// follow returns the real path of a file, and records it if it differs from path.
func (l *loader) follow(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil && real != path {
		l.linked = append(l.linked, real)
	}
	return real, err
}

func (l *loader) casesBelow(dir, query string) ([]Case, error) {
	if query != "" && filepath.IsLocal(query) {
		for _, name := range []string{query, query + ".json", query + ".jsonl"} {
			own := filepath.Join(dir, name)
			info, err := os.Stat(own)
			switch {
			case err != nil:
			case info.IsDir():
				return l.folder(own)
			default:
				return l.file(own, query)
			}
		}
	}
	return l.folder(dir)
}

// row is a row of a data set, which can also be a case or a list of cases.
type row struct {
	QuestionID json.RawMessage `json:"question_id"`
	TaskID     json.RawMessage `json:"task_id"`
	ProblemID  json.RawMessage `json:"problem_id"`
	ID         json.RawMessage `json:"id"`

	// LiveCodeBench.
	Public   string `json:"public_test_cases"`
	Private  string `json:"private_test_cases"`
	Metadata string `json:"metadata"`
	// APPS and similar data sets.
	InputOutput json.RawMessage `json:"input_output"`
	FnName      string          `json:"fn_name"`
	Inputs      []any           `json:"inputs"`
	Outputs     []any           `json:"outputs"`

	Cases []Case `json:"cases"`
	Case
}

func (r *row) hasID(query string) bool {
	for _, id := range []json.RawMessage{r.QuestionID, r.TaskID, r.ProblemID, r.ID} {
		var text string
		if len(id) > 0 && (json.Unmarshal(id, &text) == nil && text == query || string(id) == query) {
			return true
		}
	}
	return r.Name != "" && r.Name == query
}

func (l *loader) file(path, query string) ([]Case, error) {
	rows, err := l.rows(path)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if rows[i].hasID(query) {
			return rows[i].cases()
		}
	}
	if len(rows) == 1 {
		return rows[0].cases()
	}
	var all []Case
	for i := range rows {
		if rows[i].expectsAnything() {
			all = append(all, rows[i].Case)
		}
	}
	return all, nil
}

func (l *loader) rows(path string) ([]row, error) {
	if _, err := l.follow(path); err != nil {
		return nil, err
	}
	file, info, err := regular.Open(os.OpenFile, path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info.Size() > maxBytes {
		return nil, fmt.Errorf("%s is larger than %d MiB", path, maxBytes>>20)
	}
	rows, err := readRows(bufio.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

// readRows reads a JSON list of rows, or a sequence of rows.
func readRows(in *bufio.Reader) (rows []row, err error) {
	first, _ := in.Peek(1)
	decoder := json.NewDecoder(in)
	if string(first) == "[" {
		if err := decoder.Decode(&rows); err != nil {
			return nil, err
		}
		if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
			return nil, errors.New("there is data after the list")
		}
		return rows, nil
	}
	for {
		var r row
		if err := decoder.Decode(&r); errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
}

func (r *row) cases() ([]Case, error) {
	switch {
	case r.Public != "" || r.Private != "":
		return r.liveCodeBench()
	case len(r.InputOutput) > 0:
		data := r.InputOutput
		var text string
		if json.Unmarshal(data, &text) == nil {
			data = []byte(text)
		}
		var inner row
		if err := json.Unmarshal(data, &inner); err != nil {
			return nil, fmt.Errorf("input_output: %w", err)
		}
		return inner.cases()
	case len(r.Inputs) > 0:
		return r.pairs()
	case len(r.Cases) > 0:
		return r.Cases, nil
	}
	return []Case{r.Case}, nil
}

// pairs returns the cases of parallel lists of inputs and outputs: texts, or arguments and results of a function.
func (r *row) pairs() ([]Case, error) {
	if len(r.Inputs) != len(r.Outputs) {
		return nil, fmt.Errorf("%d inputs and %d outputs", len(r.Inputs), len(r.Outputs))
	}
	var all []Case
	for i := range r.Inputs {
		if r.FnName == "" {
			want := asText(r.Outputs[i])
			all = append(all, Case{Stdin: asText(r.Inputs[i]), Expect: Expect{Stdout: &want}})
			continue
		}
		c, err := callCase(r.FnName, r.Inputs[i], r.Outputs[i])
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// callCase returns a case that calls a function with a list of arguments, or with a single one.
func callCase(function string, input, result any) (c Case, err error) {
	arguments, ok := input.([]any)
	if !ok {
		arguments = []any{input}
	}
	c.Call = &Call{Function: function}
	for _, a := range arguments {
		data, err := json.Marshal(a)
		if err != nil {
			return c, err
		}
		c.Call.Arguments = append(c.Call.Arguments, data)
	}
	if list, ok := result.([]any); ok && len(list) == 1 {
		result = list[0] // these data sets wrap results in a list
	}
	c.Expect.Result, err = json.Marshal(result)
	return c, err
}

// asText joins the lines of a data set that stores text as a list of them.
func asText(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []any:
		var lines []string
		for _, line := range v {
			lines = append(lines, asText(line))
		}
		return strings.Join(lines, "\n")
	}
	return fmt.Sprint(value)
}

var inputEnds, outputEnds = []string{".in", ".input", ".stdin"}, []string{".out", ".ans", ".expected", ".output", ".stdout"}

// folder reads the cases in a folder: pairs NAME.in and NAME.out (or .ans, .expected, .output), NAME/input
// and NAME/output, in/NAME and out/NAME, and NAME.json. Those in a subfolder named sample, samples or public
// are public.
func (l *loader) folder(dir string) ([]Case, error) {
	dir, err := l.follow(dir)
	if err != nil {
		return nil, err
	}
	var all []Case
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if strings.HasSuffix(name, ".json") {
			found, err := l.file(path, "")
			for i := range found {
				found[i].Name = cmp.Or(found[i].Name, strings.TrimSuffix(name, ".json"))
			}
			all = append(all, found...)
			return err
		}
		found, err := l.pair(path, name)
		all = append(all, found...)
		return err
	})
	return all, err
}

// pair reads an input and its output. It returns no case for any other file.
func (l *loader) pair(path, name string) ([]Case, error) {
	output := outputOf(path)
	if output == "" {
		return nil, nil
	}
	input, err := l.text(path)
	if err != nil {
		return nil, err
	}
	want, err := l.text(output)
	if err != nil {
		return nil, err
	}
	isPublic := slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool {
		return slices.Contains([]string{"sample", "samples", "public"}, part)
	})
	return []Case{{Name: caseName(name), Public: isPublic, Stdin: input, Expect: Expect{Stdout: &want}}}, nil
}

func caseName(name string) string {
	for _, end := range inputEnds {
		name = strings.TrimSuffix(name, end)
	}
	return strings.TrimSuffix(strings.TrimSuffix(name, "/input"), "/input.txt")
}

// outputOf returns the output file of an input file, or "" if path is not one.
func outputOf(path string) string {
	var candidates []string
	for _, end := range inputEnds {
		if name, ok := strings.CutSuffix(path, end); ok {
			for _, other := range outputEnds {
				candidates = append(candidates, name+other)
			}
		}
	}
	dir, base := filepath.Split(path)
	switch base {
	case "input", "input.txt":
		candidates = append(candidates, dir+strings.Replace(base, "input", "output", 1), dir+strings.Replace(base, "input", "expected", 1))
	}
	if filepath.Base(filepath.Clean(dir)) == "in" {
		above := filepath.Dir(filepath.Clean(dir))
		candidates = append(candidates, filepath.Join(above, "out", base), filepath.Join(above, "out", strings.TrimSuffix(base, ".in")+".out"))
	}
	for _, candidate := range candidates {
		if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() {
			return candidate
		}
	}
	return ""
}

func (l *loader) text(path string) (string, error) {
	if _, err := l.follow(path); err != nil {
		return "", err
	}
	data, err := regular.Read(os.OpenFile, path, maxBytes)
	return string(data), err
}
