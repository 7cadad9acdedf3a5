package docs

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// TestSWESession holds the terminal session in swe.md to what record-swe.sh prints.
func TestSWESession(t *testing.T) {
	if os.Getenv("STEPFALL_ATTACKS") != "all" && !*update {
		t.Skip("STEPFALL_ATTACKS is not all: the sixth walk has a session of its own")
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("one of the repositories is in Python: there is no python3")
	}
	const page = "swe.md"
	committed, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(committed), "## A recorded session\n")
	prose, rest, opened := strings.Cut(rest, "```console\n")
	session, after, closed := strings.Cut(rest, "```\n")
	if !found || !opened || !closed {
		t.Fatalf("%s has no recorded session", page)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "record-swe.sh", built(t))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	now := strings.TrimSpace(tidy(string(out), os.TempDir())) + "\n"
	if *update {
		now = before + "## A recorded session\n" + prose + "```console\n" + now + "```\n" + after
		if err := os.WriteFile(page, []byte(now), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := gocmp.Diff(comparable(session), comparable(now)); diff != "" {
		t.Errorf("the session in docs/%s is not what the commands print (-page +now); when that is intended: go test ./docs -run SWESession -update\n%s", page, diff)
	}
}
