package suite_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/suite"
	"github.com/stepfall/stepfall/sdk/patch"
)

var models = []string{"small", "medium", "large"}

// TestRightIsRightAndWrongIsWrong runs each task's tests on the tree with the
// defect, with the fix and with each wrong answer.
func TestRightIsRightAndWrongIsWrong(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the tests of repositories")
	}
	s := load(t)
	list := s.Tasks
	if os.Getenv("STEPFALL_SUITE") == "" {
		// A subset in the ordinary run: the first and the hardest of each repository.
		var subset []suite.Task
		for i := range list {
			if strings.HasSuffix(list[i].ID, "-03") {
				subset = append(subset, list[i])
			}
		}
		list = subset
	}
	for _, task := range list {
		t.Run(task.ID, func(t *testing.T) {
			repo := s.Repos[task.Repo]
			if tool := repo.TestCommand()[0]; !have(tool) {
				t.Skipf("no %s here", tool)
			}
			check := func(variant string, files map[string]string, want bool) {
				t.Helper()
				passed, text := run(t, repo, files)
				missing := func(names []string) []string {
					return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return passed[name] || strings.HasSuffix(name, "/TestTiming") })
				}
				failed := append(missing(task.FailToPass), missing(task.PassToPass)...)
				if (len(failed) == 0) != want {
					t.Errorf("%s: failed tests %v, want all to pass: %t\n%s", variant, failed, want, text)
				}
				if variant == "untouched" {
					for _, name := range task.FailToPass {
						if passed[name] {
							t.Errorf("%s passes on the untouched tree", name)
						}
					}
					// A test that never ends takes those behind it in its package along.
					if failed := missing(task.PassToPass); len(failed) > 0 && !strings.Contains(text, "test timed out") && !strings.Contains(text, "panic: ") {
						t.Errorf("untouched: %v fail as well", failed)
					}
				}
			}
			check("untouched", task.Files, false)
			check("fix", apply(t, task, task.Fix), true)
			for _, model := range models {
				if !task.Right(model) {
					check(model, apply(t, task, task.Edits(model)), false)
				}
			}
		})
	}
}

func TestSuiteIsGraded(t *testing.T) {
	s := load(t)
	if len(s.Tasks) < 40 || len(s.Repos) < 6 {
		t.Fatalf("%d tasks over %d repositories, want 40 over 6", len(s.Tasks), len(s.Repos))
	}
	solved, together := map[string]int{}, 0
	for _, task := range s.Tasks {
		any := false
		for _, model := range models {
			if task.Right(model) {
				solved[model]++
				any = true
			}
		}
		if any {
			together++
		}
		for _, name := range task.FailToPass {
			if !slices.Contains(s.Repos[task.Repo].Tests(), name) {
				t.Errorf("%s: no test %q", task.ID, name)
			}
		}
	}
	t.Logf("of %d: %v, together %d", len(s.Tasks), solved, together)
	if solved["small"] >= solved["medium"] || solved["medium"] >= solved["large"] || solved["large"] >= len(s.Tasks) {
		t.Errorf("of %d tasks the models solve %v", len(s.Tasks), solved)
	}
}

func load(t *testing.T) *suite.Suite {
	t.Helper()
	s, err := suite.Load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func have(tool string) bool {
	_, err := exec.LookPath(tool)
	return err == nil
}

func apply(t *testing.T, task suite.Task, edits []patch.Edit) map[string]string {
	t.Helper()
	files, err := patch.ApplyToMap(task.Files, edits)
	if err != nil {
		t.Fatalf("%s: %v", task.ID, err)
	}
	return files
}

var (
	pythonLine = regexp.MustCompile(`(?m)^(test_\w+) \(([\w.]+)\) \.\.\. ok$`)
	tapLine    = regexp.MustCompile(`(?m)^ *ok \d+ - (.+)$`)
)

// run runs the repository's tests over files and returns the names of those that passed.
func run(t *testing.T, repo *suite.Repo, files map[string]string) (map[string]bool, string) {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	args := repo.TestCommand()
	switch repo.Language {
	case "go":
		args = []string{"go", "test", "-json", "-vet=off", "-timeout=6s", "./..."}
	case "javascript":
		args = append(args, "--test-reporter=tap")
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-trimpath", "PYTHONDONTWRITEBYTECODE=1")
	out, _ := cmd.CombinedOutput() // fails on most trees
	passed := map[string]bool{}
	switch repo.Language {
	case "python":
		for _, m := range pythonLine.FindAllSubmatch(out, -1) {
			passed[fullName(string(m[2]), string(m[1]))] = true
		}
	case "javascript":
		for _, m := range tapLine.FindAllSubmatch(out, -1) {
			passed[string(m[1])] = true
		}
	default:
		module := "example.com/" + repo.Name
		for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
			var event struct{ Action, Package, Test string }
			if json.Unmarshal(lines.Bytes(), &event) == nil && event.Action == "pass" && event.Test != "" {
				folder := strings.TrimPrefix(strings.TrimPrefix(event.Package, module), "/")
				if folder == "" {
					folder = "."
				}
				passed[path.Dir(folder+"/x")+"/"+event.Test] = true
			}
		}
	}
	return passed, string(out)
}

// fullName joins a Python test's class and name; newer versions put the name into the class.
func fullName(class, name string) string {
	if strings.HasSuffix(class, "."+name) {
		return class
	}
	return fmt.Sprintf("%s.%s", class, name)
}
