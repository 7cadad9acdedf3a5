package patch_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/adapters/swe/patch"
)

const answer = "Two changes.\n\n`a/b.go`:\n```go\n<<<<<<< SEARCH\n\tone\n=======\n\tuno\n\tdue\n>>>>>>> REPLACE\n<<<<<<< SEARCH\nlast\n=======\n>>>>>>> REPLACE\n```\n\nnew.txt\n```\n<<<<<<< SEARCH\n=======\nhello\n>>>>>>> REPLACE\n```\n"

func TestParseAndApply(t *testing.T) {
	blocks, err := patch.Parse(answer)
	if err != nil {
		t.Fatal(err)
	}
	want := []patch.Block{{"a/b.go", "\tone\n", "\tuno\n\tdue\n"}, {"a/b.go", "last\n", ""}, {"new.txt", "", "hello\n"}}
	if diff := cmp.Diff(want, blocks); diff != "" {
		t.Fatalf("blocks (-want +got):\n%s", diff)
	}
	before := map[string]string{"a/b.go": "first\n\tone\nlast\n", "c": "c"}
	after, err := patch.Apply(before, blocks)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a/b.go": "first\n\tuno\n\tdue\n", "c": "c", "new.txt": "hello\n"}, after); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if before["a/b.go"] != "first\n\tone\nlast\n" {
		t.Error("Apply changed its argument")
	}
}

func TestRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       error
		says       string
	}{
		{"prose", "I cannot do that.", patch.ErrNoBlocks, ""},
		{"no file", "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", nil, "names no file"},
		{"open", "f\n```\n<<<<<<< SEARCH\na\n=======\nb\n", nil, "line 3: the search/replace block is not closed"},
		{"absent", "f\n```\n<<<<<<< SEARCH\nnowhere\n=======\nb\n>>>>>>> REPLACE\n```", patch.ErrNotFound, "f:"},
		{"unknown file", "g\n```\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```", patch.ErrNotFound, "g:"},
		{"twice", "f\n```\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```", patch.ErrAmbiguous, "f:"},
		{"outside", "../f\n```\n<<<<<<< SEARCH\n=======\nb\n>>>>>>> REPLACE\n```", nil, "outside the tree"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			blocks, err := patch.Parse(tc.text)
			if err == nil {
				_, err = patch.Apply(map[string]string{"f": "a\na\n"}, blocks)
			}
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error = %v, want %v saying %q", err, tc.want, tc.says)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(answer)
	f.Add("f\n```\n<<<<<<< SEARCH\n=======\n=======\n>>>>>>> REPLACE")
	f.Fuzz(func(t *testing.T, text string) {
		blocks, err := patch.Parse(text)
		if (err == nil) != (len(blocks) > 0) {
			t.Errorf("%d blocks and error %v", len(blocks), err)
		}
		for _, b := range blocks {
			if b.Path == "" {
				t.Errorf("a block without a file: %+v", b)
			}
		}
	})
}
