package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/pgtest"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/postgres"
)

// chaosTime is the duration of make chaos; 0 skips it.
var chaosTime = flag.Duration("chaos", 0, "for how long TestChaos kills what runs")

const (
	chaosTenants = 1000
	// What a call costs at most, by the policy below, is 0.0012 dollars and the prompt.
	chaosHotCap  = 0.8
	chaosColdCap = 0.004
)

// upstream answers like a provider, and keeps its own bill: it charges for everything it has begun, whether or not a
// client reads it.
type upstream struct {
	mu    sync.Mutex
	bill  map[string]float64
	calls int
	any   bool           // requests need not name a tenant
	rows  map[string]int // calls by the row that they are for
}

var rowOf = regexp.MustCompile(`row=(\d+)`)

var tenantOf = regexp.MustCompile(`tenant (\S+) `)

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	found := tenantOf.FindSubmatch(body)
	if found == nil && u.any {
		found = [][]byte{nil, []byte("anybody")}
	}
	if found == nil {
		http.Error(w, "no tenant", http.StatusBadRequest)
		return
	}
	// Now and then the longest answer, as a provider may.
	output := 20 + rand.IntN(30)
	if rand.IntN(10) == 0 {
		output = 100
	}
	const input = 12
	u.mu.Lock()
	u.bill[string(found[1])] += (input*1 + float64(output)*12) / 1e6
	u.calls++
	if row := rowOf.FindSubmatch(body); row != nil {
		if u.rows == nil {
			u.rows = map[string]int{}
		}
		u.rows[string(row[1])]++
	}
	u.mu.Unlock()
	select {
	case <-time.After(time.Duration(5+rand.IntN(40)) * time.Millisecond):
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": "x", "object": "chat.completion", "model": "small",
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": "yes, that is so"}}},
		"usage":   map[string]any{"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output},
	})
}

const chaosPolicy = `
model "small" {
  provider          = "openai"
  base_url          = "%s/v1"
  max_output_tokens = 100
  timeout           = "10s"
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 12
  }
}
strategy "route" { lambda = 1 }
budget {
  tenant_usd = %g
  tenant "hot" { usd = %g }
}
retry { max_attempts = 1 }
`

// service is a replica that can be killed.
type service struct {
	args []string
	mu   sync.Mutex
	cmd  *exec.Cmd
	addr string
	log  *bytes.Buffer
}

func (s *service) start(t *testing.T) bool {
	cmd := exec.Command(os.Args[0], s.args...)
	cmd.Args[0] = "stepfall"
	cmd.Path = os.Args[0]
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := bufio.NewReader(out)
	line, _ := first.ReadString('\n')
	go func() { _, _ = io.Copy(io.Discard, first) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd, s.log = cmd, log
	found := regexp.MustCompile(`http://[0-9.:]+|worker \S+ waits`).FindString(line)
	s.addr = found
	if found == "" {
		_ = cmd.Wait()
		s.cmd = nil
		return false
	}
	return true
}

func (s *service) kill(how os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(how)
		_ = s.cmd.Wait()
		s.cmd, s.addr = nil, ""
	}
}

func (s *service) address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// client records what the clients of all replicas have seen.
type client struct {
	http  *http.Client
	mu    sync.Mutex
	steps map[string]bool // ids of traces of steps that ended
	codes map[int]int
}

