package peers_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/router"
)

var measure = flag.Bool("peers", false, "measure: a minute and more, all cores")

const (
	whole  = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"The answer is forty-two."}}],"usage":{"prompt_tokens":20,"completion_tokens":8,"total_tokens":28}}`
	piece  = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}` + "\n\n"
	end    = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" + `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":20,"total_tokens":40}}` + "\n\ndata: [DONE]\n\n"
	pieces = 20
)

// upstream answers at once: what is measured is what stands before it.
func upstream(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, whole)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for range pieces {
		_, _ = io.WriteString(w, piece)
		_ = http.NewResponseController(w).Flush()
	}
	_, _ = io.WriteString(w, end)
}

const policy = `
model "m" {
  provider          = "openai"
  base_url          = %q
  max_output_tokens = 100
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 1
  }
}
strategy "route" { lambda = 1 }
stream { mode = "passthrough" }
`

// figure is what one peer did under one load.
type figure struct {
	perSecond float64
	p50, p99  time.Duration
	failed    int
}

func load(t *testing.T, target, body string, connections int, span time.Duration) figure {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	var mu sync.Mutex
	var took []time.Duration
	failed := 0
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			var own []time.Duration
			lost := 0
			for ctx.Err() == nil {
				began := time.Now()
				if ask(client, target, body) {
					own = append(own, time.Since(began))
				} else {
					lost++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			took, failed = append(took, own...), failed+lost
		})
	}
	all.Wait()
	if len(took) == 0 {
		return figure{failed: failed}
	}
	slices.Sort(took)
	return figure{float64(len(took)) / span.Seconds(), took[len(took)/2], took[len(took)*99/100], failed}
}

// ask makes one request and reads its answer to the end.
func ask(client *http.Client, target, body string) bool {
	resp, err := client.Post(target+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK
}

func TestPeers(t *testing.T) {
	if !*measure {
		t.Skip("a measurement: make peers")
	}
	models := httptest.NewServer(http.HandlerFunc(upstream))
	defer models.Close()
	address, err := url.Parse(models.URL)
	if err != nil {
		t.Fatal(err)
	}
	pool := &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(address) }, Transport: pool, FlushInterval: -1})
	defer proxy.Close()
	path := filepath.Join(t.TempDir(), "policy.hcl")
	if err := os.WriteFile(path, fmt.Appendf(nil, policy, models.URL+"/v1"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := router.Open(t.Context(), path, router.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	g, err := gateway.New(gateway.Options{Model: r})
	if err != nil {
		t.Fatal(err)
	}
	ours := httptest.NewServer(g)
	defer ours.Close()

	fmt.Println("| kind | connections | proxy req/s | p50 | p99 | gateway req/s | p50 | p99 | ratio |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, stream := range []bool{false, true} {
		kind, body := "buffered", `{"model":"stepfall","messages":[{"role":"user","content":"What is the answer?"}]}`
		if stream {
			kind, body = "streamed", `{"stream":true,"model":"stepfall","messages":[{"role":"user","content":"What is the answer?"}]}`
		}
		for _, connections := range []int{1, 16, 64} {
			const span = 3 * time.Second
			// In turns, so that what else the machine does weighs on both.
			a, b := load(t, proxy.URL, body, connections, span), load(t, ours.URL, body, connections, span)
			if a.failed+b.failed > 0 {
				fmt.Printf("failed: %d through the proxy, %d through the gateway\n", a.failed, b.failed)
			}
			if b.failed > 0 {
				t.Errorf("%s, %d connections: %d requests failed", kind, connections, b.failed)
			}
			fmt.Printf("| %s | %d | %.0f | %v | %v | %.0f | %v | %v | %.2f |\n", kind, connections,
				a.perSecond, a.p50.Round(time.Microsecond), a.p99.Round(time.Microsecond), b.perSecond, b.p50.Round(time.Microsecond), b.p99.Round(time.Microsecond), b.perSecond/a.perSecond)
		}
	}
}
