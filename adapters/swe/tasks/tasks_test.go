package tasks_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/swe/tasks"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/patch"
)

// TestRightIsRightAndWrongIsWrong runs each task's tests on the untouched tree,
// on the reference and on each wrong answer: one module, one package for each.
func TestRightIsRightAndWrongIsWrong(t *testing.T) {
	list, err := tasks.Repair()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 20 {
		t.Fatalf("%d tasks, want at least 20", len(list))
	}
	if testing.Short() {
		list = list[len(list)-4:]
	}
	root := t.TempDir()
	write(t, root, map[string]string{"go.mod": "module repair\n\ngo 1.26\n"})
	want := map[string]bool{}
	for _, task := range list {
		add := func(variant string, files map[string]string, pass bool) {
			folder := task.Name + "/" + variant
			for name, text := range files {
				if name != "go.mod" {
					write(t, root, map[string]string{folder + "/" + name: text})
				}
			}
			want["repair/"+folder] = pass
		}
		add("untouched", task.Files, false)
		add("fix", apply(t, &task, task.Fix), true)
		for _, model := range tasks.Models() {
			if !task.Right(model) {
				add(model, apply(t, &task, task.Answer(model)), false)
			}
		}
	}
	got := run(t, root)
	for name, pass := range want {
		result, ran := got[name]
		switch {
		case !ran:
			t.Errorf("%s did not run: does it compile?\n%s", name, got["output"].text)
		case result.passed != pass:
			t.Errorf("%s: passed = %t, want %t\n%s", name, result.passed, pass, result.text)
		case !pass && !strings.Contains(result.text, "--- FAIL") && !strings.Contains(result.text, "panic:"):
			t.Errorf("%s fails, but not by its tests:\n%s", name, result.text)
		}
	}
}

func apply(t *testing.T, task *tasks.Task, answer string) map[string]string {
	t.Helper()
	files, err := patch.ApplyToMap(task.Files, patch.Parse(&sdk.Answer{Text: answer}, ""))
	if err != nil {
		t.Fatalf("%s: %v", task.Name, err)
	}
	return files
}

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

type result struct {
	passed bool
	text   string
}

// run runs go test over the module at root and returns each package's result.
func run(t *testing.T, root string) map[string]result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-json", "-vet=off", "-timeout=8s", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-trimpath")
	out, _ := cmd.Output() // fails: most of the packages are defective
	results := map[string]result{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var event struct{ Action, Package, Test, Output string }
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			continue
		}
		r := results[event.Package]
		r.text += event.Output
		if event.Test == "" && (event.Action == "pass" || event.Action == "fail") {
			r.passed = event.Action == "pass"
		}
		results[event.Package] = r
	}
	return results
}

func TestModelsDiffer(t *testing.T) {
	list, err := tasks.Repair()
	if err != nil {
		t.Fatal(err)
	}
	solved := map[string]int{}
	together := 0
	for _, task := range list {
		any := false
		for _, model := range tasks.Models() {
			if task.Right(model) {
				solved[model]++
				any = true
			}
		}
		if any {
			together++
		}
		if !strings.Contains(task.Prompt(), task.Statement) || !strings.Contains(task.Prompt(), "func Test") {
			t.Errorf("%s: the prompt lacks the statement or the tests", task.Name)
		}
	}
	t.Logf("of %d: %v, together %d", len(list), solved, together)
	if solved[tasks.Small] >= solved[tasks.Medium] || solved[tasks.Medium] >= solved[tasks.Large] || solved[tasks.Large] >= together || together >= len(list) {
		t.Errorf("of %d tasks the models solve %v and %d together", len(list), solved, together)
	}
}
