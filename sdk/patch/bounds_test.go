package patch_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/patch"
)

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

// TestAttackPatchForms: an edit that cannot be applied as intended is rejected rather than applied differently.
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
