package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk/jail"
)

// alter alters the expectations in the files with changes, each in its language. Files in a language whose
// parser is unavailable are omitted.
func (e *expectations) alter(ctx context.Context, way alter.Way, changes []jail.Change, data bool) ([]alter.Source, error) {
	requests := map[string]*alter.Request{}
	for _, file := range e.files {
		language := alter.Language(file)
		if e.isRest && language != "go" && alter.Languages[language].Text == "" {
			continue // each assertion is altered by itself
		}
		if requests[language] == nil {
			requests[language] = &alter.Request{Way: way, Seed: e.seed, Whole: e.whole, Data: data, Rest: e.isRest, Record: e.recordIn(language), Names: e.functions(language)}
		}
		requests[language].Files = append(requests[language].Files, e.source(file, changes))
	}
	var altered []alter.Source
	for _, language := range slices.Sorted(maps.Keys(requests)) {
		if alter.Languages[language].Text == "" {
			altered = append(altered, requests[language].Alter()...)
			continue
		}
		interpreter := e.interpreter(ctx, language)
		if interpreter == "" {
			continue
		}
		var found []alter.Source
		if err := e.runProgram(ctx, interpreter, alter.Languages[language], requests[language], nil, &found); err != nil {
			return nil, err
		}
		if found == nil {
			e.fault = "the tests, since " + alter.Languages[language].Name + " was stopped, or found too much"
		}
		for _, source := range found {
			if source.Fault != "" {
				e.fault = source.Path + ": " + source.Fault
			}
			if source.Count+len(source.Data) == 0 {
				continue
			}
			altered = append(altered, source)
		}
	}
	return altered, nil
}

// olderGo matches modules in a version of Go without type parameters.
var olderGo = regexp.MustCompile(`(?m)^go 1\.(\d|1[0-7])\b`)

// recordIn returns the file in which comparisons in a language record what the code returned, or "" if they
// cannot.
func (e *expectations) recordIn(language string) string {
	if language != "go" {
		return e.record
	}
	for _, file := range e.a.tree.Files {
		if path.Base(file) != "go.mod" {
			continue
		}
		data, err := e.a.tree.read(file)
		if err != nil || olderGo.Match(data) || !bytes.Contains(data, []byte("\ngo ")) {
			return ""
		}
	}
	return e.record
}

// functions returns the Python functions that passed as tests.
func (e *expectations) functions(language string) []string {
	if language != "python" {
		return nil
	}
	names := map[string]bool{}
	for _, test := range e.passed.Tests {
		id, _, _ := strings.Cut(test.DottedName(), "[")
		names[id[strings.LastIndex(id, ".")+1:]] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// runProgram runs one of the embedded programs where tests run, with further changes, and decodes its answer to
// a request, if it gives one.
func (e *expectations) runProgram(ctx context.Context, interpreter string, program alter.Program, request any, changes []jail.Change, answer any) error {
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	dir := fmt.Sprintf(".stepfall-%x", rand.Uint64())
	report := dir + "/answer"
	result, err := e.a.tree.walls.Run(ctx, e.v.spec(e.a.tree, interpreter, &runner.Plan{
		Argv: slices.Concat([]string{interpreter}, program.Arguments, []string{dir + "/" + program.Name, dir + "/request", report}), Env: program.Env, Reports: []string{report},
		Changes: slices.Concat(changes, []jail.Change{{Path: dir + "/" + program.Name, Data: []byte(program.Text)}, {Path: dir + "/request", Data: data}}),
	}))
	if err == nil {
		_ = json.Unmarshal(result.Reports[report], answer) // no answer if it was stopped
	}
	return err
}

var interpreters = map[string]*regexp.Regexp{"python": regexp.MustCompile(`^(python|pypy)[\d.]*$`), "node": regexp.MustCompile(`^node$`)}

// interpreter returns the program of a language: the command's own, one beside it, or the one in the PATH; "" if
// there is none.
func (e *expectations) interpreter(ctx context.Context, language string) string {
	program := e.v.config.Command[0]
	if interpreters[language].MatchString(filepath.Base(program)) {
		return program
	}
	name := map[string]string{"python": "python3", "node": "node"}[language]
	if e.v.containers != nil {
		return name
	}
	candidates := []string{name}
	if _, found := locate(ctx, program); found != "" {
		candidates = []string{filepath.Join(filepath.Dir(found), name), name}
	}
	for _, candidate := range candidates {
		if named, _ := locate(ctx, candidate); named != "" {
			return named
		}
	}
	return ""
}
