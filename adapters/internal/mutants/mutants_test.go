package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a module of one package and goes there.
func module(t *testing.T, code, tests string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"go.mod": "module example.com/m\n\ngo 1.26\n", "m.go": code, "m_test.go": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func TestWhatLivesIsPrinted(t *testing.T) {
	module(t, `package m

import "time"

const most = 2 + 1

type flag bool

// adult's boundary is not tested.
func adult(age int) bool { return age >= 18 }

// No change of names compiles, nor one of a comparison that is a flag.
func names(a, b string) string { return a + b }

func same(a, b int) flag { return a == b }

func wait(n int) time.Duration { return time.Duration(n)*time.Second*most - -1 }

func after(n int) int {
	n++
	return n
}

func never(x float64) float64 { return -x }
`, `package m

import (
	"testing"
	"time"
)

func Test(t *testing.T) {
	if adult(3) || !adult(30) || names("a", "b") != "ab" || !bool(same(1, 1)) || wait(2) != 6*time.Second+1 || after(1) != 2 {
		t.Fail()
	}
}
`)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"."}, &out); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	for _, want := range []string{"m.go:10:39: > for >=: lives\n", "m.go:24:40: + for -: not covered\n", "1 live, "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not said in\n%s", want, got)
		}
	}
	if strings.Contains(got, "names") || strings.Count(got, "\n") != 3 || strings.Contains(got, ", 0 do not compile") {
		t.Errorf("more is said than what lives and what is not covered:\n%s", got)
	}
}

// The conditions of a switch and the initialisers of package variables are in no counted block: they run where the
// switch does, and always.
func TestWhatLiesInNoBlockIsTried(t *testing.T) {
	module(t, `package m

var limit = 2 + 1

func size(n int) string {
	switch {
	case n < limit:
		return "small"
	case n < 10:
		return "middling"
	}
	return "large"
}

func never(n int) bool {
	switch {
	case n < 7:
		return true
	}
	return false
}
`, "package m\n\nimport \"testing\"\n\nfunc Test(t *testing.T) {\n\tif size(2) != \"small\" || size(3) != \"middling\" || size(12) != \"large\" {\n\t\tt.Fail()\n\t}\n}\n")
	var out bytes.Buffer
	if err := run(t.Context(), []string{"."}, &out); err != nil {
		t.Fatal(err)
	}
	want := "m.go:17:9: <= for <: not covered\nm.go:17:9: >= for <: not covered\nm.go:9:9: <= for <: lives\n" +
		".: 7 changes, 5 covered (71.4 %), 5 tried, 4 killed (80.0 %), 1 live, 0 do not compile\n"
	if got := out.String(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestNoFiguresOfFailingTests(t *testing.T) {
	module(t, "package m\n\nfunc less(a, b int) bool { return a < b }\n", "package m\n\nimport \"testing\"\n\nfunc Test(t *testing.T) {\n\tif !less(1, 1) {\n\t\tt.Error(\"one is not less\")\n\t}\n}\n")
	var out bytes.Buffer
	err := run(t.Context(), []string{"."}, &out)
	if err == nil || !strings.Contains(err.Error(), "fail without a mutant") || !strings.Contains(err.Error(), "one is not less") || out.Len() > 0 {
		t.Errorf("%v, %q", err, out.String())
	}
}
