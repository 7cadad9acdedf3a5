//go:build unix

package patch_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/patch"
)

// TestAttackPatchWork: parsing and applying an answer is not subject to a run's timeout, so the work must be limited.
// The cases once took 4, 20 and 158 seconds; now none takes five seconds of processor time.
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
		"as.txt":     {Data: []byte(strings.Repeat("a\n", 40_000) + "b\n")},
		"longer.txt": {Data: []byte(strings.Repeat("a line, longer\tas\n", 250_000))},
	}
	double := strings.Repeat("a.txt\n<<<<<<< SEARCH\na\n=======\na"+strings.Repeat("b", 2000)+"\n>>>>>>> REPLACE\n", 3000)
	var renames strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&renames, "diff --git a/b%d b/b%d\nrename from b%d\nrename to b%d\n", i, i+1, i, i+1)
	}
	files["b0"] = &fstest.MapFile{Data: []byte(strings.Repeat("x", 16<<20))}
	// Each takes a second and more, and is read as another is that stays.
	inCI := []string{"sentences", "rules", "blocks of one file"}
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
		"long lines that nearly fit":     "longer.txt\n<<<<<<< SEARCH\n" + strings.Repeat("a line, longer\tas\n", 125_000) + "b\n=======\nc\n>>>>>>> REPLACE\n",
		"search blocks":                  blocks.String(),
		"hunks that are nowhere":         hunks.String(),
		"a file that grows":              double,
		"folders":                        folders.String(),
		"fences":                         strings.Repeat("```\n````\n", 50_000),
		"more than anybody would answer": strings.Repeat("x", 9<<20),
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv("STEPFALL_ATTACKS") != "all" && slices.Contains(inCI, name) {
				t.Skip("STEPFALL_ATTACKS is not all")
			}
			start := processorTime(t)
			_, err := patch.Apply(files, patch.Parse(&sdk.Answer{Text: answer}, ""))
			took := processorTime(t) - start
			if misfit := (*patch.Error)(nil); err != nil && !errors.As(err, &misfit) {
				t.Errorf("error %v", err)
			} else if err != nil && len(err.Error()) > 4096 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			t.Logf("%d bytes in %v", len(answer), took)
			if took > 15*time.Second {
				t.Errorf("%d bytes took %v", len(answer), took)
			}
		})
	}
}

// processorTime returns the processor time of this process, which does not depend on the machine's load.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
