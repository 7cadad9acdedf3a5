package tasks

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/stepfall/stepfall/adapters/scripted"
)

//go:embed repair/*.txtar
var repair embed.FS

// The scripted models, cheapest first.
const (
	Small  = "small"
	Medium = "medium"
	Large  = "large"
)

// Models lists the scripted models, cheapest first.
func Models() []string { return []string{Small, Medium, Large} }

// Task is one repair task.
type Task struct {
	Name string
	// Level grades the difficulty from 1 to 3.
	Level     int
	Statement string
	// Files is the package with the defect and its tests, by path, including go.mod.
	Files map[string]string
	// Fix is the reference answer.
	Fix string
	// wrong holds the wrong answers by model.
	wrong map[string]string
}

// Answer returns a scripted model's answer.
func (t *Task) Answer(model string) string {
	if text, ok := t.wrong[model]; ok {
		return text
	}
	return t.Fix
}

// Right reports whether a scripted model solves the task.
func (t *Task) Right(model string) bool {
	_, wrong := t.wrong[model]
	return !wrong
}

// Group returns the group of the task's queries: its level, as in an issue tracker's labels.
func (t *Task) Group() string { return fmt.Sprintf("repair/level-%d", t.Level) }

// Repair returns the bundled tasks, easy ones first.
func Repair() (list []Task, err error) {
	err = ReadArchives(repair, "repair/*.txtar", func(name string, archive *txtar.Archive) error {
		t, err := parse(name, archive)
		list = append(list, t)
		return err
	})
	slices.SortStableFunc(list, func(a, b Task) int { return a.Level - b.Level })
	return list, err
}

// ReadArchives calls do for each archive that matches a pattern, with its name without extension.
func ReadArchives(files embed.FS, pattern string, do func(name string, archive *txtar.Archive) error) error {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		return err
	}
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		if err := do(strings.TrimSuffix(path.Base(name), ".txtar"), txtar.Parse(data)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func parse(name string, archive *txtar.Archive) (Task, error) {
	first, rest, _ := strings.Cut(string(archive.Comment), "\n")
	level := slices.Index([]string{"level: 1", "level: 2", "level: 3"}, first) + 1
	if level == 0 {
		return Task{}, fmt.Errorf("the first line is %q, want level: 1, 2 or 3", first)
	}
	t := Task{
		Name: name, Level: level, Statement: strings.TrimSpace(rest),
		Files: map[string]string{"go.mod": "module " + name + "\n\ngo 1.26\n"},
		wrong: map[string]string{},
	}
	for _, f := range archive.Files {
		model, isAnswer := strings.CutSuffix(f.Name, ".txt")
		switch {
		case f.Name == "fix.txt":
			t.Fix = string(f.Data)
		case isAnswer && slices.Contains(Models(), model):
			t.wrong[model] = string(f.Data)
		default:
			t.Files[f.Name] = string(f.Data)
		}
	}
	if t.Fix == "" || t.Statement == "" {
		return Task{}, fmt.Errorf("fix.txt or the problem statement is missing")
	}
	return t, nil
}

// Write writes the task's files into dir, which exists.
func (t *Task) Write(dir string) error {
	for name, text := range t.Files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Prompt returns the question for a model: the problem, the files, and the form of the answer.
func (t *Task) Prompt() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Task %s. The unit tests of this Go package fail because of a defect. Mend the package; do not change the tests.\n\n%s\n", t.Name, t.Statement)
	for _, name := range slices.Sorted(maps.Keys(t.Files)) {
		fmt.Fprintf(&b, "\n%s\n```\n%s```\n", name, t.Files[name])
	}
	b.WriteString(`
Answer with search/replace blocks only. Each names its file on the line before the
fence; the search part must stand in the file exactly once:

FILE
` + "```go" + `
<<<<<<< SEARCH
old lines
=======
new lines
>>>>>>> REPLACE
` + "```\n")
	return b.String()
}

// Confidence returns a scripted model's apparent token probability: a little less where it is wrong, as with real
// models.
func (t *Task) Confidence(model string) float64 {
	sure := map[string]float64{Small: 0.80, Medium: 0.86, Large: 0.92}[model]
	if !t.Right(model) {
		sure -= 0.12
	}
	return sure
}

// Script returns the function with which a scripted server answers the tasks' prompts. The name at the start of the
// prompt identifies the task.
func Script(list []Task) func(context.Context, *scripted.Request) scripted.Reply {
	byName := make(map[string]*Task, len(list))
	for i := range list {
		byName[list[i].Name] = &list[i]
	}
	return func(_ context.Context, req *scripted.Request) scripted.Reply {
		name, _, _ := strings.Cut(strings.TrimPrefix(req.LastUser(), "Task "), ".")
		t, ok := byName[name]
		if !ok {
			return scripted.Reply{Text: "I am a scripted model and know the bundled tasks only."}
		}
		return scripted.Reply{Text: t.Answer(req.Model), Confidence: t.Confidence(req.Model)}
	}
}
