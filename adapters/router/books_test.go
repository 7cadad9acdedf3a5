package router_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tmc/langchaingo/llms"
	"go.uber.org/goleak"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/adapters/sqlite"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// A policy's retention block prunes its databases while the router is open.
func TestRetention(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "traces.db")
	old, err := sqlite.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	for id, age := range map[string]time.Duration{"old": 2 * time.Hour, "new": time.Minute} {
		if err := old.Record(t.Context(), []store.Entry{{Trace: &sdk.Trace{ID: id, Start: time.Now().Add(-age)}}}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "policy.hcl")
	if err := os.WriteFile(path, []byte(`
model "small" {
  provider = "go"
  price { free = true }
}
strategy "route" { lambda = 0 }
trace { database = "traces.db" }
retention { traces = "1h" }
`), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := full.Open(t.Context(), path, router.Options{Models: map[string]llms.Model{"small": caller("yes")}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		left, err := old.Steps(t.Context(), store.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 1 && left[0].ID == "new" {
			return
		}
		runtime.Gosched()
	}
}

const booksPolicy = `
model "small" {
  provider          = "openai"
  base_url          = "%URL%"
  max_output_tokens = 50
  timeout           = "100ms"
  price {
    input_usd_per_million  = 100
    output_usd_per_million = 100
  }
  quality { mean = 0.5 }
}
model "large" {
  provider          = "openai"
  base_url          = "%URL%"
  max_output_tokens = 50
  timeout           = "100ms"
  price {
    input_usd_per_million  = 1000
    output_usd_per_million = 1000
  }
  quality { mean = 0.9 }
}
plugin "exact" {}
verifier "exact" {
  plugin = "exact"
  config { want = "right" }
}
strategy "cascade_route" { lambda = 0.1 }
retry {
  max_attempts = 2
  base_delay   = "1ms"
  max_delay    = "2ms"
  break_after  = 0
}
budget {
  run_usd = 0.5
  ledger  = "ledger.db"
}
`

// books are a server's records of its calls: the calling run, the model, and the amount that it will
// bill.
type books struct {
	mu     sync.Mutex
	rng    *rand.Rand
	calls  map[string]int
	billed map[string]float64 // by run
}

// respond answers, rightly or wrongly, or fails in any of the ways in which servers fail. Whatever it has begun to
// answer is billed.
func (b *books) respond(_ context.Context, r *scripted.Request) scripted.Reply {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls[r.Model]++
	reply := scripted.Reply{Text: []string{"right", "wrong"}[b.rng.IntN(2)], Usage: &scripted.Usage{InputTokens: 20, OutputTokens: 10}}
	if b.rng.IntN(2) == 0 {
		kinds := []scripted.Fault{
			{Kind: scripted.FaultStatus, Status: 500},
			{Kind: scripted.FaultStatus, Status: 429},
			{Kind: scripted.FaultStatus, Status: 400},
			{Kind: scripted.FaultGarbage}, {Kind: scripted.FaultClose}, {Kind: scripted.FaultHang}, {Kind: scripted.FaultTruncate}, {Kind: scripted.FaultStreamError},
		}
		reply.Fault = kinds[b.rng.IntN(len(kinds))]
	}
	if k := reply.Fault.Kind; k != scripted.FaultStatus && k != scripted.FaultStreamError {
		price := map[string]float64{"small": 100, "large": 1000}[r.Model]
		b.billed[r.LastUser()] += 30 * price / 1e6
	}
	return reply
}

// TestBooksBalanceUnderFaults makes a server fail in every way, and compares its bill with the traces, the ledger
// and the caps.
func TestBooksBalanceUnderFaults(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	b := &books{rng: rand.New(rand.NewPCG(1, 2)), calls: map[string]int{}, billed: map[string]float64{}}
	server, err := scripted.Start(scripted.Options{Respond: b.respond})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	p, err := policies.Parse(t.TempDir()+"/policy.hcl", []byte(strings.ReplaceAll(booksPolicy, "%URL%", server.URL())), policies.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	calls, traced, steps, capped := map[string]int{}, map[string]float64{}, 0, 0
	r, err := router.New(t.Context(), p, full.Complete(router.Options{Plugins: inProcess{}, Traces: func(_ context.Context, tr *sdk.Trace) {
		mu.Lock()
		defer mu.Unlock()
		steps++
		traced[tr.Run] += tr.CostUSD
		if tr.Stop == sdk.StopBudget {
			capped++
		}
		for i := range tr.Calls {
			calls[tr.Calls[i].Model]++
		}
	}}))
	if err != nil {
		t.Fatal(err)
	}
	const runs, perRun = 8, 40
	var wg sync.WaitGroup
	for run := range runs {
		name := fmt.Sprint("run ", run)
		for lane := range 4 {
			wg.Go(func() {
				for range perRun / 4 {
					ctx, cancel := context.WithCancel(middleware.WithInfo(context.Background(), middleware.Info{Run: name}))
					if lane == 0 { // a caller who does not wait
						time.AfterFunc(20*time.Millisecond, cancel)
					}
					// The step may fail because of the faults. The test only checks its cost.
					_, _ = llms.GenerateFromSinglePrompt(ctx, r, name)
					cancel()
				}
			})
		}
	}
	wg.Wait()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if steps != runs*perRun {
		t.Errorf("%d traces of %d steps", steps, runs*perRun)
	}
	for model, n := range b.calls {
		// A call that was cancelled before it was sent is only in its trace.
		if calls[model] < n {
			t.Errorf("%s: the server had %d calls, the traces have %d", model, n, calls[model])
		}
	}
	for run := range runs {
		name := fmt.Sprint("run ", run)
		billed, known := b.billed[name], traced[name]
		if billed > known+1e-9 {
			t.Errorf("%s: the server bills %.4f USD and the traces know of %.4f", name, billed, known)
		}
		if known > 0.5+1e-9 {
			t.Errorf("%s: %.4f USD spent under a cap of 0.5", name, known)
		}
	}
	if capped == 0 {
		t.Error("no step met its cap: the test shows nothing of caps")
	}
}