func (c *client) ask(ctx context.Context, addr, tenant string) (code int, retryAfter string) {
	body := fmt.Sprintf(`{"model":"stepfall","messages":[{"role":"user","content":"Is tenant %s right?"}],"max_tokens":100}`, tenant)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, addr+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, ""
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Stepfall-Tenant", tenant)
	resp, err := c.http.Do(req)
	if err == nil {
		retryAfter = resp.Header.Get("Retry-After")
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err == nil {
			code = resp.StatusCode
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.codes[code]++
	if id := ""; code == http.StatusOK {
		if id = resp.Header.Get("X-Stepfall-Trace-Id"); id != "" {
			c.steps[id] = true
		}
	}
	return code, retryAfter
}

// TestChaos: replicas are killed and restarted, the database is restarted, crashes and hangs, connections are cut,
// clients hang up; and the upstream's bill exceeds no cap.
func TestChaos(t *testing.T) {
	if *chaosTime == 0 {
		t.Skip("make chaos runs it")
	}
	cluster := pgtest.Start(t, "fsync=off")
	database := cluster.Database(t)
	proxy, proxied := pgtest.StartProxy(t, database)
	u := &upstream{bill: map[string]float64{}}
	provider := httptest.NewServer(u)
	defer provider.Close()
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache")) // what killed processes leave to the next ones
	policy := filepath.Join(dir, "policy.hcl")
	if err := os.WriteFile(policy, fmt.Appendf(nil, chaosPolicy, provider.URL, chaosColdCap, chaosHotCap), 0o600); err != nil {
		t.Fatal(err)
	}
	replicas := make([]*service, 3)
	for i := range replicas {
		replicas[i] = &service{args: []string{"serve", "--policy", policy, "--store", proxied, "--open", "--addr", "127.0.0.1:0", "--log", "error"}}
		if !replicas[i].start(t) {
			t.Fatalf("a replica does not start: %s", replicas[i].log)
		}
		defer replicas[i].kill(syscall.SIGKILL)
	}
	// The database's clock is that of neither the replicas nor the workers.
	skewed := cluster.AdvanceClock(37 * time.Minute)
	if err := cluster.Down(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Up(); err != nil {
		t.Fatal(err)
	}
	jobs := newChaosJobs(t, dir, database, policy)
	for _, w := range jobs.workers {
		defer w.kill(syscall.SIGKILL)
	}
	c := &client{http: &http.Client{Timeout: 20 * time.Second}, steps: map[string]bool{}, codes: map[int]int{}}
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 24 {
		clients.Go(func() {
			for ctx.Err() == nil {
				addr := replicas[rand.IntN(len(replicas))].address()
				if addr == "" {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				tenant := "hot"
				if rand.IntN(10) < 6 {
					tenant = fmt.Sprintf("cold%d", rand.IntN(chaosTenants))
				}
				one, cancel := ctx, context.CancelFunc(func() {})
				if rand.IntN(15) == 0 { // a client that hangs up
					one, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(30))*time.Millisecond)
				}
				c.ask(one, addr, tenant)
				cancel()
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			}
		})
	}
	collected := jobs.collect(ctx, t)
	h := &hang{proxy: proxy, client: c, replicas: replicas, database: database}
	counts := havoc(ctx, t, *chaosTime, cluster, database, append(slices.Clone(replicas), jobs.workers...), h)
	h.terminate(ctx, t)
	stop()
	clients.Wait()
	<-collected
	jobs.finish(t)
	t.Logf("the database's clock was 37 minutes ahead: %v", skewed)
	for _, r := range append(replicas, jobs.workers...) {
		r.kill(syscall.SIGTERM)
	}
	judgeChaos(t, u, c, database, counts)
	t.Logf("the database hung %d times: the slowest of %d requests that needed it took %v, the end by SIGTERM %v", h.times, h.requests, h.slowest, h.end)
	jobs.judge(t, u)
}

type havocCounts struct {
	kills, restarts, crashes, cuts atomic.Int64
}

func havoc(ctx context.Context, t *testing.T, d time.Duration, cluster *pgtest.Cluster, database string, replicas []*service, h *hang) *havocCounts {
	n := &havocCounts{}
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(time.Duration(1000+rand.IntN(1500)) * time.Millisecond)
		switch rand.IntN(7) {
		case 0, 1, 2:
			r := replicas[rand.IntN(len(replicas))]
			r.kill(syscall.SIGKILL)
			n.kills.Add(1)
			for !r.start(t) && time.Now().Before(end.Add(time.Minute)) {
				time.Sleep(100 * time.Millisecond)
			}
		case 3, 4:
			s, err := postgres.Open(ctx, database)
			if err != nil {
				continue
			}
			_, _ = s.Pool().Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()")
			s.Close()
			n.cuts.Add(1)
		case 5:
			h.refuse(ctx, t)
			h.proxy.Resume()
		default:
			how, counter := syscall.SIGINT, &n.restarts
			if rand.IntN(2) == 0 {
				how, counter = syscall.SIGQUIT, &n.crashes
			}
			if err := cluster.Down(how); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
			if err := cluster.Up(); err != nil {
				t.Fatal(err)
			}
			counter.Add(1)
		}
	}
	return n
}

func judgeChaos(t *testing.T, u *upstream, c *client, database string, n *havocCounts) {
	s, err := postgres.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := s.Balances(t.Context(), "tenant ", 0)
	if err != nil {
		t.Fatal(err)
	}
	booked := map[string]store.Balance{}
	for _, b := range list {
		booked[b.Account] = b
		if b.Spent < 0 || b.Reserved < 0 {
			t.Errorf("%+v: something was settled twice", b)
		}
	}
	total, passed := 0.0, 0
	for tenant, usd := range u.bill {
		if tenant == chaosRows {
			continue // it is the workers', see judge of chaosJobs
		}
		limit := chaosColdCap
		if tenant == "hot" {
			limit = chaosHotCap
		}
		total += usd
		if usd > limit+1e-9 {
			passed++
			t.Errorf("tenant %s was billed %.6f under a cap of %.6f", tenant, usd, limit)
		}
		b := booked[store.TenantAccount(tenant)]
		if have := float64(b.Spent+b.Reserved) / store.NanoUSD; have < usd-1e-9 {
			t.Errorf("tenant %s was billed %.6f, and %.6f is booked", tenant, usd, have)
		}
	}
	missing := 0
	for id := range c.steps {
		if _, err := s.Trace(t.Context(), id); err != nil {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%d steps that ended have no trace", missing)
	}
	hot := booked[store.TenantAccount("hot")]
	t.Logf("%v: %d calls billed, %.4f USD, caps passed %d; answers by status %v; kills %d, restarts %d, crashes %d, cuts %d; hot tenant billed %.4f of %.4f, booked %.4f; %d of %d steps without a trace",
		*chaosTime, u.calls, total, passed, c.codes, n.kills.Load(), n.restarts.Load(), n.crashes.Load(), n.cuts.Load(),
		u.bill["hot"], chaosHotCap, float64(hot.Spent+hot.Reserved)/store.NanoUSD, missing, len(c.steps))
	if c.codes[http.StatusOK] < 100 || u.bill["hot"] < chaosHotCap/4 {
		t.Errorf("hardly anything was done: %v", c.codes)
	}
}
