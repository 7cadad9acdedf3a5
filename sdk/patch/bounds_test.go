package patch_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/patch"
)

// TestAttackPatchWork: an answer is worked on outside of any time limit of a run,
// so that its size must bound the work. What took 4, 20 and 158 seconds is among
// the cases; none takes a second now, and the bound leaves room for slow and busy machines.
func TestAttackPatchWork(t *testing.T) {
	if testing.Short() {
		t.Skip("times say nothing under the race detector")
	}
	blank := strings.Repeat("\n", 80<<10)
	long := strings.Repeat("line\n", 200_000)
	var blocks, hunks, folders strings.Builder
	for i := range 2800 {
		fmt.Fprintf(&blocks, "long.txt\n<<<<<<< SEARCH\nl%d\n=======\n\n>>>>>>> REPLACE\n", i)
	}
	hunks.WriteString("--- a/long.txt\n+++ b/long.txt\n")
	for range 20_000 {
		hunks.WriteString("@@ -1 +1 @@\n-none\n+none\n")
	}
	folders.WriteString("```text path=" + strings.Repeat("a/", 6000) + "b\nx\n```\n")
	files := fstest.MapFS{
		"blank.txt": {Data: []byte(blank + "end\n")}, "long.txt": {Data: []byte(long)}, "a.txt": {Data: []byte("a\n")},
		"as.txt": {Data: []byte(strings.Repeat("a\n", 40_000) + "b\n")},
	}
	double := strings.Repeat("a.txt\n<<<<<<< SEARCH\na\n=======\na"+strings.Repeat("b", 2000)+"\n>>>>>>> REPLACE\n", 3000)
	var renames strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&renames, "diff --git a/b%d b/b%d\nrename from b%d\nrename to b%d\n", i, i+1, i, i+1)
	}
	files["b0"] = &fstest.MapFile{Data: []byte(strings.Repeat("x", 16<<20))}
	for name, answer := range map[string]string{
		"renames of a large file":        renames.String(),
		"hunks in one long line":         strings.Repeat("--- a/b0\n+++ b/b0\n@@ -0,0 +1 @@\n+x\n", 60_000),
		"paths":                          strings.Repeat("a/b.c:\n", 200_000),
		"sentences":                      strings.Repeat("Then remove what `a.go` has, and rename it, as (above) in a.b:\n", 120_000),
		"fences within fences":           strings.Repeat("```x\n```x\n```\n", 500_000),
		"what looks like JSON":           strings.Repeat("[1,\n", 1_500_000),
		"rules":                          strings.Repeat("=== a.go ===\n```\n", 400_000),
		"tags":                           strings.Repeat("<content>\n", 700_000),
		"blocks of one file":             strings.Repeat("In `long.txt`:\n```\nline\n```\n", 200_000),
		"two fences":                     strings.Repeat("~~~\n```\n", 100_000),
		"blank lines in a hunk":          "--- a/blank.txt\n+++ b/blank.txt\n@@ -5 +5 @@\n" + blank + "-none\n+none\n",
		"blank lines without an end":     strings.Repeat("--- a/blank.txt\n+++ b/blank.txt\n@@ -5 +5 @@\n-x\n"+strings.Repeat("\n", 400), 200),
		"lines that nearly fit":          "--- a/as.txt\n+++ b/as.txt\n@@ -5 +5 @@\n" + strings.Repeat("-a\n", 20_000) + "-c\n+d\n",
		"search blocks":                  blocks.String(),
		"hunks that are nowhere":         hunks.String(),
		"a file that grows":              double,
		"folders":                        folders.String(),
		"fences":                         strings.Repeat("```\n````\n", 50_000),
		"more than anybody would answer": strings.Repeat("x", 9<<20),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := patch.Apply(files, patch.Parse(&sdk.Answer{Text: answer}, ""))
			took := time.Since(start)
			if misfit := (*patch.Error)(nil); err != nil && !errors.As(err, &misfit) {
				t.Errorf("error %v", err)
			} else if err != nil && len(err.Error()) > 4096 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			t.Logf("%d bytes in %v", len(answer), took)
			if took > 30*time.Second {
				t.Errorf("%d bytes took %v", len(answer), took)
			}
		})
	}
}

func TestPathsAreBounded(t *testing.T) {
	for _, name := range []string{strings.Repeat("a/", 65) + "b", strings.Repeat("a", 256), strings.Repeat("abcdefgh/", 120) + "b", "a\x1bb", "a\u009bb", "a\u202eb", "a\xffb", "a\x00b",
		".git/config", ".GIT/config", ".git./config", "sub/.git /hooks/x", "git~1/config", ".git::$INDEX_ALLOCATION/config", ".g\u200cit/config"} {
		_, err := patch.Apply(fstest.MapFS{}, []patch.Edit{{Kind: patch.Whole, Path: name, Content: "x"}})
		if misfit := (*patch.Error)(nil); !errors.As(err, &misfit) || strings.ContainsAny(err.Error(), "\x1b\x00\u009b\u202e") {
			t.Errorf("%.40q: %v", name, err)
		}
	}
	if _, err := patch.Apply(fstest.MapFS{}, []patch.Edit{{Kind: patch.Whole, Path: strings.Repeat("a/", 60) + "b", Content: "x"}}); err != nil {
		t.Error(err)
	}
}

// TestAttackPatchForms: what cannot be applied as it is meant is refused, rather than
// applied as something else.
func TestAttackPatchForms(t *testing.T) {
	tree := fstest.MapFS{"a.png": {Data: []byte("\x89PNG\x00")}, "a.sh": {Data: []byte("a\n"), Mode: 0o644}}
	for name, answer := range map[string]string{
		"binary":         "diff --git a/a.png b/a.png\nindex 1..2 100644\nGIT binary patch\nliteral 3\nKcmZQzU|{}\n\n",
		"binary, unsaid": "diff --git a/a.png b/a.png\nindex 1..2 100644\nBinary files a/a.png and b/a.png differ\n",
		"a link":         "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n",
		"a repository":   "diff --git a/m b/m\nnew file mode 160000\n--- /dev/null\n+++ b/m\n@@ -0,0 +1 @@\n+Subproject commit abc\n",
		"file, folder":   "```text path=n\nx\n```\n```text path=n/m\nx\n```\n",
	} {
		files, err := patch.Apply(tree, patch.Parse(&sdk.Answer{Text: answer}, ""))
		if misfit := (*patch.Error)(nil); !errors.As(err, &misfit) {
			t.Errorf("%s: %v, %v", name, files, err)
		}
	}
	files, err := patch.Apply(tree, patch.Parse(&sdk.Answer{Text: "diff --git a/a.sh b/a.sh\nold mode 100644\nnew mode 100755\n"}, ""))
	if err != nil || len(files) != 1 || files[0].Mode != 0o755 || string(files[0].Content) != "a\n" {
		t.Errorf("a mode: %v, %v", files, err)
	}
}
