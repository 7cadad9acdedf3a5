package verify

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
)

// What an earlier build left is no data of tests that name the class, unlike what they read.
func TestCompiledClassesAreNoData(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"src/test/java/ATest.java":     "class ATest { void a() { assertThrows(AnError.class, () -> run(read(\"sum.txt\"))); } }\n",
		"target/classes/AnError.class": "compiled", "src/test/resources/sum.txt": "5\n",
	}
	var names []string
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	data := (&Verifier{}).testData(&tree{Tree: runner.Tree{Dir: dir, Files: names}, root: root}, []string{"src/test/java/ATest.java"}, false)
	if !slices.Equal(data, []string{"src/test/resources/sum.txt"}) {
		t.Errorf("data of the tests: %v", data)
	}
}
