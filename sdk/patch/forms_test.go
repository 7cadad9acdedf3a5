package patch_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/patch"
)

const (
	tempPy  = "\"\"\"Temperatures.\"\"\"\n\n\ndef celsius(f):\n    return (f - 32) * 9 / 5\n\n\ndef kelvin(c):\n    return c - 273.15\n"
	tempNew = "\"\"\"Temperatures.\"\"\"\n\n\ndef celsius(f):\n    return (f - 32) * 5 / 9\n\n\ndef kelvin(c):\n    return c + 273.15\n"
	unitsPy = "class TooCold(ValueError):\n    pass\n"
)

func temperatures() fstest.MapFS {
	return fstest.MapFS{
		"heat/temp.py":       {Data: []byte(tempPy), Mode: 0o644},
		"heat/gone.py":       {Data: []byte("OLD = 1\n"), Mode: 0o644},
		"my notes/a list.py": {Data: []byte("x = 1\ny = 2\n"), Mode: 0o644},
		"bin/show.sh":        {Data: []byte("#!/bin/sh\necho no\n"), Mode: 0o644},
		"twins.py":           {Data: []byte("class Cat:\n    def say(self):\n        return 0\n\n\nclass Dog:\n    def say(self):\n        return 0\n"), Mode: 0o644},
		"GUIDE.md":           {Data: []byte("# Guide\n\n```sh\nshow a\n```\n"), Mode: 0o644},
	}
}

// applied returns the files after an answer; "-" is a deletion.
func applied(t *testing.T, answer string) map[string]string {
	t.Helper()
	files, err := patch.Apply(temperatures(), patch.Parse(&sdk.Answer{Text: answer}, ""))
	if err != nil {
		t.Fatal(err)
	}
	after := map[string]string{}
	for _, file := range files {
		after[file.Path] = string(file.Content)
		if file.Delete {
			after[file.Path] = "-"
		}
	}
	return after
}

