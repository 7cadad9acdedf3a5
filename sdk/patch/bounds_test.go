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
// the cases; the bound here leaves room for slow and busy machines.
func TestAttackPatchWork(t *testing.T) {
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
	for name, answer := range map[string]string{
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
			if took > 8*time.Second {
				t.Errorf("%d bytes took %v", len(answer), took)
			}
		})
	}
}

func TestPathsAreBounded(t *testing.T) {
	for _, name := range []string{strings.Repeat("a/", 65) + "b", strings.Repeat("a", 256), strings.Repeat("abcdefgh/", 120) + "b", "a\x1bb"} {
		_, err := patch.Apply(fstest.MapFS{}, []patch.Edit{{Kind: patch.Whole, Path: name, Content: "x"}})
		if misfit := (*patch.Error)(nil); !errors.As(err, &misfit) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%.40q: %v", name, err)
		}
	}
	if _, err := patch.Apply(fstest.MapFS{}, []patch.Edit{{Kind: patch.Whole, Path: strings.Repeat("a/", 60) + "b", Content: "x"}}); err != nil {
		t.Error(err)
	}
}
