package suite

import (
	"embed"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/stepfall/stepfall/adapters/internal/tasks"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/patch"
)

//go:embed repos/*.txtar tasks/*.txtar
var suiteFiles embed.FS

// Repo is a small repository whose tests pass.
type Repo struct {
	Name string
	// About is a one-line description.
	About string
	// Language is "go", "python" or "javascript".
	Language string
	Files    map[string]string
}

// TestCommand returns the command that runs the repository's tests.
func (r *Repo) TestCommand() []string {
	switch r.Language {
	case "python":
		return []string{"python3", "-m", "unittest", "-v"}
	case "javascript":
		return []string{"node", "--test"}
	}
	return []string{"go", "test", "./..."}
}

// Task is one defect in one repository.
type Task struct {
	ID   string
	Repo string
	// Level grades the difficulty from 1 to 3.
	Level     int
	Statement string
	// FailToPass are the tests that fail because of the defect; PassToPass are the others.
	FailToPass, PassToPass []string
	// Files is the repository with the defect.
	Files map[string]string
	// Fix is the correct change.
	Fix []patch.Edit

	wrong map[string][]patch.Edit
}

// Edits returns the change that a scripted model makes.
func (t *Task) Edits(model string) []patch.Edit {
	if edits, ok := t.wrong[model]; ok {
		return edits
	}
	return t.Fix
}

// Right reports whether a scripted model solves the task.
func (t *Task) Right(model string) bool {
	_, wrong := t.wrong[model]
	return !wrong
}

// Suite holds the bundled repositories and tasks.
type Suite struct {
	Repos map[string]*Repo
	// Tasks are sorted by ID.
	Tasks []Task
}

// Load reads the bundled suite.
func Load() (*Suite, error) {
	s := &Suite{Repos: map[string]*Repo{}}
	err := tasks.ReadArchives(suiteFiles, "repos/*.txtar", func(name string, archive *txtar.Archive) error {
		r := &Repo{Name: name, About: strings.TrimSpace(string(archive.Comment)), Language: "go", Files: map[string]string{}}
		for _, f := range archive.Files {
			r.Files[f.Name] = string(f.Data)
			switch {
			case f.Name == "package.json":
				r.Language = "javascript"
			case strings.HasSuffix(f.Name, ".py"):
				r.Language = "python"
			}
		}
		s.Repos[name] = r
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = tasks.ReadArchives(suiteFiles, "tasks/*.txtar", func(name string, archive *txtar.Archive) error {
		t, err := s.task(name, archive)
		if err == nil {
			s.Tasks = append(s.Tasks, t)
		}
		return err
	})
	return s, err
}

func (s *Suite) task(id string, archive *txtar.Archive) (Task, error) {
	head, statement, _ := strings.Cut(string(archive.Comment), "\n\n")
	t := Task{ID: id, Statement: strings.TrimSpace(statement), wrong: map[string][]patch.Edit{}}
	headers := map[string]string{}
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if headers[key] = value; !slices.Contains([]string{"repo", "level", "fail"}, key) {
			return t, fmt.Errorf("unknown header %q", key)
		}
	}
	t.Repo = headers["repo"]
	t.Level, _ = strconv.Atoi(headers["level"])
	repo, fail := s.Repos[t.Repo], headers["fail"]
	if repo == nil || t.Level < 1 || t.Level > 3 || fail == "" || t.Statement == "" {
		return t, fmt.Errorf("repo, level, fail or the statement is missing or wrong")
	}
	if repo.Language == "go" {
		t.FailToPass = strings.Fields(fail)
	} else {
		t.FailToPass = strings.Split(fail, "; ")
	}
	t.PassToPass = slices.DeleteFunc(repo.Tests(), func(name string) bool { return slices.Contains(t.FailToPass, name) })
	for _, f := range archive.Files {
		edits := patch.Parse(&sdk.Answer{Text: string(f.Data)}, "")
		if len(edits) == 0 {
			return t, fmt.Errorf("%s has no edit", f.Name)
		}
		if f.Name != "break.txt" {
			t.wrong[strings.TrimSuffix(f.Name, ".txt")] = edits
			continue
		}
		var err error
		if t.Files, err = patch.ApplyToMap(repo.Files, edits); err != nil {
			return t, fmt.Errorf("%s: %w", f.Name, err)
		}
		for _, e := range edits {
			e.Search, e.Content = e.Content, e.Search
			t.Fix = append(t.Fix, e)
		}
		slices.Reverse(t.Fix)
	}
	if t.Files == nil {
		return t, fmt.Errorf("break.txt is missing")
	}
	return t, nil
}

var (
	goTest     = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	pythonTest = regexp.MustCompile(`(?m)^class (\w+)\(unittest|^    def (test_\w+)\(`)
	nodeTest   = regexp.MustCompile(`(?m)^test\('([^']+)'`)
)

// Tests returns the names of the repository's tests, sorted: "folder/TestName" for
// Go ("./TestName" at the root), "module.Class.test_name" for Python, the title for
// JavaScript.
func (r *Repo) Tests() []string {
	var names []string
	for _, file := range slices.Sorted(maps.Keys(r.Files)) {
		text := r.Files[file]
		switch {
		case strings.HasSuffix(file, "_test.go"):
			folder := path.Dir(file)
			for _, m := range goTest.FindAllStringSubmatch(text, -1) {
				names = append(names, folder+"/"+m[1])
			}
		case strings.HasSuffix(file, ".py"):
			module := strings.ReplaceAll(strings.TrimSuffix(file, ".py"), "/", ".")
			class := ""
			for _, m := range pythonTest.FindAllStringSubmatch(text, -1) {
				if m[1] != "" {
					class = m[1]
				} else {
					names = append(names, module+"."+class+"."+m[2])
				}
			}
		case strings.HasSuffix(file, ".test.js"):
			for _, m := range nodeTest.FindAllStringSubmatch(text, -1) {
				names = append(names, m[1])
			}
		}
	}
	slices.Sort(names)
	return names
}
