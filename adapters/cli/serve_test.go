package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stepfall/stepfall/adapters/cli"
	"github.com/stepfall/stepfall/adapters/scripted"
)

const servedPolicy = `
model "small" {
  provider          = "openai"
  base_url          = %q
  max_output_tokens = 100
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 1
  }
}
strategy "route" { lambda = 1 }
budget { run_usd = 0.0035 }
`

// dearer is a second model of servedPolicy, which its strategy never asks.
const dearer = `
model "large" {
  provider          = "openai"
  base_url          = "http://127.0.0.1:1"
  max_output_tokens = 100
  price {
    input_usd_per_million  = 100
    output_usd_per_million = 100
  }
  quality {
    mean    = 0.1
    std_dev = 0
  }
}
`

// running is a running "stepfall serve".
type running struct {
	url       string
	metrics   string
	interrupt context.CancelFunc
	policy    string
	stopping  chan struct{} // closed when it says that it stops
	swapped   chan struct{} // told of each policy that is put in force
	code      chan int

	mu   sync.Mutex
	said bytes.Buffer
}

// Write receives the command's standard error.
func (r *running) Write(p []byte) (int, error) {
	r.mu.Lock()
	r.said.Write(p)
	r.mu.Unlock()
	if bytes.Contains(p, []byte("stopping")) {
		close(r.stopping)
	}
	if bytes.Contains(p, []byte("policy reloaded")) {
		r.swapped <- struct{}{}
	}
	return len(p), nil
}

func startServe(t *testing.T, policy string) *running {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.hcl")
	if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r := &running{policy: path, interrupt: cancel, stopping: make(chan struct{}), swapped: make(chan struct{}, 100), code: make(chan int, 1)}
	out, w := io.Pipe()
	go func() {
		r.code <- cli.Run(ctx, []string{"serve", "--policy", path, "--addr", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--watch"}, cli.Streams{Out: w, Err: r})
		w.Close()
	}()
	lines := bufio.NewReader(out)
	for _, address := range []*string{&r.metrics, &r.url} {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%v; exit code %d", err, <-r.code)
		}
		*address = regexp.MustCompile(`http://\S+`).FindString(line)
	}
	return r
}

// chat sends a request to the gateway; it returns status 0 on failure.
func chat(t *testing.T, url, run string) (status int, body string) {
	t.Helper()
	request := `{"model": "stepfall", "messages": [{"role": "user", "content": "hello"}]}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/chat/completions", strings.NewReader(request))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	r.Header.Set("X-Stepfall-Run", run)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	return resp.StatusCode, string(data)
}

func TestServe(t *testing.T) {
	models, err := scripted.Start(scripted.Options{Respond: func(context.Context, *scripted.Request) scripted.Reply {
		return scripted.Reply{Text: "good day", Usage: &scripted.Usage{InputTokens: 900, OutputTokens: 100}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer models.Close()
	r := startServe(t, fmt.Sprintf(servedPolicy, models.URL())+dearer)
	status, body := chat(t, r.url, "run 1")
	var got struct {
		Choices []struct{ Message struct{ Content string } }
		Step    struct {
			CostUSD float64 `json:"cost_usd"`
		} `json:"stepfall"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK || got.Choices[0].Message.Content != "good day" || got.Step.CostUSD != 0.001 {
		t.Errorf("%v: status %d: %s", err, status, body)
	}
	// The cap of the run holds over requests: the second one fits, the third does not.
	if status, body := chat(t, r.url, "run 1"); status != http.StatusOK {
		t.Errorf("status %d: %s", status, body)
	}
	if status, body := chat(t, r.url, "run 1"); status != http.StatusTooManyRequests || !strings.Contains(body, "insufficient_quota") {
		t.Errorf("status %d: %s", status, body)
	}
	if _, figures := page(t, http.DefaultClient, r.metrics); !strings.Contains(figures, `stepfall_requests_refused_total{reason="budget"} 1`) {
		t.Error("the metrics do not count the request that the cap refused")
	}
	if status, body := chat(t, r.url, "run 2"); status != http.StatusOK {
		t.Errorf("another run: status %d: %s", status, body)
	}
	r.interrupt()
	if code := <-r.code; code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
	// The last word is what was spent beside always asking the dearest model.
	if !strings.Contains(r.said.String(), "spent 0.003000 USD; always asking large would have cost") || !strings.Contains(r.said.String(), "on the same 4 steps") {
		t.Errorf("what was saved is not in the log:\n%s", &r.said)
	}
}

func TestServeLetsRunningStepsEnd(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	models, err := scripted.Start(scripted.Options{Respond: func(context.Context, *scripted.Request) scripted.Reply {
		close(asked)
		<-answer
		return scripted.Reply{Text: "good day"}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer models.Close()
	r := startServe(t, fmt.Sprintf(servedPolicy, models.URL()))
	served := make(chan int, 1)
	go func() {
		status, _ := chat(t, r.url, "")
		served <- status
	}()
	<-asked
	r.interrupt()
	<-r.stopping
	close(answer)
	if status := <-served; status != http.StatusOK {
		t.Errorf("the running step ended with status %d", status)
	}
	if code := <-r.code; code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestServeRefusesToStandOpen(t *testing.T) {
	t.Setenv("BLUE_KEY", "k")
	for _, c := range []struct{ args, says string }{
		{"", "--policy is required"},
		{"--policy p.hcl --addr :0", "can be reached by others"},
		{"--policy p.hcl --addr nowhere:x", "--addr"},
		{"--policy p.hcl --key blue", "want tenant=VARIABLE"},
		{"--policy p.hcl --key blue=NO_SUCH_KEY", "the environment variable NO_SUCH_KEY is not set"},
		{"--policy p.hcl --key blue=BLUE_KEY --key red=BLUE_KEY", "the tenants blue and red have the same key"},
	} {
		var said bytes.Buffer
		code := cli.Run(t.Context(), append([]string{"serve"}, strings.Fields(c.args)...), cli.Streams{Out: io.Discard, Err: &said})
		if code != cli.ExitUsage || !strings.Contains(said.String(), c.says) {
			t.Errorf("%s: exit code %d, %q; want %q", c.args, code, said.String(), c.says)
		}
	}
}

// A policy that changes while it is served replaces the old one.
func TestServeFollowsItsPolicy(t *testing.T) {
	models, err := scripted.Start(scripted.Options{Respond: func(_ context.Context, r *scripted.Request) scripted.Reply {
		return scripted.Reply{Text: "from " + r.Model}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer models.Close()
	text := fmt.Sprintf(servedPolicy, models.URL())
	r := startServe(t, text)
	if err := os.WriteFile(r.policy+".new", []byte(strings.ReplaceAll(text, `"small"`, `"tiny"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(r.policy+".new", r.policy); err != nil {
		t.Fatal(err)
	}
	<-r.swapped
	if status, body := chat(t, r.url, ""); status != http.StatusOK || !strings.Contains(body, "from tiny") {
		t.Errorf("%d %s", status, body)
	}
	resp, err := http.Get(r.url + "/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if list, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(list), `"tiny"`) || strings.Contains(string(list), `"small"`) {
		t.Errorf("models: %s, %v", list, err)
	}
}
