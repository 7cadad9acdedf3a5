package telemetry_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/internal/telemetry"
	"github.com/stepfall/stepfall/adapters/sqlite"
	"github.com/stepfall/stepfall/sdk"
)

// Sums of dollars are exact, and errors are of a known kind or "other".
func TestSumsWithoutDust(t *testing.T) {
	tel, err := telemetry.Start(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close(context.Background())
	for i := range 30 {
		tel.Record(t.Context(), &sdk.Trace{ID: "x", Tenant: "t", Chosen: "m", CostUSD: 0.1 + 0.2, Calls: []sdk.Call{
			{Model: "m", CostUSD: 0.1}, {Model: "m", CostUSD: 0.2, Error: "status " + strconv.Itoa(570+i)}, {Model: "m", Error: "status 503"},
		}})
	}
	w := httptest.NewRecorder()
	tel.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	text := w.Body.String()
	if !strings.Contains(text, `stepfall_spent_total{model="m",tenant="t"} 9`+"\n") {
		t.Errorf("spent: %s", regexp.MustCompile(`(?m)^stepfall_spent.*$`).FindAllString(text, -1))
	}
	types := map[string]bool{}
	for _, m := range regexp.MustCompile(`error_type="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		types[m[1]] = true
	}
	if len(types) != 2 || !types["503"] || !types["_OTHER"] {
		t.Errorf("types of errors: %v", types)
	}
}

// watched returns the output of /metrics after some steps of tenants.
func watched(t *testing.T, tenants int) string {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "s.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Reserve(t.Context(), 1, []store.Charge{{Account: store.TenantAccount("t0"), Amount: 5e8}}, time.Hour); err != nil {
		t.Fatal(err)
	}
	buffer := store.NewBuffer(s, store.BufferOptions{})
	defer buffer.Close()
	tel, err := telemetry.Start(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close(context.Background())
	if err := tel.Watch(telemetry.Gauges{
		Store: s, Traces: buffer, OpenCircuits: func() []string { return []string{"small/"} }, PluginRestarts: func() int64 { return 2 },
		Queue: func(context.Context) (map[string]int64, error) { return map[string]int64{"available": 3}, nil },
	}); err != nil {
		t.Fatal(err)
	}
	tel.CountRefusal(t.Context(), "budget")
	for i := range tenants {
		tel.CountRefusal(t.Context(), "r"+strconv.Itoa(i))
		tel.Record(t.Context(), &sdk.Trace{
			ID: "x", Tenant: "t" + strconv.Itoa(i), Chosen: "large", Stop: sdk.StopNotWorth, CostUSD: 0.03, Duration: time.Second, Overhead: time.Millisecond,
			Decisions: []sdk.Decision{{Models: []sdk.Belief{{Model: "small", CostUSD: 0.01}, {Model: "large", CostUSD: 0.1}}}},
			Calls: []sdk.Call{
				{Model: "small", CostUSD: 0.01, Usage: sdk.Usage{InputTokens: 5, OutputTokens: 2}, Verdict: &sdk.Verdict{Outcome: sdk.Failed}},
				{Model: "large", CostUSD: 0.015, Verdict: &sdk.Verdict{Outcome: sdk.Passed}}, {Model: "large", Error: "boom"},
			},
		})
	}
	w := httptest.NewRecorder()
	tel.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatal(w.Code, err)
	}
	return string(body)
}

func TestMetricsSayWhatStepsCost(t *testing.T) {
	text := watched(t, 1)
	for _, line := range []string{
		`stepfall_steps_total{mode="",model="large",stop="not_worth_more",tenant="t0"} 1`,
		`stepfall_spent_total{model="small",tenant="t0"} 0.01`,
		`stepfall_spent_total{model="(verdicts)",tenant="t0"} 0.005`,
		`stepfall_calls_total{model="large",result="error",tenant="t0"} 1`,
		`stepfall_tokens_total{direction="input",model="small",tenant="t0"} 5`,
		`stepfall_escalations_total{tenant="t0"} 1`,
		`stepfall_requests_refused_total{reason="budget"} 1`,
		`stepfall_saved{tenant="t0"} -0.015`, `stepfall_saved_all `, `stepfall_quality{basis="measured",tenant="t0"} 1`,
		`stepfall_account_reserved{account="tenant \"t0\""} 0.5`,
		`stepfall_store_up 1`,
		`stepfall_circuits_open 1`,
		`stepfall_plugin_restarts 2`,
		`stepfall_queue_jobs{state="available"} 3`,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("there is no line\n%s\nin\n%s", line, grep(text, line[:strings.IndexAny(line, "{ ")]))
		}
	}
}

func grep(text, part string) string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, part) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

func TestLabelsAreBounded(t *testing.T) {
	text := watched(t, 300)
	if n := strings.Count(text, "stepfall_escalations_total{"); n != 101 {
		t.Errorf("300 tenants are %d values of a label, want 100 and others", n)
	}
	if !strings.Contains(text, `stepfall_requests_refused_total{reason="other"} 201`) {
		t.Error("reasons are not bounded")
	}
	if !strings.Contains(text, `stepfall_escalations_total{tenant="other"} 200`) {
		t.Error("the others are not counted together")
	}
}

// TestDashboardAndAlertsNameMetricsThatExist checks that the dashboards and alerts for operators only refer to
// existing metrics.
func TestDashboardAndAlertsNameMetricsThatExist(t *testing.T) {
	text := watched(t, 1)
	name := regexp.MustCompile(`\bstepfall_[a-z_]+\b`)
	label := regexp.MustCompile(`stepfall_outcome`)
	for _, file := range []string{"dashboard.json", "alerts.yml"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "fleet", file))
		if err != nil {
			t.Fatal(err)
		}
		if file == "dashboard.json" && !json.Valid(data) {
			t.Errorf("%s is no JSON", file)
		}
		found := name.FindAllString(string(data), -1)
		if len(found) < 8 {
			t.Errorf("%s names %d metrics", file, len(found))
		}
		for _, metric := range found {
			if !label.MatchString(metric) && !strings.Contains(text, "\n"+metric+"{") && !strings.Contains(text, "\n"+metric+" ") {
				t.Errorf("%s looks at %s, which is not there", file, metric)
			}
		}
		for _, by := range regexp.MustCompile(`by \(([a-z_]+)\)`).FindAllStringSubmatch(string(data), -1) {
			if by[1] != "le" && by[1] != "instance" && !strings.Contains(text, by[1]+`="`) {
				t.Errorf("%s asks by %s, which no metric has", file, by[1])
			}
		}
	}
}

