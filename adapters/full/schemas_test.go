package full

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// A program is asked once, until it changes; a damaged note is as none.
func TestSchemasAreRemembered(t *testing.T) {
	dir := t.TempDir()
	program, cache := filepath.Join(dir, "plugin"), filepath.Join(dir, "cache")
	want := &schema.Schema{Fields: []schema.Field{{Name: "command", Type: "list(string)"}, {Name: "timeout", Type: "duration"}}}
	asked := 0
	ask := func() (*schema.Schema, error) {
		asked++
		return want, nil
	}
	for _, step := range []struct {
		name, content string
		damage        bool
		asked         int
	}{{"first", "one", false, 1}, {"again", "one", false, 1}, {"another program", "two", false, 2}, {"damaged", "two", true, 3}} {
		if err := os.WriteFile(program, []byte(step.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if step.damage {
			notes, err := filepath.Glob(filepath.Join(cache, "*"))
			if err != nil || len(notes) != 2 {
				t.Fatalf("notes %v: %v", notes, err)
			}
			for _, note := range notes {
				if err := os.Truncate(note, 5); err != nil {
					t.Fatal(err)
				}
			}
		}
		got, err := cacheSchema(cache, program, "verifier", ask)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" || asked != step.asked {
			t.Errorf("%s: asked %d times, want %d: %s", step.name, asked, step.asked, diff)
		}
	}
}
