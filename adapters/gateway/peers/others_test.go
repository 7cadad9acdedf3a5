package peers_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The peers made by others, from npm and PyPI, in the versions of testdata.
const (
	portkey     = "Portkey's gateway"
	liteLLM     = "LiteLLM's proxy"
	cascadeFlow = "cascadeflow's gateway"
)

// master is a key that LiteLLM requires to start.
const master = "sk-peers"

// installed returns the folder with the others' packages, or "". It is filled once, in the user's cache
// folder.
func installed(t *testing.T, kind string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	list, needs, commands := "requirements.txt", "venv/bin/python", [][]string{{"python3", "-m", "venv", "venv"}, {"venv/bin/pip", "install", "-q", "--disable-pip-version-check", "-r", "requirements.txt"}}
	if kind == portkey {
		list, needs, commands = "package.json", "node_modules/@portkey-ai/gateway", [][]string{{"npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"}}
	}
	text, err := os.ReadFile(filepath.Join("testdata", list))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "stepfall", "peers", list)
	stamp := filepath.Join(dir, "installed")
	if have, err := os.ReadFile(stamp); err == nil && string(have) == string(text) {
		if _, err := os.Stat(filepath.Join(dir, needs)); err == nil {
			return dir
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, list), text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		cmd := exec.CommandContext(t.Context(), c[0], c[1:]...)
		if filepath.Dir(c[0]) != "." {
			cmd.Path = filepath.Join(dir, c[0])
		}
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Printf("skipped: %s cannot be had here: %s: %v: %.200s\n", kind, c[0], err, out)
			return ""
		}
	}
	if err := os.WriteFile(stamp, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// startOther starts another project's gateway, or returns false if it is not available. A cap above 0 limits its
// spending, in US dollars.
func startOther(t *testing.T, kind, upstream string, limitUSD float64) (process, bool) {
	t.Helper()
	dir := installed(t, kind)
	if dir == "" {
		return process{}, false
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	l.Close()
	config := filepath.Join(t.TempDir(), "config.yaml")
	var command []string
	var text, health string
	header := http.Header{"Authorization": {"Bearer " + master}}
	switch kind {
	case portkey:
		command = []string{"node", filepath.Join(dir, "node_modules/@portkey-ai/gateway/build/start-server.js"), "--headless", "--port=" + port}
		header["X-Portkey-Provider"], header["X-Portkey-Custom-Host"] = []string{"openai"}, []string{upstream + "/v1"}
		health = "/"
	case liteLLM:
		command = []string{filepath.Join(dir, "venv/bin/litellm"), "--config", config, "--host", "127.0.0.1", "--port", port}
		text = fmt.Sprintf("model_list:\n- model_name: stepfall\n  litellm_params:\n    model: openai/m\n    api_base: %s/v1\n    api_key: none\n"+
			"    input_cost_per_token: 0.000001\n    output_cost_per_token: 0.000001\nlitellm_settings:\n  telemetry: false\n  num_retries: 0\n", upstream)
		if limitUSD > 0 {
			text += fmt.Sprintf("  max_budget: %g\n  budget_duration: 1d\n", limitUSD)
		}
		health = "/health/liveliness"
	case cascadeFlow:
		command = []string{filepath.Join(dir, "venv/bin/cascadeflow-gateway"), "--mode", "agent", "--config", config, "--port", port}
		text = fmt.Sprintf("models:\n- {name: m, provider: vllm, cost: 0.001, base_url: %[1]s/v1}\n- {name: m2, provider: vllm, cost: 0.01, base_url: %[1]s/v1}\n", upstream)
		health = "/health"
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "LITELLM_MASTER_KEY="+master, "LITELLM_LOG=ERROR", "LITELLM_LOCAL_MODEL_COST_MAP=True", "VLLM_BASE_URL="+upstream+"/v1")
	if err := cmd.Start(); err != nil {
		fmt.Printf("skipped: %s does not start here: %v\n", kind, err)
		return process{}, false
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p := process{kind: kind, url: "http://" + address, pid: cmd.Process.Pid, header: header}
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		if answers(t.Context(), p.url+health) {
			return p, true
		}
	}
	fmt.Printf("skipped: %s does not answer within five minutes\n", kind)
	return process{}, false
}

func answers(ctx context.Context, address string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// The spending of two hundred concurrent clients under a cap of the price of fifty requests, by the upstream's own
// bill.
func TestCapOfPeers(t *testing.T) {
	if !*measure {
		t.Skip("a measurement: make peers")
	}
	const clients, each = 200, 2008e-6 // US dollars: 2,000 tokens in, 8 out
	const limit = 50 * each
	fmt.Printf("| %d clients under a cap of %.4f USD | spent, by the upstream | answered | refused |\n| --- | ---: | ---: | ---: |\n", clients, limit)
	for _, kind := range []string{ledger, liteLLM} {
		var made atomic.Int64
		models := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			made.Add(1)
			time.Sleep(50 * time.Millisecond)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, strings.Replace(whole, `"prompt_tokens":20`, `"prompt_tokens":2000`, 1))
		}))
		defer models.Close()
		var p process
		if kind == ledger {
			p = start(t, tight, models.URL)
		} else {
			var ok bool
			if p, ok = startOther(t, kind, models.URL, limit); !ok {
				continue
			}
		}
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
		var answered atomic.Int64
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				if ask(client, &p, conversation(false, strings.Repeat("What is the answer? ", 400))) {
					answered.Add(1)
				}
			})
		}
		all.Wait()
		client.CloseIdleConnections()
		spent := float64(made.Load()) * each
		fmt.Printf("| %s | %.5f (%.2f of the cap) | %d | %d |\n", kind, spent, spent/limit, answered.Load(), clients-answered.Load())
		if kind == ledger && spent > limit+1e-9 {
			t.Errorf("%.6f USD were spent under a cap of %.6f", spent, limit)
		}
	}
	fmt.Printf("| %s, %s | have no cap of their own | | |\n", portkey, cascadeFlow)
	_, _ = io.WriteString(os.Stdout, "\n")
}