func TestTheCallersSpanIsTakenInAndPassedOn(t *testing.T) {
	tel, err := telemetry.Start(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close(context.Background())
	const span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	got := ""
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Traceparent") }))
	defer upstream.Close()
	client := &http.Client{Transport: tel.Transport(nil)}
	handler := tel.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, upstream.URL, http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
	}))
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Header.Set("Traceparent", span)
	handler.ServeHTTP(httptest.NewRecorder(), r)
	if got != span {
		t.Errorf("the upstream got %q", got)
	}
}

// Concurrent calls reuse connections: http.DefaultTransport keeps only two.
func TestConnectionsAreUsedAgain(t *testing.T) {
	const workers, calls = 32, 20
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Millisecond) }))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	tel, err := telemetry.Start(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close(context.Background())
	client := &http.Client{Transport: tel.Transport(nil)}
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for range calls {
				resp, err := client.Get(server.URL) //nolint:noctx // of a test
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
			}
		})
	}
	wait.Wait()
	// A call may open a connection while another one becomes free.
	if n := opened.Load(); n > 3*workers {
		t.Errorf("%d connections for %d calls, %d at a time", n, workers*calls, workers)
	}
}

// Quantiles computed by Prometheus from the buckets are within a factor of two of the true ones.
func TestQuantilesAreWithinAFactorOfTwo(t *testing.T) {
	for _, took := range []time.Duration{5 * time.Millisecond, 12 * time.Millisecond, 90 * time.Millisecond, 350 * time.Millisecond, 2 * time.Second} {
		tel, err := telemetry.Start(t.Context(), "test")
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			tel.Record(t.Context(), &sdk.Trace{ID: "x", Duration: took, Calls: []sdk.Call{{Model: "m", Provider: "p", Latency: took, Usage: sdk.Usage{InputTokens: 1_500_000}}}})
		}
		w := httptest.NewRecorder()
		tel.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		for _, name := range []string{"stepfall_step_duration_seconds_bucket", "gen_ai_client_operation_duration_seconds_bucket"} {
			low, high := 0.0, 0.0
			for line := range strings.Lines(grep(w.Body.String(), name)) {
				bound := regexp.MustCompile(`le="([^"]+)"`).FindStringSubmatch(line)
				if bound == nil || high > 0 {
					continue
				}
				if edge, err := strconv.ParseFloat(bound[1], 64); err == nil && strings.HasSuffix(line, " 0\n") {
					low = edge
				} else if err == nil {
					high = edge
				}
			}
			if s := took.Seconds(); low < s/2 || high > 2*s || high <= low {
				t.Errorf("%s of %v lies between %v and %v", name, took, low, high)
			}
		}
		if line := grep(w.Body.String(), `gen_ai_client_token_usage_bucket{`); !strings.Contains(line, `le="4.194304e+06"`) {
			t.Errorf("no bucket for millions of tokens in\n%s", line)
		}
		if err := tel.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func TestErrorTypes(t *testing.T) {
	tel, err := telemetry.Start(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close(context.Background())
	for text, want := range map[string]string{
		"openai: status 429 rate_limit: slow down": "429", "API returned unexpected status code: 503: no": "503", "call timed out": "timeout", "context canceled": "canceled",
		"dial tcp: connect: connection refused": "connection_error", "something else": "_OTHER",
	} {
		tel.Record(t.Context(), &sdk.Trace{ID: "x", Calls: []sdk.Call{{Model: want, Error: text}}})
		w := httptest.NewRecorder()
		tel.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		if !regexp.MustCompile(`gen_ai_client_operation_duration_seconds_count\{error_type="` + want + `"`).MatchString(w.Body.String()) {
			t.Errorf("%s is not counted as %s", text, want)
		}
	}
}

// manyAccounts is a store with the given number of accounts.
type manyAccounts struct {
	store.Store
	n     int
	reads atomic.Int64
}

func (*manyAccounts) Ping(context.Context) error { return nil }

func (m *manyAccounts) Balances(_ context.Context, prefix string, _ int) ([]store.Balance, error) {
	m.reads.Add(1)
	list := make([]store.Balance, m.n)
	for i := range list {
		list[i] = store.Balance{Account: prefix + strconv.Itoa(i), Spent: int64(i)}
	}
	return list, nil
}

// A scrape does not read all accounts of the store, however many there are.
func TestAScrapeDoesNotReadAllAccounts(t *testing.T) {
	tel, err := telemetry.Start(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close(context.Background())
	many := &manyAccounts{n: 1000}
	if err := tel.Watch(telemetry.Gauges{Store: many}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		w := httptest.NewRecorder()
		tel.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		if n := strings.Count(w.Body.String(), "stepfall_account_spent{"); n != 100 {
			t.Errorf("%d accounts are shown, want 100", n)
		}
	}
	if n := many.reads.Load(); n != 2 {
		t.Errorf("accounts were read %d times, want once by tenant and once by key", n)
	}
}

// slowAccounts is a store whose accounts take longer than a scrape waits.
type slowAccounts struct{ manyAccounts }

func (*slowAccounts) Balances(ctx context.Context, _ string, _ int) ([]store.Balance, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Accounts that cannot be read in time leave the other gauges.
func TestSlowAccountsLeaveTheQueue(t *testing.T) {
	tel, err := telemetry.Start(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close(context.Background())
	if err := tel.Watch(telemetry.Gauges{Store: &slowAccounts{}, Queue: func(ctx context.Context) (map[string]int64, error) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return map[string]int64{"waiting": 3}, nil
	}}); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	tel.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if !strings.Contains(w.Body.String(), `stepfall_queue_jobs{state="waiting"} 3`) {
		t.Error(grep(w.Body.String(), "stepfall_queue"))
	}
}

func BenchmarkScrape(b *testing.B) {
	for _, n := range []int{200, 50_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			tel, err := telemetry.Start(b.Context(), "test")
			if err != nil {
				b.Fatal(err)
			}
			defer tel.Close(context.Background())
			if err := tel.Watch(telemetry.Gauges{Store: &manyAccounts{n: n}}); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				tel.Metrics().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
			}
		})
	}
}
