package patch_test

import (
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/patch"
)

const addGo = `package calc

// Add adds.
func Add(a, b int) int {
	return a - b
}

// Sub subtracts.
func Sub(a, b int) int {
	return a + b
}
`

func tree() fstest.MapFS {
	return fstest.MapFS{
		"calc/add.go":   {Data: []byte(addGo), Mode: 0o644},
		"run.sh":        {Data: []byte("#!/bin/sh\necho hi"), Mode: 0o755},
		"café.txt":      {Data: []byte("tea\n"), Mode: 0o644},
		"twice.txt":     {Data: []byte("same\nsame\n"), Mode: 0o644},
		"calc/old.go":   {Data: []byte("package calc\n\nvar old = 1\n"), Mode: 0o644},
		"py/indent.py":  {Data: []byte("class A:\n    def f(self):\n        x = 1\n        return x\n"), Mode: 0o644},
		"crlf.txt":      {Data: []byte("one\r\ntwo\r\nthree\r\n"), Mode: 0o644},
		"calc/other.go": {Data: []byte("package calc\n"), Mode: 0o644},
	}
}

func fence(info, body string) string { return "```" + info + "\n" + body + "```\n" }

func TestApply(t *testing.T) {
	fixed := strings.Replace(addGo, "a - b", "a + b", 1)
	both := strings.Replace(fixed, "\treturn a + b\n}\n\n// Sub", "\treturn a + b\n}\n\n// Sub", 1)
	both = both[:strings.LastIndex(both, "a + b")] + "a - b" + both[strings.LastIndex(both, "a + b")+5:]
	search := "<<<<<<< SEARCH\n\treturn a - b\n=======\n\treturn a + b\n>>>>>>> REPLACE\n"
	diff := "--- a/calc/add.go\n+++ b/calc/add.go\n@@ -2,5 +2,5 @@\n \n // Add adds.\n func Add(a, b int) int {\n-\treturn a - b\n+\treturn a + b\n }\n"
	for _, test := range []struct {
		name, answer string
		want         map[string]string // "-" means deleted
	}{
		{"path in the info string", "Sure.\n\n" + fence("go path=calc/add.go", fixed) + "Done.", map[string]string{"calc/add.go": fixed}},
		{"an envelope", "*** Begin Patch\n*** Update File: calc/add.go\n@@ func Add(a, b int) int {\n-\treturn a - b\n+\treturn a + b\n }\n*** Add File: new/x.txt\n+one\n+two\n*** Delete File: calc/old.go\n*** End Patch\n", map[string]string{"calc/add.go": fixed, "new/x.txt": "one\ntwo\n", "calc/old.go": "-"}},
		{"an envelope in a block, without a header of its hunk", fence("patch", "*** Begin Patch\n*** Update File: calc/add.go\n func Add(a, b int) int {\n-\treturn a - b\n+\treturn a + b\n*** End of File\n*** End Patch\n"), map[string]string{"calc/add.go": fixed}},
		{"an envelope that moves a file", "*** Begin Patch\n*** Update File: calc/old.go\n*** Move to: calc/new.go\n@@\n-var old = 1\n+var now = 1\n*** End Patch\n", map[string]string{"calc/old.go": "-", "calc/new.go": "package calc\n\nvar now = 1\n"}},
		{"blocks within items of a list", "1. First `calc/add.go`:\n\n   ```go path=calc/add.go\n   package calc\n\n   var a = 1\n   ```\n\n2. ```go path=calc/other.go\n   package calc\n\n   \tvar b = 1\n   ```\n", map[string]string{"calc/add.go": "package calc\n\nvar a = 1\n", "calc/other.go": "package calc\n\n\tvar b = 1\n"}},
		{"a sentence that says what is replaced", "Replace the contents of `calc/add.go` with:\n\n" + fence("go", fixed) + "Use of `calc/add.go`:\n\n" + fence("go", "x\n"), map[string]string{"calc/add.go": fixed}},
		{"a diff of two folders", "diff -ru repo.orig/calc/add.go repo/calc/add.go\n" + strings.NewReplacer("a/calc", "repo.orig/calc", "b/calc", "repo/calc", ".go\n", ".go\t2026-01-01 10:00:00.000000000 +0000\n").Replace(diff), map[string]string{"calc/add.go": fixed}},
		{"a draft among thoughts", "<think>\n" + fence("diff", strings.Replace(diff, "a - b", "a * b", 1)) + "No.\n</think>\n" + fence("diff", diff), map[string]string{"calc/add.go": fixed}},
		{"thoughts without a beginning", fence("go path=calc/add.go", "x\n") + "Hm.\n</think>\n\n" + fence("go path=calc/add.go", fixed), map[string]string{"calc/add.go": fixed}},
		{"nothing but thoughts", "<think>\n" + fence("go path=calc/add.go", fixed) + "</think>\nDone.", map[string]string{"calc/add.go": fixed}},
		{"a file that has the end of thoughts in it", fence("text path=twice.txt", "a\n</think>\nb\n"), map[string]string{"twice.txt": "a\n</think>\nb\n"}},
		{"a file between tags", "<file path=\"calc/add.go\">\n" + fixed + "</file>\n", map[string]string{"calc/add.go": fixed}},
		{"byte order marks", "\ufeff" + fence("go path=calc/add.go", "\ufeff"+fixed), map[string]string{"calc/add.go": fixed}},
		{"a comment that says more", fence("go", "// File: calc/add.go (updated, see below)\n"+fixed), map[string]string{"calc/add.go": "// File: calc/add.go (updated, see below)\n" + fixed}},
		{"a heading that says more", "### `calc/add.go` (full content)\n" + fence("go", fixed), map[string]string{"calc/add.go": fixed}},
		{"a bare name on the first line of a block", fence("go", "calc/add.go\n"+fixed), map[string]string{"calc/add.go": fixed}},
		{"fences that a diff adds and removes", "--- a/twice.txt\n+++ b/twice.txt\n@@ -1,2 +1,4 @@\n same\n+ ```\n same\n", map[string]string{"twice.txt": "same\n ```\nsame\n"}},
		{"quoted path in the info string", fence(`go title="calc/add.go"`, fixed), map[string]string{"calc/add.go": fixed}},
		{"language:path", fence("go:calc/add.go", fixed), map[string]string{"calc/add.go": fixed}},
		{"bare path in the info string", fence("calc/add.go", fixed), map[string]string{"calc/add.go": fixed}},
		{"path on the line before", "calc/add.go:\n" + fence("go", fixed), map[string]string{"calc/add.go": fixed}},
		{"path in bold and an empty line", "**calc/add.go**\n\n" + fence("go", fixed), map[string]string{"calc/add.go": fixed}},
		{"path as a heading", "### `calc/add.go`\n" + fence("go", fixed), map[string]string{"calc/add.go": fixed}},
		{"File: path", "File: calc/add.go\n" + fence("go", fixed), map[string]string{"calc/add.go": fixed}},
		{"path in a comment", fence("go", "// calc/add.go\n"+fixed), map[string]string{"calc/add.go": "// calc/add.go\n" + fixed}},
		{"fence inside a longer fence", "````md path=doc.md\n```go\nx\n```\n````\n", map[string]string{"doc.md": "```go\nx\n```\n"}},
		{"fence never closed", "```go path=calc/add.go\npackage calc\n", map[string]string{"calc/add.go": "package calc\n\n"}},
		{"two files", fence("go path=a.go", "package a\n") + fence("go path=b.go", "package b\n"), map[string]string{"a.go": "package a\n", "b.go": "package b\n"}},
		{"search and replace", "calc/add.go\n" + search, map[string]string{"calc/add.go": fixed}},
		{"search and replace in a fence", "calc/add.go\n" + fence("go", search), map[string]string{"calc/add.go": fixed}},
		{"path inside the fence", fence("", "calc/add.go\n"+search), map[string]string{"calc/add.go": fixed}},
		{"two blocks for one path", "calc/add.go\n" + search + "<<<<<<< SEARCH\n// Add adds.\n=======\n// Add is a sum.\n>>>>>>> REPLACE\n", map[string]string{"calc/add.go": strings.Replace(fixed, "// Add adds.", "// Add is a sum.", 1)}},
		{"empty search makes a file", "new.txt\n<<<<<<< SEARCH\n=======\nhello\n>>>>>>> REPLACE\n", map[string]string{"new.txt": "hello\n"}},
		{"empty replacement", "calc/add.go\n<<<<<<< SEARCH\n// Add adds.\n=======\n>>>>>>> REPLACE\n", map[string]string{"calc/add.go": strings.Replace(addGo, "// Add adds.\n", "", 1)}},
		{"trailing space is forgiven", "calc/add.go\n<<<<<<< SEARCH\n\treturn a - b  \n=======\n\treturn a + b\n>>>>>>> REPLACE\n", map[string]string{"calc/add.go": fixed}},
		{"indentation is forgiven and kept", "py/indent.py\n<<<<<<< SEARCH\ndef f(self):\n    x = 1\n=======\ndef f(self):\n    x = 2\n    y = 3\n>>>>>>> REPLACE\n", map[string]string{"py/indent.py": "class A:\n    def f(self):\n        x = 2\n        y = 3\n        return x\n"}},
		{"diff", diff, map[string]string{"calc/add.go": fixed}},
		{"diff in a fence", fence("diff", diff), map[string]string{"calc/add.go": fixed}},
		{"git diff", "diff --git a/calc/add.go b/calc/add.go\nindex 1..2 100644\n" + diff, map[string]string{"calc/add.go": fixed}},
		{"wrong line numbers", strings.Replace(diff, "-2,5 +2,5", "-90,1 +80,7", 1), map[string]string{"calc/add.go": fixed}},
		{"no line numbers", strings.Replace(diff, "@@ -2,5 +2,5 @@", "@@ ... @@", 1), map[string]string{"calc/add.go": fixed}},
		{"two hunks", diff + "@@ -8,4 +8,4 @@\n // Sub subtracts.\n func Sub(a, b int) int {\n-\treturn a + b\n+\treturn a - b\n }\n", map[string]string{"calc/add.go": both}},
		{"new file by diff", "--- /dev/null\n+++ b/new.go\n@@ -0,0 +1,2 @@\n+package calc\n+\n", map[string]string{"new.go": "package calc\n\n"}},
		{"deleted by diff", "diff --git a/calc/old.go b/calc/old.go\ndeleted file mode 100644\n--- a/calc/old.go\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-package calc\n-\n-var old = 1\n", map[string]string{"calc/old.go": "-"}},
		{"renamed by diff", "diff --git a/calc/old.go b/calc/fresh.go\nrename from calc/old.go\nrename to calc/fresh.go\n--- a/calc/old.go\n+++ b/calc/fresh.go\n@@ -3 +3 @@\n-var old = 1\n+var fresh = 1\n", map[string]string{"calc/old.go": "-", "calc/fresh.go": "package calc\n\nvar fresh = 1\n"}},
		{"names as git quotes them", "diff --git \"a/caf\\303\\251.txt\" \"b/caf\\303\\251.txt\"\n--- \"a/caf\\303\\251.txt\"\n+++ \"b/caf\\303\\251.txt\"\n@@ -1 +1 @@\n-tea\n+coffee\n", map[string]string{"café.txt": "coffee\n"}},
		{"renamed to a name that git quotes", "diff --git \"a/caf\\303\\251.txt\" \"b/th\\303\\251.txt\"\nsimilarity index 100%\nrename from \"caf\\303\\251.txt\"\nrename to \"th\\303\\251.txt\"\n", map[string]string{"café.txt": "-", "thé.txt": "tea\n"}},
		{"no newline at the end", "--- a/run.sh\n+++ b/run.sh\n@@ -1,2 +1,2 @@\n #!/bin/sh\n-echo hi\n\\ No newline at end of file\n+echo ho\n", map[string]string{"run.sh": "#!/bin/sh\necho ho\n"}},
		{"edits build on each other", fence("go path=x.go", "package x\n") + "x.go\n<<<<<<< SEARCH\npackage x\n=======\npackage y\n>>>>>>> REPLACE\n", map[string]string{"x.go": "package y\n"}},
		{"carriage returns in the answer", strings.ReplaceAll(fence("go path=a.go", "package a\n"), "\n", "\r\n"), map[string]string{"a.go": "package a\n"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			files, err := patch.Apply(tree(), patch.Parse(&sdk.Answer{Text: test.answer}, ""))
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, file := range files {
				got[file.Path] = string(file.Content)
				if file.Delete {
					got[file.Path] = "-"
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestToolCalls(t *testing.T) {
	for _, test := range []struct{ name, arguments string }{
		{"content", `{"path": "calc/other.go", "content": "package calc // new\n"}`},
		{"edit", `{"file_path": "calc/other.go", "old_string": "package calc\n", "new_string": "package calc // new\n"}`},
		{"patch", `{"patch": "--- a/calc/other.go\n+++ b/calc/other.go\n@@ -1 +1 @@\n-package calc\n+package calc // new\n"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			answer := &sdk.Answer{ToolCalls: []sdk.ToolCall{{Name: "edit", Arguments: test.arguments}}}
			files, err := patch.Apply(tree(), patch.Parse(answer, ""))
			if err != nil || len(files) != 1 || string(files[0].Content) != "package calc // new\n" {
				t.Errorf("%v %v", files, err)
			}
		})
	}
}

func TestDefaultFile(t *testing.T) {
	answer := &sdk.Answer{Text: "First try:\n" + fence("go", "package bad\n") + "Better:\n" + fence("go", "package good\n")}
	edits := patch.Parse(answer, "calc/add.go")
	want := []patch.Edit{{Kind: patch.Whole, Path: "calc/add.go", Content: "package good\n", Fenced: true}}
	if diff := cmp.Diff(want, edits); diff != "" {
		t.Error(diff)
	}
	if _, err := patch.Apply(tree(), patch.Parse(answer, "")); err == nil {
		t.Error("without a default file: a block without a name is applied")
	}
}

func TestModeIsKept(t *testing.T) {
	files, err := patch.Apply(tree(), patch.Parse(&sdk.Answer{Text: fence("sh path=run.sh", "#!/bin/sh\n")}, ""))
	if err != nil || files[0].Mode != 0o755 {
		t.Errorf("%v %v", files, err)
	}
}

// A block does not show whether its last line ends with a newline, and arguments of an editing tool can be written
// as a block of JSON.
func TestBlocks(t *testing.T) {
	for _, test := range []struct{ name, answer, want string }{
		{"no final newline", fence("text path=VERSION", "1.1\n"), "1.1"},
		{"arguments", fence("json", `{"path": "VERSION", "old_string": "1.0", "new_string": "1.1"}`+"\n"), "1.1"},
		{"a list of arguments", "The edit:\n\n" + fence("json", "[\n  {\"file\": \"VERSION\", \"search\": \"1.0\", \"replace\": \"1.1\"}\n]\n"), "1.1"},
		{"a field edits", fence("json", `{"edits": [{"file_path": "VERSION", "content": "1.1"}]}`+"\n"), "1.1"},
		{"a file of JSON", fence("json path=VERSION", `{"path": "VERSION", "content": "1.1"}`+"\n"), `{"path": "VERSION", "content": "1.1"}`},
	} {
		after, err := patch.ApplyToMap(map[string]string{"VERSION": "1.0"}, patch.Parse(&sdk.Answer{Text: test.answer}, ""))
		if err != nil || after["VERSION"] != test.want {
			t.Errorf("%s: %q, %v", test.name, after["VERSION"], err)
		}
	}
}

func TestMisfits(t *testing.T) {
	for _, test := range []struct{ name, answer, reason string }{
		{"prose", "I think the sign is wrong.", "holds no edit"},
		{"block without a path", fence("go", "package calc\n"), "holds no edit"},
		{"too long", strings.Repeat("long\n", 2<<20), "longer than 8 MiB"},
		{"outside", fence("go path=../evil.go", "x\n"), "outside of the work tree"},
		{"absolute", fence("go path=/etc/passwd", "x\n"), "outside of the work tree"},
		{"the repository's folder", fence("sh path=.git/hooks/pre-commit", "x\n"), "repository's own folder"},
		{"the repository's folder as git quotes it", "--- /dev/null\n+++ \"b/\\056git/config\"\n@@ -0,0 +1 @@\n+x\n", "repository's own folder"},
		{"a line break as git quotes it", "--- /dev/null\n+++ \"b/a\\nb\"\n@@ -0,0 +1 @@\n+x\n", "control characters"},
		{"another repository's folder", fence("sh path=sub/.Git/config", "x\n"), "repository's own folder"},
		{"a folder", fence("go path=calc", "x\n"), "is a folder"},
		{"passage not there", "calc/add.go\n<<<<<<< SEARCH\nnowhere\n=======\nx\n>>>>>>> REPLACE\n", "not in the file"},
		{"passage twice", "twice.txt\n<<<<<<< SEARCH\nsame\n=======\nx\n>>>>>>> REPLACE\n", "2 times"},
		{"empty search on a file", "twice.txt\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n", "is empty"},
		{"file not there", "none.go\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", "does not exist"},
		{"hunk not there", "--- a/calc/add.go\n+++ b/calc/add.go\n@@ -1 +1 @@\n-nowhere\n+x\n", "hunk 1"},
		{"diff of a file not there", "--- a/none.go\n+++ b/none.go\n@@ -1 +1 @@\n-a\n+b\n", "does not exist"},
		{"search without a path", "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", "names no file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := patch.Apply(tree(), patch.Parse(&sdk.Answer{Text: test.answer}, ""))
			var misfit *patch.Error
			if !errors.As(err, &misfit) || !strings.Contains(err.Error(), test.reason) {
				t.Errorf("error %v, want one with %q", err, test.reason)
			}
		})
	}
}

// FuzzApply: no answer crashes Apply, reaches outside of the tree, or writes to it.
func FuzzApply(f *testing.F) {
	f.Add("calc/add.go\n<<<<<<< SEARCH\n\treturn a - b\n=======\n\treturn a + b\n>>>>>>> REPLACE\n")
	f.Add("```go path=calc/add.go\npackage calc\n```")
	f.Add("--- a/calc/add.go\n+++ b/calc/add.go\n@@ -1,3 +1,3 @@\n package calc\n-\n+// x\n")
	f.Add("diff --git a/x b/y\nrename from x\nrename to ../y\n")
	f.Fuzz(func(t *testing.T, text string) {
		before := tree()
		after := maps.Clone(before)
		files, err := patch.Apply(after, patch.Parse(&sdk.Answer{Text: text}, "calc/add.go"))
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatal(diff)
		}
		if misfit := (*patch.Error)(nil); err != nil && !errors.As(err, &misfit) {
			t.Fatalf("an answer made an error of the tree: %v", err)
		}
		for _, file := range files {
			if !filepath.IsLocal(file.Path) || strings.HasPrefix(file.Path, ".git/") {
				t.Fatalf("reaches outside: %q", file.Path)
			}
		}
	})
}

// TestDiffsAsGitWritesThem covers copies, the signature of format-patch, and line ends.
func TestDiffsAsGitWritesThem(t *testing.T) {
	tree := map[string]string{"a.go": "package a\n\nvar A = 1\n", "w.txt": "one\r\ntwo\r\nthree\r\n", "mixed.txt": "one\r\ntwo\nthree\n", "list.txt": "a\n- \nb\n"}
	hunk := "@@ -1,3 +1,3 @@\n package a\n \n-var A = 1\n+var A = 2\n"
	for name, c := range map[string]struct{ diff, file, want string }{
		"a copy":               {"diff --git a/a.go b/b.go\nsimilarity index 100%\ncopy from a.go\ncopy to b.go\n", "b.go", "package a\n\nvar A = 1\n"},
		"a copy with a change": {"diff --git a/a.go b/b.go\nsimilarity index 90%\ncopy from a.go\ncopy to b.go\n--- a/a.go\n+++ b/b.go\n" + hunk, "b.go", "package a\n\nvar A = 2\n"},
		"what stays of a copy": {"diff --git a/a.go b/b.go\nsimilarity index 90%\ncopy from a.go\ncopy to b.go\n--- a/a.go\n+++ b/b.go\n" + hunk, "a.go", "package a\n\nvar A = 1\n"},
		"a mail":               {"From abc\nSubject: [PATCH] fix\n\n---\n a.go | 2 +-\n\ndiff --git a/a.go b/a.go\n--- a/a.go\n+++ b/a.go\n" + hunk + "-- \n2.39.2\n\n", "a.go", "package a\n\nvar A = 2\n"},
		"a line that is a -":   {"--- a/list.txt\n+++ b/list.txt\n@@ -1,3 +1,2 @@\n a\n-- \n b\n", "list.txt", "a\nb\n"},
		"carriage returns":     {"--- a/w.txt\r\n+++ b/w.txt\r\n@@ -1,3 +1,4 @@\r\n one\r\n-two\r\n+TWO\r\n+2\r\n three\r\n", "w.txt", "one\r\nTWO\r\n2\r\nthree\r\n"},
		"a block":              {"w.txt\n<<<<<<< SEARCH\ntwo\n=======\nTWO\n>>>>>>> REPLACE\n", "w.txt", "one\r\nTWO\r\nthree\r\n"},
		"both ends":            {"--- a/mixed.txt\n+++ b/mixed.txt\n@@ -2,2 +2,2 @@\n-two\n+TWO\n three\n", "mixed.txt", "one\r\nTWO\nthree\n"},
	} {
		after, err := patch.ApplyToMap(tree, patch.Parse(&sdk.Answer{Text: c.diff}, ""))
		if err != nil || after[c.file] != c.want {
			t.Errorf("%s: %q, %v", name, after[c.file], err)
		}
	}
}

func TestPathsWithinAFolder(t *testing.T) {
	answer := &sdk.Answer{Text: "```go path=/src/tree/calc/add.go\npackage calc\n```\n\n--- /src/tree/run.sh\n+++ /src/tree/run.sh\n@@ -2,1 +2,1 @@\n-echo hi\n+echo ho\n\n```text path=/etc/passwd\nx\n```\n"}
	edits := patch.Within(patch.Parse(answer, ""), "/testbed", "/src/tree/")
	if _, err := patch.Apply(tree(), edits[:2]); err != nil || edits[0].Path != "calc/add.go" || edits[1].Path != "run.sh" {
		t.Errorf("%v: %+v", err, edits)
	}
	if _, err := patch.Apply(tree(), edits); err == nil {
		t.Error("a file outside was written")
	}
}

// The block for the default file is one in its language, not the last one.
func TestBlocksOfALanguage(t *testing.T) {
	const program = "print(1)\n"
	for name, text := range map[string]string{
		"a command after it":    fence("python", program) + "Run it with\n" + fence("sh", "python3 main.py\n"),
		"its output after it":   fence("py", program) + fence("", "1\n"),
		"an example after it":   fence("python", program) + "\nExample usage:\n\n" + fence("python", "main()\n"),
		"a draft before it":     fence("python", "print(0)\n") + "That is wrong.\n" + fence("python", program),
		"another language":      fence("cpp", "int main() {}\n") + fence("Python3", program) + fence("json", "{}\n"),
		"no language":           fence("", "x\n") + fence("", program),
		"only another language": fence("text", program),
		"within a list":         "1. The program:\n   ```python\n   print(1)\n   ```\n2. Run it:\n   ```sh\n   python3 main.py\n   ```\n",
	} {
		edits := patch.Parse(&sdk.Answer{Text: text}, "main.py")
		if len(edits) != 1 || edits[0].Content != program {
			t.Errorf("%s: %+v", name, edits)
		}
	}
}

// A hunk whose outer context differs a little from the file is applied if the rest matches at exactly one place.
func TestContextThatIsNotThere(t *testing.T) {
	const file = "import math\n\n\ndef add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n"
	const twice = file + "\n\ndef add(a, b):\n    return a - b\n\n\n"
	for name, test := range map[string]struct{ file, hunk, want string }{
		"one empty line for two":      {file, " def add(a, b):\n-    return a - b\n+    return a + b\n \n def sub(a, b):\n     return a - b\n", strings.Replace(file, "a - b", "a + b", 1)},
		"another line above":          {file, " import maths\n \n \n def add(a, b):\n-    return a - b\n+    return a + b\n", strings.Replace(file, "a - b", "a + b", 1)},
		"only added":                  {file, " import maths\n \n \n def add(a, b):\n+    # Adds.\n     return a - b\n", strings.Replace(file, "b):\n", "b):\n    # Adds.\n", 1)},
		"two places fit":              {twice, " import maths\n \n \n def add(a, b):\n-    return a - b\n+    return a + b\n \n \n", ""},
		"too little is left":          {file, " def plus(a, b):\n-import math\n+import maths\n def minus(a, b):\n", ""},
		"added between strangers":     {file, " def plus(a, b):\n+    # Adds.\n     return a - b\n \n \n def sub(a, b):\n", ""},
		"a removed line is not there": {file, " def add(a, b):\n-    return a * b\n+    return a + b\n \n \n def sub(a, b):\n     return a - b\n", ""},
		"too much is not there":       {file, " 1\n 2\n 3\n 4\n def add(a, b):\n-    return a - b\n+    return a + b\n", ""},
	} {
		files, err := patch.ApplyToMap(map[string]string{"ops.py": test.file}, patch.Parse(&sdk.Answer{Text: "--- a/ops.py\n+++ b/ops.py\n@@ -1,9 +1,9 @@\n" + test.hunk}, ""))
		if (err == nil) != (test.want != "") || files["ops.py"] != test.want {
			t.Errorf("%s: %v\n%s", name, err, files["ops.py"])
		}
	}
}

// An absolute path, or one that begins with the tree's own folder, refers to the tree if the file is there and the
// folder is not.
func TestPathsNearTheTree(t *testing.T) {
	for path, test := range map[string]struct{ file, want string }{
		"/calc/ops.py": {"calc/ops.py", "calc/ops.py"}, "repo/calc/ops.py": {"calc/ops.py", "calc/ops.py"},
		"repo/ops.py": {"repo/other.py", "repo/ops.py"}, "repo/new.py": {"calc/ops.py", "repo/new.py"}, "/etc/passwd": {"calc/ops.py", ""}, "/.git/config": {".git/config", ""},
	} {
		tree := map[string]string{test.file: "old\n", "ops.py": "old\n"}
		edits := patch.Within(patch.Parse(&sdk.Answer{Text: fence("python path="+path, "new\n")}, ""), "/home/me/repo")
		files, err := patch.ApplyToMap(tree, edits)
		if (err == nil) != (test.want != "") || err == nil && files[test.want] != "new\n" {
			t.Errorf("%s: %v %v", path, files, err)
		}
	}
}
