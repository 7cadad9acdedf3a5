package peers_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/internal/heap"
)

var (
	measure   = flag.Bool("peers", false, "measure: some minutes, all cores")
	proxyOnly = flag.Bool("proxy", false, "measure the gateway beside the plain proxy alone, at 64 connections")
)

const (
	whole  = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"The answer is forty-two."}}],"usage":{"prompt_tokens":20,"completion_tokens":8,"total_tokens":28}}`
	piece  = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}` + "\n\n"
	end    = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" + `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":20,"total_tokens":40}}` + "\n\ndata: [DONE]\n\n"
	pieces = 20
)

// upstream answers immediately, so that only the gateway in front of it is measured.
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
	for i := range pieces {
		_, _ = io.WriteString(w, piece)
		_ = http.NewResponseController(w).Flush()
		if i == 0 && bytes.Contains(body, []byte("hold the line")) {
			<-r.Context().Done() // a stream that lives on
			return
		}
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

// capped books each request in a file before it is sent.
const capped = `
budget {
  tenant_usd    = 1000000
  tenant_period = "24h"
  ledger        = "spending.sqlite"
}
`

// The peers are separate processes: this program again, selected by an environment variable.
const (
	plain  = "proxy"
	ours   = "gateway"
	ledger = "gateway, SQLite ledger"
	tight  = "gateway, SQLite ledger, tight cap"
)

const peerVariable, upstreamVariable = "STEPFALL_PEER", "STEPFALL_UPSTREAM"

func TestMain(m *testing.M) {
	if kind := os.Getenv(peerVariable); kind != "" {
		if err := servePeer(kind, os.Getenv(upstreamVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// servePeer prints its address and serves until standard input ends.
func servePeer(kind, upstream string) error {
	handler, err := peer(kind, upstream)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = (&http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}).Serve(l) }()
	fmt.Println("http://" + l.Addr().String())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func peer(kind, upstream string) (http.Handler, error) {
	if kind == plain {
		address, err := url.Parse(upstream)
		if err != nil {
			return nil, err
		}
		pool := &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true}
		proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(address) }, Transport: pool, FlushInterval: -1}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// Otherwise the server ends the request's body when the response begins. A transport that has not
			// seen the end of that body yet treats this as an error and aborts the response: one stream in
			// some hundreds on a busy machine.
			_ = http.NewResponseController(w).EnableFullDuplex()
			proxy.ServeHTTP(w, r)
		}), nil
	}
	heap.Roomy() // as serve does
	dir, err := os.MkdirTemp("", "peer")
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(policy, upstream+"/v1")
	switch kind {
	case ledger:
		text += capped
	case tight: // 2,000 tokens in, 8 out, fifty times
		text += strings.Replace(capped, "1000000", "0.1004", 1)
	}
	path := filepath.Join(dir, "policy.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	r, err := full.Open(context.Background(), path, full.Options{})
	if err != nil {
		return nil, err
	}
	return gateway.New(gateway.Options{Model: r})
}

// process is a running peer.
type process struct {
	kind, url string
	pid       int
	header    http.Header // of each request to it
}

func start(t *testing.T, kind, upstream string) process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), peerVariable+"="+kind, upstreamVariable+"="+upstream, "TMPDIR="+t.TempDir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return process{kind: kind, url: strings.TrimSpace(address), pid: cmd.Process.Pid}
}

// cpu returns the processor time of the peer, and memory its resident memory in MB; 0 if Linux does not report
// them.
func (p process) cpu() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, userErr := strconv.Atoi(fields[11])
	system, systemErr := strconv.Atoi(fields[12])
	if userErr != nil || systemErr != nil {
		return 0
	}
	const tick = 10 * time.Millisecond
	return time.Duration(user+system) * tick
}

func (p process) memory() float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kb, err := strconv.Atoi(fields[0])
	if err != nil {
		return 0
	}
	return float64(kb) / 1024
}

// figure is the result of one peer under one load.
type figure struct {
	perSecond float64
	p50, p99  time.Duration
	failed    int
}

func load(t *testing.T, target *process, body string, connections int, span time.Duration) figure {
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

// ask sends one request and reads its response to the end.
func ask(client *http.Client, target *process, body string) bool {
	req, err := http.NewRequest(http.MethodPost, target.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return false
	}
	maps.Copy(req.Header, target.header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(gateway.HeaderTenant, "blue") // whose cap the ledger keeps
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK
}

// conversation returns the request body.
func conversation(stream bool, text string) string {
	return fmt.Sprintf(`{"stream":%t,"model":"stepfall","messages":[{"role":"user","content":%q}]}`, stream, text)
}

func TestPeers(t *testing.T) {
	if !*measure {
		t.Skip("a measurement: make peers")
	}
	models := httptest.NewServer(http.HandlerFunc(upstream))
	defer models.Close()
	kinds, others, connectionCounts, turns := []string{plain, ours, ledger}, []string{portkey, liteLLM, cascadeFlow}, []int{1, 16, 64}, 3
	if *proxyOnly {
		kinds, others, connectionCounts, turns = kinds[:2], nil, []int{64}, 15
	}
	var peers []process
	for _, kind := range kinds {
		peers = append(peers, start(t, kind, models.URL))
	}
	own := len(peers)
	for _, kind := range others {
		if p, ok := startOther(t, kind, models.URL, 0); ok {
			peers = append(peers, p)
		}
	}
	fmt.Println("| kind | connections | | req/s | of the proxy's | p50 | p99 | processor a request | of the proxy's | memory |\n| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, stream := range []bool{false, true} {
		kind := map[bool]string{false: "buffered", true: "streamed"}[stream]
		for _, connections := range connectionCounts {
			// Peers take turns, so that other load of the machine affects all of them.
			const span = time.Second
			sums := make([]figure, len(peers))
			spent := make([]time.Duration, len(peers))
			for range turns {
				for i, p := range peers {
					before := p.cpu()
					f := load(t, &p, conversation(stream, "What is the answer?"), connections, span)
					spent[i] += p.cpu() - before
					sums[i].perSecond += f.perSecond / float64(turns)
					sums[i].p50 += f.p50 / time.Duration(turns)
					sums[i].p99 += f.p99 / time.Duration(turns)
					sums[i].failed += f.failed
				}
			}
			for i, p := range peers {
				f := sums[i]
				if f.failed > 0 && i < own {
					t.Errorf("%s, %d connections: %d requests through the %s failed", kind, connections, f.failed, p.kind)
				}
				if f.failed > 0 && i >= own {
					fmt.Printf("%s, %d connections: %d requests through %s failed\n", kind, connections, f.failed, p.kind)
				}
				each := func(i int) time.Duration {
					return time.Duration(float64(spent[i]) / max(sums[i].perSecond*float64(turns)*span.Seconds(), 1))
				}
				fmt.Printf("| %s | %d | %s | %.0f | %.2f | %v | %v | %v | %.2f | %.0f MB |\n", kind, connections, p.kind, f.perSecond, f.perSecond/sums[0].perSecond,
					f.p50.Round(time.Microsecond), f.p99.Round(time.Microsecond), each(i).Round(time.Microsecond), float64(each(i))/float64(max(each(0), 1)), p.memory())
			}
		}
	}
}

// Long-lived streams cost memory, and the next one still begins immediately.
func TestLiveStreams(t *testing.T) {
	if !*measure {
		t.Skip("a measurement: make peers")
	}
	const streams = 2000
	models := httptest.NewServer(http.HandlerFunc(upstream))
	defer models.Close()
	fmt.Printf("| %d streams at once through the | first byte p50 | p99 | memory |\n| --- | ---: | ---: | ---: |\n", streams)
	for _, kind := range []string{plain, ours} {
		p := start(t, kind, models.URL)
		client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
		ctx, hangUp := context.WithTimeout(t.Context(), time.Minute)
		took := make([]time.Duration, streams)
		var begun, ended sync.WaitGroup
		begun.Add(streams)
		turn := make(chan struct{}, 32) // as many begin at a time
		for i := range streams {
			ended.Go(func() {
				turn <- struct{}{}
				now := time.Now()
				resp, err := hold(ctx, client, p.url)
				took[i] = time.Since(now)
				<-turn
				begun.Done()
				if err != nil {
					t.Errorf("%s: %v", kind, err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body) // until we hang up
				resp.Body.Close()
			})
		}
		begun.Wait()
		memory := p.memory()
		hangUp()
		ended.Wait()
		client.CloseIdleConnections()
		slices.Sort(took)
		fmt.Printf("| %s | %v | %v | %.0f MB |\n", kind, took[streams/2].Round(time.Microsecond), took[streams*99/100].Round(time.Microsecond), memory)
		if kind == ours && memory > 300 {
			t.Errorf("%d streams hold %.0f MB", streams, memory)
		}
	}
}

// hold begins a long stream, and returns when its first piece has arrived.
func hold(ctx context.Context, client *http.Client, target string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target+"/v1/chat/completions", strings.NewReader(conversation(true, "hold the line")))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, len("data: "))); err != nil {
		resp.Body.Close()
		return nil, fmt.Errorf("status %d: %w", resp.StatusCode, err)
	}
	return resp, nil
}
