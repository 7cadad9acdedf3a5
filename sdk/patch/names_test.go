package patch_test

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/patch"
)

// Files without an extension, and those with a dollar sign in their names, are recognized.
func TestNamesWithoutEnding(t *testing.T) {
	const block = "\n```\n1.4.0\n```\n"
	for text, want := range map[string]string{
		"**VERSION**" + block:                                            "VERSION",
		"### `VERSION`\n\nThe file in full:\n" + block:                   "VERSION",
		"Updated `NOTICE`:\n" + block:                                    "NOTICE",
		"VERSION" + block:                                                "VERSION",
		"```:VERSION\n1.4.0\n```\n":                                      "VERSION",
		"VERSION\n<<<<<<< SEARCH\n=======\n1.4.0\n>>>>>>> REPLACE\n":     "VERSION",
		"GNUmakefile\n<<<<<<< SEARCH\n=======\n1.4.0\n>>>>>>> REPLACE\n": "GNUmakefile",
		"### `src/$lib.svelte`\n\nThe file in full:\n" + block:           "src/$lib.svelte",
		"Updated `app/routes/$id.tsx`:\n" + block:                        "app/routes/$id.tsx",
		"**NOTE:** it is set by\n" + block:                               "",
		"NOTE:\n" + block:                                                "",
		"The constant `LIMIT` becomes:\n" + block:                        "",
		"**USAGE**\n" + block:                                            "",
	} {
		edits := patch.Parse(&sdk.Answer{Text: text}, "")
		var paths []string
		for _, edit := range edits {
			paths = append(paths, edit.Path)
		}
		if files, err := patch.ApplyToMap(map[string]string{}, edits); want != "" && (err != nil || files[want] != "1.4.0\n") {
			t.Errorf("%q: %q, %v", text, files, err)
		}
		if got := strings.Join(paths, " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
