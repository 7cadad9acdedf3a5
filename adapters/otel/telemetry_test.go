package otel_test

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

	"github.com/stepfall/stepfall/adapters/otel"
	"github.com/stepfall/stepfall/adapters/sqlite"
	"github.com/stepfall/stepfall/adapters/store"
	"github.com/stepfall/stepfall/sdk"
)

// watched returns what /metrics says after some steps of tenants.
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
	tel, err := otel.Start(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close(context.Background())
	if err := tel.Watch(otel.Gauges{
		Store: s, Traces: buffer, OpenCircuits: func() []string { return []string{"small/"} }, PluginRestarts: func() int64 { return 2 },
		Queue: func(context.Context) (map[string]int64, error) { return map[string]int64{"available": 3}, nil },
	}); err != nil {
		t.Fatal(err)
	}
	for i := range tenants {
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
		`stepfall_calls_total{model="large",result="error",tenant="t0"} 1`,
		`stepfall_tokens_total{direction="input",model="small",tenant="t0"} 5`,
		`stepfall_escalations_total{tenant="t0"} 1`,
		`stepfall_saved{tenant="t0"} -0.015`, `stepfall_quality{basis="measured",tenant="t0"} 1`,
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
	if !strings.Contains(text, `stepfall_escalations_total{tenant="other"} 200`) {
		t.Error("the others are not counted together")
	}
}

// TestDashboardAndAlertsNameMetricsThatExist: what an operator is given must not
// look at nothing.
func TestDashboardAndAlertsNameMetricsThatExist(t *testing.T) {
	text := watched(t, 1)
	name := regexp.MustCompile(`\bstepfall_[a-z_]+\b`)
	label := regexp.MustCompile(`stepfall_outcome`)
	for _, file := range []string{"dashboard.json", "alerts.yml"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "docs", "fleet", file))
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
	tel, err := otel.Start(t.Context(), "test")
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

// Calls at the same time use the same connections again: http.DefaultTransport keeps two.
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
	tel, err := otel.Start(t.Context(), "test")
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
	// A call may open one while another becomes free.
	if n := opened.Load(); n > 3*workers {
		t.Errorf("%d connections for %d calls, %d at a time", n, workers*calls, workers)
	}
}