// The ways in which models name a file: before a block, in its info string and in its first line, for a file of the
// tree and a new one.
func TestNamesOfBlocks(t *testing.T) {
	for _, form := range []string{
		"### 1. `NAME`\n\n```python\nTEXT```\n",
		"### 1. **NAME**\n\n```python\nTEXT```\n",
		"**2. `NAME`**\n```python\nTEXT```\n",
		"### `NAME` - the factor was upside down\n\n```python\nTEXT```\n",
		"#### `NAME`: the right factor\n\n```python\nTEXT```\n",
		"## `NAME`\n\nMultiply by five ninths:\n\n```python\nTEXT```\n",
		"**File:** `NAME`\n\n```python\nTEXT```\n",
		"Updated `NAME`:\n\n```python\nTEXT```\n",
		"In `NAME`:\n```\nTEXT```\n",
		"Full content of `NAME`:\n\n```py\nTEXT```\n",
		"Update the existing `NAME` file:\n\n```py\nTEXT```\n",
		"Fix the bug in `NAME`:\n\n```py\nTEXT```\n",
		"Here's how `NAME` should look:\n\n```py\nTEXT```\n",
		"Use this content for NAME:\n\n```py\nTEXT```\n",
		"Here is the corrected `NAME` with both functions:\n\n```python\nTEXT```\n",
		"First, a new file `NAME`:\n\n```python\nTEXT```\n",
		"1. Create `NAME`:\n\n   ```python\nTEXT   ```\n",
		"2. Update `NAME` as follows:\n\n```python\nTEXT```\n",
		"### Modified: `NAME`\n\n```python\nTEXT```\n",
		"[NAME](NAME)\n\n```python\nTEXT```\n",
		"> **NAME**\n\n```python\nTEXT```\n",
		"<!-- NAME -->\n```python\nTEXT```\n",
		"<details>\n<summary>NAME</summary>\n\n```python\nTEXT```\n\n</details>\n",
		"```python NAME\nTEXT```\n",
		"```python (NAME)\nTEXT```\n",
		"```python {name=\"NAME\"}\nTEXT```\n",
		"```1:40:NAME\nTEXT```\n",
		"<file path=\"NAME\"><![CDATA[\nTEXT]]></file>\n",
		"<write_to_file>\n<path>NAME</path>\n<content>\nTEXT</content>\n</write_to_file>\n",
		"```bash\ncat > NAME <<'EOF'\nTEXTEOF\n```\n",
		"```sh\nmkdir -p heat && ls\ncat <<END > NAME\nTEXTEND\n```\n",
		"=== NAME ===\nTEXT\n",
		"### `NAME`\n\nThe factor was upside down, so I swapped it:\n\n```python\nTEXT```\n",
		"### `NAME`\n\n**Before:**\n```python\npass\n```\n\n**After:**\n```python\nTEXT```\n",
		"*NAME*\n```python\nTEXT```\n",
		"📄 **NAME**\n```python\nTEXT```\n",
		"File 1: `NAME`\n```python\nTEXT```\n",
		"`NAME` — with the right factor\n\n```python\nTEXT```\n",
		"<file>NAME</file>\n```python\nTEXT```\n",
		"<invoke name=\"write\">\n<parameter name=\"path\">NAME</parameter>\n<parameter name=\"content\">TEXT</parameter>\n</invoke>\n",
	} {
		t.Run(form[:strings.Index(form, "NAME")+4], func(t *testing.T) {
			answer := "Both are wrong.\n\n"
			for _, file := range [][2]string{{"heat/temp.py", tempNew}, {"heat/units.py", unitsPy}} {
				answer += strings.NewReplacer("NAME", file[0], "TEXT", file[1]).Replace(form) + "\n"
			}
			want := map[string]string{"heat/temp.py": tempNew, "heat/units.py": unitsPy}
			if diff := cmp.Diff(want, applied(t, answer)); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", answer, diff)
			}
		})
	}
	for _, line := range []string{"__init__.py:", "heat/__init__.py", "**__init__.py**", "`.hidden/__main__.py` (new)"} {
		file := strings.Trim(strings.TrimSuffix(strings.TrimSuffix(line, " (new)"), ":"), "*`")
		if diff := cmp.Diff(map[string]string{file: "x = 1\n"}, applied(t, line+"\n```python\nx = 1\n```\n")); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
	for _, comment := range []string{"# filepath: NAME\n", "# --- NAME ---\n", "\"\"\"NAME\"\"\"\n", "# File: `NAME` (new)\n"} {
		comment = strings.ReplaceAll(comment, "NAME", "heat/units.py")
		if diff := cmp.Diff(map[string]string{"heat/units.py": comment + unitsPy}, applied(t, "```python\n"+comment+unitsPy+"```\n")); diff != "" {
			t.Error(diff)
		}
	}
}

