package full

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// A program is asked for its schema once, until it changes; a damaged cache file is ignored. A script can load other
// modules, and is asked each time.
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
	}{
		{"first", "\x7fELF one", false, 1}, {"again", "\x7fELF one", false, 1}, {"another program", "\x7fELF two", false, 2}, {"damaged", "\x7fELF two", true, 3},
		{"script", "#!/usr/bin/node", false, 4}, {"script again", "#!/usr/bin/node", false, 5},
	} {
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
		got, err := cacheSchema(cache, program, checksum(t, program), "verifier", ask)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" || asked != step.asked {
			t.Errorf("%s: asked %d times, want %d: %s", step.name, asked, step.asked, diff)
		}
	}
}

func checksum(t *testing.T, program string) string {
	t.Helper()
	sum, err := host.Checksum(program)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// Whether a program may be started is checked before its schema is known: the first warning remains.
func TestProgramsAreCheckedBeforeTheirSchemas(t *testing.T) {
	program := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(program, []byte("\x7fELF"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := findPlugin(policies.Plugin{Path: program}); err == nil || !strings.Contains(err.Error(), "is not executable") {
		t.Errorf("got %v", err)
	}
}

// The timeout of a verifier block applies to a plugin without a block of its own, too; the longest one does if several
// verifiers share a plugin.
func TestTimeoutsOfVerifiers(t *testing.T) {
	hour, minute := policies.Verifier{Plugin: "tests", Timeout: time.Hour}, policies.Verifier{Plugin: "tests", Timeout: time.Minute}
	for name, c := range map[string]struct {
		policy policies.Policy
		want   time.Duration
	}{
		"no block":         {policies.Policy{Verifiers: []policies.Verifier{minute, hour}}, time.Hour},
		"one has none":     {policies.Policy{Verifiers: []policies.Verifier{minute, {Plugin: "tests"}}}, 10 * time.Minute},
		"of the block":     {policies.Policy{Verifiers: []policies.Verifier{minute}, Plugins: []policies.Plugin{{Name: "tests", CallTimeout: 2 * time.Minute}}}, 2 * time.Minute},
		"longer than that": {policies.Policy{Verifiers: []policies.Verifier{hour}, Plugins: []policies.Plugin{{Name: "tests", CallTimeout: 2 * time.Minute}}}, time.Hour},
	} {
		if got := hostConfig(&c.policy).Plugins["tests"].VerifyTimeout; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
