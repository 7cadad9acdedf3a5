package tasks_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/stepfall/stepfall/adapters/internal/tasks"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/patch"
)

// TestRightIsRightAndWrongIsWrong runs each task's tests on the untouched tree, on the reference and on each wrong
// answer. All are packages of one program, which runs one at a time: linking a test binary for each would take
// minutes.
func TestRightIsRightAndWrongIsWrong(t *testing.T) {
	list, err := tasks.Repair()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 40 {
		t.Fatalf("%d tasks, want at least 40", len(list))
	}
	if testing.Short() {
		list = list[len(list)-4:]
	}
	root := t.TempDir()
	write(t, root, map[string]string{"go.mod": "module repair\n\ngo 1.26\n"})
	want := map[string]bool{}
	var imports, calls strings.Builder
	for _, task := range list {
		add := func(variant string, files map[string]string, pass bool) {
			folder := task.Name + "/" + variant
			var text strings.Builder
			for name, source := range files {
				if name == "go.mod" {
					continue
				}
				write(t, root, map[string]string{folder + "/" + strings.Replace(name, "_test.go", "_tested.go", 1): source})
				for _, m := range testFunc.FindAllStringSubmatch(source, -1) {
					fmt.Fprintf(&text, "\t\tt.Run(%q, p%d.%s)\n", m[1], len(want), m[1])
				}
			}
			if text.Len() == 0 {
				t.Errorf("%s has no tests", folder)
			}
			fmt.Fprintf(&imports, "\tp%d \"repair/%s\"\n", len(want), folder)
			fmt.Fprintf(&calls, "\tcase %q:\n%s", folder, text.String())
			want[folder] = pass
		}
		add("untouched", task.Files, false)
		add("fix", apply(t, &task, task.Fix), true)
		for _, model := range tasks.Models() {
			if !task.Right(model) {
				add(model, apply(t, &task, task.Answer(model)), false)
			}
		}
	}
	write(t, root, map[string]string{"all_test.go": "package repair\n\nimport (\n\t\"os\"\n\t\"testing\"\n\n" + imports.String() +
		")\n\nfunc TestIt(t *testing.T) {\n\tswitch os.Getenv(\"VARIANT\") {\n" + calls.String() + "\t}\n}\n"})
	program := filepath.Join(root, "all")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", program, ".")
	build.Dir, build.Env = root, append(os.Environ(), "GOWORK=off", "GOFLAGS=-trimpath")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("an answer does not compile: %v\n%s", err, out)
	}
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for name, pass := range want {
		group.Go(func() error {
			cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.timeout=2s")
			cmd.Env = append(os.Environ(), "VARIANT="+name)
			out, err := cmd.CombinedOutput()
			switch {
			case !bytes.Contains(out, []byte("=== RUN   TestIt/")):
				return fmt.Errorf("%s did not run: %w\n%s", name, err, out)
			case (err == nil) != pass:
				return fmt.Errorf("%s: passed = %t, want %t\n%s", name, err == nil, pass, out)
			case !pass && !bytes.Contains(out, []byte("--- FAIL")) && !bytes.Contains(out, []byte("panic:")):
				return fmt.Errorf("%s fails, but not by its tests:\n%s", name, out)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

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