// Fences within a file do not end its block, and text outside of blocks is in no file.
func TestFencesWithin(t *testing.T) {
	code := "def block(text):\n    \"\"\"Like this:\n\n    ```py\n    block(1)\n    ```\n    or\n    ```\n    block(2)\n    ```\n    \"\"\"\n    return text.split(\"```\")\n"
	guide := "# Guide\n\n```sh\nshow b\n```\n\nThen:\n\n```py\nx = 1\n```\n"
	added := "+" + strings.ReplaceAll(strings.TrimSuffix(code, "\n"), "\n", "\n+") + "\n"
	for name, answer := range map[string]string{
		"whole files":       "```python path=block.py\n" + code + "```\n\n```markdown path=GUIDE.md\n" + guide + "```\n\nDone.\n",
		"a diff in a fence": "```diff\n--- /dev/null\n+++ b/block.py\n@@ -0,0 +1,12 @@\n" + added + "--- a/GUIDE.md\n+++ b/GUIDE.md\n@@ -1,5 +1,11 @@\n # Guide\n \n ```sh\n-show a\n+show b\n ```\n+\n+Then:\n+\n+```py\n+x = 1\n+```\n```\n\nThis is all.\n",
		"a plain diff":      "--- a/GUIDE.md\n+++ b/GUIDE.md\n@@ -1,5 +1,11 @@\n # Guide\n \n ```sh\n-show a\n+show b\n ```\n+\n+Then:\n+\n+```py\n+x = 1\n+```\n--- /dev/null\n+++ b/block.py\n@@ -0,0 +1,12 @@\n" + added,
		"an envelope":       "*** Begin Patch\n*** Update File: GUIDE.md\n@@\n ```sh\n-show a\n+show b\n ```\n+\n+Then:\n+\n+```py\n+x = 1\n+```\n*** Add File: block.py\n" + added + "*** End Patch\n",
		"search, replace":   "GUIDE.md\n```md\n<<<<<<< SEARCH\nshow a\n```\n=======\nshow b\n```\n\nThen:\n\n```py\nx = 1\n```\n>>>>>>> REPLACE\n```\n\n```python\nblock.py\n<<<<<<< SEARCH\n=======\n" + code + ">>>>>>> REPLACE\n```\n",
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(map[string]string{"block.py": code, "GUIDE.md": guide}, applied(t, answer)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Other formats, one by one.
func TestOtherForms(t *testing.T) {
	asJSON := func(value any) string {
		text, err := json.MarshalIndent(value, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	file := map[string]any{"path": "heat/units.py", "content": unitsPy}
	units := map[string]string{"heat/units.py": unitsPy}
	envelope := "*** Begin Patch\n*** Add File: heat/units.py\n+class TooCold(ValueError):\n+    pass\n*** End Patch\n"
	twins := func(class string) string {
		head, tail, _ := strings.Cut(string(temperatures()["twins.py"].Data), "class "+class)
		return head + "class " + class + strings.Replace(tail, "return 0", "return 1", 1)
	}
	hunk := "     def say(self):\n-        return 0\n+        return 1\n"
	for name, test := range map[string]struct {
		answer string
		want   map[string]string
	}{
		"JSON: files":                 {fence("json", asJSON(map[string]any{"files": []any{file}})+"\n"), units},
		"JSON: calls":                 {fence("json", asJSON([]any{map[string]any{"name": "write", "arguments": file}})+"\n"), units},
		"JSON: arguments as a string": {asJSON(map[string]any{"name": "write", "arguments": asJSON(file)}), units},
		"JSON: a map":                 {fence("json", asJSON(map[string]any{"files": map[string]string{"heat/units.py": unitsPy}})+"\n"), units},
		"JSON: a map alone":           {fence("", asJSON(map[string]string{"heat/units.py": unitsPy})+"\n"), units},
		"JSON without a fence":        {"I write it:\n\n" + asJSON(map[string]any{"edits": []any{file}}) + "\n\nDone.\n", units},
		"JSON between tags":           {"<tool_call>\n" + strings.ReplaceAll(asJSON(map[string]any{"arguments": file}), "\n", "") + "\n</tool_call>\n", units},
		"JSON: an envelope":           {asJSON(map[string]any{"cmd": []string{"apply_patch", envelope}}), units},
		"hunks alone":                 {"**twins.py**\n\n```diff\n@@ -6,3 +6,3 @@\n class Dog:\n" + hunk + "```\n", map[string]string{"twins.py": twins("Dog")}},
		"changed lines alone":         {"`heat/temp.py`:\n```diff\n def celsius(f):\n-    return (f - 32) * 9 / 5\n+    return (f - 32) * 5 / 9\n```\n`heat/temp.py`:\n```diff\n-    return c - 273.15\n+    return c + 273.15\n```\n", map[string]string{"heat/temp.py": tempNew}},
		"an anchor":                   {"*** Begin Patch\n*** Update File: twins.py\n@@ class Dog:\n" + hunk + "*** End Patch\n", map[string]string{"twins.py": twins("Dog")}},
		"two anchors":                 {"*** Begin Patch\n*** Update File: twins.py\n@@ class Dog:\n@@     def say(self):\n-        return 0\n+        return 1\n*** End Patch\n", map[string]string{"twins.py": twins("Dog")}},
		"a section, wrong numbers":    {"--- a/twins.py\n+++ b/twins.py\n@@ -90,2 +90,2 @@ class Cat:\n" + hunk, map[string]string{"twins.py": twins("Cat")}},
		"search without indentation":  {"heat/temp.py\n<<<<<<< SEARCH\nreturn (f - 32) * 9 / 5\n=======\nf -= 32\nreturn f * 5 / 9\n>>>>>>> REPLACE\n", map[string]string{"heat/temp.py": strings.Replace(tempPy, "return (f - 32) * 9 / 5", "f -= 32\n    return f * 5 / 9", 1)}},
		"search within a line":        {fence("json", `{"path": "heat/temp.py", "old_string": "return c - 273.15", "new_string": "c += 273.15\n    return c"}`+"\n"), map[string]string{"heat/temp.py": strings.Replace(tempPy, "return c - 273.15", "c += 273.15\n    return c", 1)}},
		"marks of dashes":             {"heat/temp.py\n------- SEARCH\n    return c - 273.15\n=======\n    return c + 273.15\n+++++++ REPLACE\n", map[string]string{"heat/temp.py": strings.Replace(tempPy, "c - 273", "c + 273", 1)}},
		"spaces: search":              {"my notes/a list.py\n<<<<<<< SEARCH\nx = 1\n=======\nx = 3\n>>>>>>> REPLACE\n", map[string]string{"my notes/a list.py": "x = 3\ny = 2\n"}},
		"search in an item":           {"1. Both:\n\n   twins.py\n   <<<<<<< SEARCH\n   class Cat:\n   =======\n   class Lion:\n   >>>>>>> REPLACE\n", map[string]string{"twins.py": "class Lion:\n    def say(self):\n        return 0\n\n\nclass Dog:\n    def say(self):\n        return 0\n"}},
		"spaces: bold":                {"**my notes/a list.py**\n\n```python\nx = 3\ny = 2\n```\n", map[string]string{"my notes/a list.py": "x = 3\ny = 2\n"}},
		"spaces: new":                 {"`my notes/b list.py`:\n\n```python\nx = 3\n```\n", map[string]string{"my notes/b list.py": "x = 3\n"}},
		"two folders and a new file":  {"--- old/heat/temp.py\n+++ new/heat/temp.py\n@@ -9 +9 @@\n-    return c - 273.15\n+    return c + 273.15\n--- /dev/null\n+++ new/heat/units.py\n@@ -0,0 +1,2 @@\n+class TooCold(ValueError):\n+    pass\n--- old/heat/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-OLD = 1\n", map[string]string{"heat/temp.py": strings.Replace(tempPy, "c - 273", "c + 273", 1), "heat/units.py": unitsPy, "heat/gone.py": "-"}},
		"deleted in a sentence":       {fence("py path=heat/units.py", unitsPy) + "\nFinally, delete the old file `heat/gone.py`.\n", map[string]string{"heat/units.py": unitsPy, "heat/gone.py": "-"}},
		"deleted in a heading":        {"### Delete `heat/gone.py`\n\n```bash\ngit rm heat/gone.py\n```\n", map[string]string{"heat/gone.py": "-"}},
		"deleted, in brackets":        {"- `heat/gone.py` (deleted)\n", map[string]string{"heat/gone.py": "-"}},
		"renamed in a sentence":       {"Rename `heat/gone.py` to `heat/kept.py`.\n", map[string]string{"heat/gone.py": "-", "heat/kept.py": "OLD = 1\n"}},
		"renamed and written":         {"Move `heat/gone.py` to `heat/kept.py`:\n\n```python\nOLD = 2\n```\n", map[string]string{"heat/gone.py": "-", "heat/kept.py": "OLD = 2\n"}},
		"renamed after it is written": {"`heat/kept.py`:\n```python\nOLD = 2\n```\n```sh\n$ git mv heat/gone.py heat/kept.py\n$ pytest\n```\n", map[string]string{"heat/gone.py": "-", "heat/kept.py": "OLD = 2\n"}},
		"in parentheses":              {"(heat/units.py)\n```python\n" + unitsPy + "```\n", units},
		"revised":                     {"**heat/temp.py**\n```python\n" + strings.Replace(tempNew, "* 5 / 9", "* 4 / 9", 1) + "```\nWait, that is wrong. Corrected version of `heat/temp.py`:\n\n```python\n" + tempNew + "```\n", map[string]string{"heat/temp.py": tempNew}},
		"shown as it was":             {"**heat/temp.py**\n```python\n" + tempNew + "```\nFor reference, here is the original `heat/temp.py`:\n\n```python\n" + tempPy + "```\n", map[string]string{"heat/temp.py": tempNew}},
		"replaced with":               {"### `heat/temp.py`\n\nReplace:\n\n```python\n    return c - 273.15\n```\n\nwith:\n\n```python\n    return c + 273.15\n```\n", map[string]string{"heat/temp.py": strings.Replace(tempPy, "c - 273", "c + 273", 1)}},
		"replaced, beside the file":   {"In `heat/temp.py`, replace\n```python\n    return c - 273.15\n```\nwith\n```python\n    return c + 273.15\n```\n\nThe whole:\n\n" + fence("python path=heat/temp.py", tempNew), map[string]string{"heat/temp.py": tempNew}},
		"rm of what is not there":     {fence("py path=heat/units.py", unitsPy) + fence("sh", "rm -f heat.log && pytest\n"), units},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, applied(t, test.answer)); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", test.answer, diff)
			}
		})
	}
}

func TestExecutable(t *testing.T) {
	answer := "**bin/show.sh**\n\n```sh\n#!/bin/sh\necho yes\n```\n\nMake it executable:\n\n```bash\nchmod +x bin/show.sh\n```\n"
	files, err := patch.Apply(temperatures(), patch.Parse(&sdk.Answer{Text: answer}, ""))
	if err != nil || len(files) != 1 || files[0].Mode != 0o755 || string(files[0].Content) != "#!/bin/sh\necho yes\n" {
		t.Errorf("%v %v", files, err)
	}
}

// An illustration is not an edit, whatever files the prose around it names.
func TestIllustrations(t *testing.T) {
	edit := fence("python path=heat/temp.py", tempNew)
	for name, prose := range map[string]string{
		"usage":                   "Usage of `heat/gone.py`:\n\n```python\nprint(1)\n```\n",
		"a call from a file":      "You can call it from `heat/gone.py`:\n\n```python\nprint(1)\n```\n",
		"the state before":        "`heat/gone.py` was:\n\n```python\nOLD = 0\n```\n",
		"a quotation":             "The error is in `heat/temp.py`:\n\n```python\n    return c - 273.15\n```\n",
		"a quotation of another":  "The twin is `twins.py`:\n\n```python\nclass Cat:\n    def say(self):\n        return 0\n```\n",
		"what is edited anyway":   "In `heat/temp.py`:\n\n```python\nreturn c + 273.15\n```\n",
		"a command":               "### `heat/gone.py`\n\n```bash\npython heat/gone.py\n```\n",
		"output":                  "**Output of `heat/gone.py`:**\n```\n1\n```\n",
		"another language":        "This replaces `heat/gone.py`:\n\n```json\n{\"a\": 1}\n```\n",
		"prose between":           "I changed `heat/gone.py`\nand nothing else.\n\n```python\nprint(1)\n```\n",
		"another heading":         "### `heat/gone.py`\n\nLeft alone.\n\n## Notes\n\n```python\nprint(1)\n```\n",
		"a list of what changed":  "- `heat/temp.py`: both factors\n- **`heat/gone.py`**: nothing\n\nThen:\n\n```python\nprint(1)\n```\n",
		"two files":               "Between `heat/gone.py` and `twins.py`:\n\n```python\nprint(1)\n```\n",
		"words like files":        "With Node.js and/or asyncio, e.g. in v1.2:\n\n```js\nf()\n```\n",
		"a module":                "Remove `os.path`.\n\nDo not delete `heat/gone.py`.\n\nI would delete `heat/gone.py` later.\n",
		"a file of the user":      "In `~/.bashrc`:\n\n```sh\nx=1\n```\n\nIn `/etc/hosts`:\n\n```\na b\n```\n",
		"data":                    "```json\n{\"name\": \"x\", \"scripts\": {\"test.js\": \"node\"}, \"files\": [\"a.js\"]}\n```\n",
		"a change without a file": "In short:\n\n```diff\n-a\n+b\n```\n",
	} {
		t.Run(name, func(t *testing.T) {
			for _, answer := range []string{edit + "\n" + prose, prose + "\n" + edit} {
				if diff := cmp.Diff(map[string]string{"heat/temp.py": tempNew}, applied(t, answer)); diff != "" {
					t.Errorf("%s\n-want +got:\n%s", answer, diff)
				}
			}
		})
	}
}

// The error names the part that could not be parsed, and the answer has not failed.
func TestUnread(t *testing.T) {
	for name, test := range map[string]struct{ answer, reason string }{
		"no name":           {"The sign:\n\n```python\nx = 1\n```\n", `the block after "The sign:" names no file`},
		"hunks":             {"```diff\n@@ -1 +1 @@\n-a\n+b\n```\n", "names no file"},
		"search":            {"<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", "names no file"},
		"a part of a file":  {"In `heat/temp.py`, change one line:\n\n```python\nreturn c + 273.15\n```\n", "heat/temp.py: its block may be the whole file or a part of it"},
		"an excerpt":        {"### `heat/temp.py` (lines 8-9)\n\n```python\nreturn c + 273.15\n```\n", "heat/temp.py: its block may be"},
		"a quotation alone": {"The sign in `heat/temp.py` is wrong:\n\n```python\n    return c - 273.15\n```\n", "heat/temp.py: the answer only shows it unchanged"},
		"a folder is to go": {"```sh\nrm -r heat\n```\n", "heat: "},
	} {
		_, err := patch.Apply(temperatures(), patch.Parse(&sdk.Answer{Text: test.answer}, ""))
		var misfit *patch.Error
		if !errors.As(err, &misfit) || misfit.Outcome() != sdk.Inconclusive || !strings.Contains(err.Error(), test.reason) {
			t.Errorf("%s: %v, want %q", name, err, test.reason)
		}
	}
	for _, answer := range []string{"I cannot.", "```sh\npytest\n```\n", fence("go path=../evil.go", "x\n"), "heat/temp.py\n<<<<<<< SEARCH\nnowhere\n=======\nx\n>>>>>>> REPLACE\n"} {
		_, err := patch.Apply(temperatures(), patch.Parse(&sdk.Answer{Text: answer}, ""))
		if misfit := (*patch.Error)(nil); !errors.As(err, &misfit) || misfit.Outcome() != sdk.Failed {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

// An answer without a fence is the default file, unless it is prose.
func TestBareProgram(t *testing.T) {
	const program = "import sys\n\nprint(len(sys.stdin.read()))\n"
	edits := patch.Parse(&sdk.Answer{Text: program}, "main.py")
	if len(edits) != 1 || edits[0].Content != program || edits[0].Path != "main.py" {
		t.Errorf("%+v", edits)
	}
	for _, prose := range []string{"I think the sign is wrong.", "Here is what I would do:\n\n1. Read it.\n", ""} {
		if edits := patch.Parse(&sdk.Answer{Text: prose}, "main.py"); len(edits) != 0 {
			t.Errorf("%q: %+v", prose, edits)
		}
	}
}
