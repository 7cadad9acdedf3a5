//go:build clients

package clients_test

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// agentPrograms are the coding agents of the npm packages in testdata/agents.json: the paths of the programs below
// node_modules. An environment variable with the agent's name overrides the path.
var agentPrograms = map[string]string{
	"CLAUDE_CODE": "@anthropic-ai/claude-code/cli-wrapper.cjs",
	"CODEX":       "@openai/codex/bin/codex.js",
}

// agentCommand returns the command of a coding agent, or nil if it is not available.
func agentCommand(t *testing.T, name string) []string {
	t.Helper()
	if program := os.Getenv(name); program != "" {
		return []string{program}
	}
	if !*all {
		return nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := installed(t, filepath.Join(cache, "stepfall", "clients"), "coding-agents", "agents.json", "node_modules/@openai/codex", func(dir string) error {
		if err := os.Rename(filepath.Join(dir, "agents.json"), filepath.Join(dir, "package.json")); err != nil {
			return err
		}
		return run(t, dir, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	})
	if dir == "" {
		return nil
	}
	return []string{"node", filepath.Join(dir, "node_modules", agentPrograms[name])}
}

// TestCodingAgents runs Claude Code and Codex on the nine cascades.
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
		command := agentCommand(t, name)
		if command == nil {
			t.Logf("there is no program of %s: not walked", name)
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
				cmd := exec.CommandContext(ctx, command[0], append(command[1:], arguments(server.URL)...)...)
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
