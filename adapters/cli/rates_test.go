package cli_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/pgtest"
)

// ratesTime is the duration of each measurement of make rates.
var ratesTime = flag.Duration("rates", 0, "for how long TestRates asks each gateway, each time")

// TestRates measures gateways in turns, without a store, with traces in PostgreSQL and with a cap there as well, and
// one and two with one hot cap: requests per second, and their ratios within the run.
func TestRates(t *testing.T) {
	if *ratesTime == 0 {
		t.Skip("make rates runs it")
	}
	cluster := pgtest.Start(t)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "x", "object": "chat.completion", "model": "small",
			"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": "yes"}}},
			"usage":   map[string]any{"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
		})
	}))
	defer provider.Close()
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.hcl")
	if err := os.WriteFile(policy, fmt.Appendf(nil, chaosPolicy, provider.URL, 1e6, 1e6), 0o600); err != nil {
		t.Fatal(err)
	}
	free := filepath.Join(dir, "free.hcl")
	text := fmt.Sprintf(chaosPolicy, provider.URL, 1e6, 1e6)
	before, rest, _ := strings.Cut(text, "budget {")
	_, after, _ := strings.Cut(rest, "retry")
	if err := os.WriteFile(free, []byte(before+"retry"+after), 0o600); err != nil {
		t.Fatal(err)
	}
	database := cluster.Database(t)
	start := func(args ...string) *service {
		s := &service{args: append([]string{"serve", "--open", "--addr", "127.0.0.1:0", "--log", "error", "--policy"}, args...)}
		if !s.start(t) {
			t.Fatalf("no gateway: %s", s.log)
		}
		t.Cleanup(func() { s.kill(syscall.SIGKILL) })
		return s
	}
	without, recording := start(free), start(free, "--store", database)
	first, second := start(policy, "--store", database), start(policy, "--store", database)
	rates := map[string][]float64{}
	for range 5 {
		for name, at := range map[string][]*service{"without": {without}, "recording": {recording}, "one": {first}, "two": {first, second}} {
			rates[name] = append(rates[name], rateOf(t, at))
		}
	}
	middle := map[string]float64{}
	for name, list := range rates {
		slices.Sort(list)
		middle[name] = list[len(list)/2]
	}
	t.Logf("requests/s, median of 5 turns: without a store %.0f; traces in PostgreSQL %.0f (%.2f of it); traces and a cap in PostgreSQL %.0f (%.2f, %.2f); two replicas on one hot cap %.0f (%.2f of one)",
		middle["without"], middle["recording"], middle["recording"]/middle["without"],
		middle["one"], middle["one"]/middle["without"], middle["one"]/middle["recording"], middle["two"], middle["two"]/middle["one"])
}

// rateOf measures gateways over 32 connections.
func rateOf(t *testing.T, at []*service) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), *ratesTime)
	defer cancel()
	asker := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer asker.CloseIdleConnections()
	var done atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for i := range 32 {
		url := at[i%len(at)].address() + "/v1/chat/completions"
		wg.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"model":"stepfall","messages":[{"role":"user","content":"Is it?"}],"max_tokens":100}`))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("X-Stepfall-Tenant", "hot")
				resp, err := asker.Do(req)
				if err != nil {
					continue // the time is over
				}
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if err == nil && resp.StatusCode == http.StatusOK {
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}
