//go:build clients

package clients_test

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestCodingAgents walks the nine cascades with the programs of Claude Code and Codex,
// where CLAUDE_CODE and CODEX name them: those of the npm packages @anthropic-ai/claude-code
// and @openai/codex.
func TestCodingAgents(t *testing.T) {
	for name, arguments := range map[string]func(url string) []string{
		"CLAUDE_CODE": func(string) []string {
			return []string{"-p", "Look up.", "--model", "stepfall", "--allowedTools", "Bash"}
		},
		"CODEX": func(url string) []string {
			return []string{
				"exec", "--skip-git-repo-check", "-s", "danger-full-access", "-m", "stepfall", "-c", "model_provider=stepfall",
				"-c", `model_providers.stepfall={name="stepfall",base_url="` + url + `/v1",wire_api="responses",env_key="STEPFALL_KEY"}`, "Look up.",
			}
		},
	} {
		program := os.Getenv(name)
		if program == "" {
			t.Logf("%s names no program: not walked", name)
			continue
		}
		cascades(func(small, large *vendorModel) {
			t.Run(name+" "+small.name+" "+large.name, func(t *testing.T) {
				u := newUpstream()
				server := httptest.NewServer(cascadeOf(t, u, small, large, "web_search", "namespace", "image_generation", "tool_search"))
				defer server.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				home := t.TempDir()
				cmd := exec.CommandContext(ctx, program, arguments(server.URL)...)
				cmd.Dir = home
				cmd.Env = []string{
					"PATH=" + os.Getenv("PATH"), "HOME=" + home, "IS_SANDBOX=1", "DISABLE_TELEMETRY=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
					"ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=none", "STEPFALL_KEY=none", "MAX_THINKING_TOKENS=2000",
				}
				out, err := cmd.CombinedOutput()
				asked, refused, _ := u.forget()
				if err != nil || len(refused) > 0 || len(asked) < 4 {
					t.Errorf("%v, asked %v, refused %v: %s", err, asked, refused, out)
				}
			})
		})
	}
}
