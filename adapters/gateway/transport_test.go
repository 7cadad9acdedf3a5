package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/middleware"
)

func TestInProcess(t *testing.T) {
	said := make(chan struct{})
	gone := make(chan error, 1)
	model := &recorder{answer: func(ctx context.Context, p *middleware.Params) (*llms.ContentResponse, error) {
		if p.OnDelta == nil {
			return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "hi"}}}, nil
		}
		if err := p.OnDelta(ctx, &middleware.Delta{Text: "first"}); err != nil {
			return nil, err
		}
		<-said
		<-ctx.Done()
		gone <- ctx.Err()
		return nil, ctx.Err()
	}}
	observed := 0
	client := &http.Client{Transport: newGateway(t, gateway.Options{Model: model, Observe: func(*gateway.Exchange) { observed++ }})}
	resp, err := client.Post("https://api.openai.com/v1/chat/completions", "application/json", strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"content":"hi"`) {
		t.Errorf("%v: status %d: %s", err, resp.StatusCode, body)
	}
	resp, err = client.Post("https://api.openai.com/v1/chat/completions", "application/json", strings.NewReader(`{"stream": true, "messages": [{"role": "user", "content": "hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	// The first piece arrives while the step is running; closing the body ends the step.
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || !strings.Contains(line, `"content":"first"`) {
		t.Errorf("%v: %s", err, line)
	}
	close(said)
	if err := resp.Body.Close(); err != nil || observed != 2 {
		t.Errorf("%v: observed %d requests", err, observed)
	}
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the step ended with %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://x/v1/chat/completions", strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that was cancelled: %v", err)
	}
}

// A caller that cancels in the middle of a stream gets the context's error, as from a server, and not an error of the
// gateway's.
func TestInProcessCancelInAStream(t *testing.T) {
	model := &recorder{answer: func(ctx context.Context, p *middleware.Params) (*llms.ContentResponse, error) {
		if err := p.OnDelta(ctx, &middleware.Delta{Text: "first"}); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	client := &http.Client{Transport: newGateway(t, gateway.Options{Model: model})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://x/v1/chat/completions", strings.NewReader(`{"stream": true, "messages": [{"role": "user", "content": "hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body := bufio.NewReader(resp.Body)
	if line, err := body.ReadString('\n'); err != nil || !strings.Contains(line, "first") {
		t.Fatalf("%v: %s", err, line)
	}
	cancel()
	if rest, err := io.ReadAll(body); !errors.Is(err, context.Canceled) || strings.Contains(string(rest), "error") {
		t.Errorf("%v: %s", err, rest)
	}
}

// Clients of steps that outlast the grace period are told to retry.
func TestServeEnds(t *testing.T) {
	asked := make(chan struct{}, 1)
	model := &recorder{answer: func(ctx context.Context, _ *middleware.Params) (*llms.ContentResponse, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return nil, &llms.Error{Code: llms.ErrCodeCanceled, Message: ctx.Err().Error(), Cause: ctx.Err()}
	}}
	g := newGateway(t, gateway.Options{Model: model})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	// As signal.NotifyContext does on a SIGTERM.
	ctx, end := context.WithCancelCause(t.Context())
	served, stopping := make(chan error, 1), make(chan struct{})
	go func() {
		served <- g.Serve(ctx, l, gateway.Serving{Grace: 50 * time.Millisecond, Drain: 100 * time.Millisecond, Stopping: func() { close(stopping) }})
	}()
	status := func(path string) int {
		resp, err := http.Get(url + path)
		if err != nil {
			t.Error(err)
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := status("/readyz"); got != 200 {
		t.Errorf("ready: %d", got)
	}
	answered := make(chan *http.Response, 1)
	go func() {
		resp, err := http.Post(url+chatPath, "application/json", strings.NewReader(hello))
		if err != nil {
			t.Error(err)
		}
		answered <- resp
	}()
	<-asked
	end(errors.New("terminated signal received"))
	<-stopping
	if ready, alive := status("/readyz"), status("/livez"); ready != 503 || alive != 200 {
		t.Errorf("while it drains: ready %d, alive %d", ready, alive)
	}
	if resp := <-answered; resp != nil && (resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "") {
		t.Errorf("a step that was cut: status %d, %v", resp.StatusCode, resp.Header)
	}
	if err := <-served; err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("ended with %v", err)
	}
}
