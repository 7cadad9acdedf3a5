package cli_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/pgtest"
	"github.com/stepfall/stepfall/adapters/programs"
)

// TestTheGuideForSeveralMachines executes docs/fleet.md, command by command.
func TestTheGuideForSeveralMachines(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command and runs several of it")
	}
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("there is no %s", tool)
		}
	}
	cluster := pgtest.Start(t, "fsync=off")
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "fleet.md"))
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{bill: map[string]float64{}, any: true}
	provider := httptest.NewServer(u)
	defer provider.Close()
	dir := t.TempDir()
	script, policy := blocksOf(string(guide), "sh"), blocksOf(string(guide), "hcl")
	// The provider is one of the test's.
	policy = strings.Replace(policy, "max_output_tokens", fmt.Sprintf("base_url = %q\n  max_output_tokens", provider.URL+"/v1"), 1)
	if err := os.WriteFile(filepath.Join(dir, "policy.hcl"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test binary is the command under that name.
	if err := os.Symlink(self, filepath.Join(dir, "stepfall")); err != nil {
		t.Skip(err)
	}
	if err := programs.Into(dir, "verifier-schema"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", "trap 'kill $(jobs -p) 2>/dev/null' EXIT\n"+script)
	cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "STEPFALL_STORE="+cluster.Database(t), "OPENAI_API_KEY=test", "STEPFALL_PLUGIN_PATH="+dir, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		first, _ := os.ReadFile(filepath.Join(dir, "first.log"))
		worker, _ := os.ReadFile(filepath.Join(dir, "worker.log"))
		t.Fatalf("%v\n%s\n%s\n%s", err, out, first, worker)
	}
	for _, want := range []string{"yes, that is so", `"day"`, `"tenant":"blue"`, "agents", "stepfall_store_up 1", "2 of 2 outcomes", `stepfall_queue_jobs{state="available"} 0`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the guide's output has no %s:\n%s", want, out)
		}
	}
	if u.calls != 4 {
		t.Errorf("%d calls reached the provider, want one through each replica and two by the worker", u.calls)
	}
}

// blocksOf joins the fenced blocks of a language.
func blocksOf(page, lang string) string {
	var b strings.Builder
	for {
		_, rest, ok := strings.Cut(page, "```"+lang+"\n")
		if !ok {
			return b.String()
		}
		text, after, _ := strings.Cut(rest, "```")
		b.WriteString(text)
		page = after
	}
}
