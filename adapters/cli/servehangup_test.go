package cli_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hangupsIgnored is read before any test can change it.
var hangupsIgnored = signal.Ignored(syscall.SIGHUP)

// A gateway that does not watch its policy shuts down gracefully when its terminal hangs up: requests in flight are
// answered.
func TestAHangupEndsTheGatewayInOrder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such signal")
	}
	if hangupsIgnored {
		t.Skip("hangups are ignored, as below nohup, and so they are by what is started")
	}
	asked, answer := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[{"message":{"role":"assistant","content":"late"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1}}`)
	}))
	defer upstream.Close()
	policy := filepath.Join(t.TempDir(), "policy.hcl")
	if err := os.WriteFile(policy, fmt.Appendf(nil, servedPolicy, upstream.URL+"/v1"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OPENAI_API_KEY", "x")
	s := &service{args: []string{"serve", "--policy", policy, "--addr", "127.0.0.1:0"}}
	if !s.start(t) {
		t.Fatal("it does not start")
	}
	defer s.kill(syscall.SIGKILL)
	addr := s.address()
	said := make(chan string, 1)
	go func() {
		_, body := chat(t, addr+"/v1", "r")
		said <- body
	}()
	<-asked
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for { // until it takes no more
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(addr, "http://"))
		if err != nil {
			break
		}
		conn.Close()
		time.Sleep(time.Millisecond)
	}
	close(answer)
	if body := <-said; !strings.Contains(body, "late") {
		t.Errorf("the answer under way is lost: %q", body)
	}
}
