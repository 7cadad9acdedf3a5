package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/tmc/langchaingo/llms/fake"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/sqlite"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// ahead is how far the guards' clock is ahead, which saves waiting.
var ahead atomic.Int64

// replica is a guard in front of a gateway that reports the caller.
func replica(t *testing.T, path string, next http.HandlerFunc) (*sqlite.Store, *Guard, *httptest.Server) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	leased := store.NewLeasedAccounts(s, store.LeaseOptions{})
	g := NewGuard(s, leased)
	g.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	behind, err := gateway.New(gateway.Options{Model: fake.NewFakeLLM(nil)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g.Wrap(next, behind.Refuse))
	t.Cleanup(func() { server.Close(); leased.Close(); s.Close() })
	return s, g, server
}

func sayTenant(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, r.Header.Get(headerTenant), " ", store.KeyFrom(r.Context()) != nil)
}

func ask(t *testing.T, method, url, secret string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set(headerTenant, "forged")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestAKeyIsInForceEverywhereWithinASecond(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s, _, first := replica(t, path, sayTenant)
	_, _, second := replica(t, path, sayTenant)
	key := &store.Key{Tenant: "acme"}
	secret, err := Create(t.Context(), s, key)
	if err != nil {
		t.Fatal(err)
	}
	status := func(want int, secret string) {
		t.Helper()
		for _, server := range []*httptest.Server{first, second} {
			if got := ask(t, http.MethodPost, server.URL+"/v1/chat/completions", secret).StatusCode; got != want {
				t.Errorf("got %d, want %d", got, want)
			}
		}
	}
	status(200, secret)
	status(401, secret+"x")
	status(401, "")
	resp := ask(t, http.MethodPost, first.URL, secret)
	body := make([]byte, 100)
	n, _ := resp.Body.Read(body)
	if string(body[:n]) != "acme true" {
		t.Errorf("the gateway sees %q", body[:n])
	}
	renewed, err := Rotate(t.Context(), s, key.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	ahead.Add(int64(fresh))
	status(401, secret)
	status(200, renewed)
	if err := Revoke(t.Context(), s, key.ID); err != nil {
		t.Fatal(err)
	}
	ahead.Add(int64(fresh))
	status(401, renewed)
	if _, err := Rotate(t.Context(), s, key.ID, 0); err == nil {
		t.Error("a revoked key was rotated")
	}
	if resp, err := http.Get(first.URL + "/healthz"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("its health needs a key: %v, %v", resp, err)
	}
}

func TestLimitsHoldInAllReplicas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s, _, first := replica(t, path, sayTenant)
	_, _, second := replica(t, path, sayTenant)
	secret, err := Create(t.Context(), s, &store.Key{ID: "k", RequestsPerMinute: 20})
	if err != nil {
		t.Fatal(err)
	}
	minute := time.Now().Unix() / 60
	var granted, refused atomic.Int64
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			resp := ask(t, http.MethodPost, []string{first.URL, second.URL}[i%2], secret)
			switch resp.StatusCode {
			case http.StatusOK:
				granted.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
				if after, err := strconv.Atoi(resp.Header.Get("Retry-After")); err != nil || after < 1 || after > 60 {
					t.Errorf("Retry-After is %q", resp.Header.Get("Retry-After"))
				}
				var body struct {
					Error struct{ Code, Message string } `json:"error"`
				}
				if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || body.Error.Code != "rate_limit_exceeded" {
					t.Errorf("got %+v, %v", body, err)
				}
			default:
				t.Errorf("got %d", resp.StatusCode)
			}
		})
	}
	wg.Wait()
	// Requests that one replica has leased but not used are rejected by the other: together they never exceed the
	// limit of a minute.
	if minutes := time.Now().Unix()/60 - minute + 1; granted.Load() > 20*minutes || granted.Load() < 12 || refused.Load() != 60-granted.Load() {
		t.Errorf("%d granted, %d refused, of 20 a minute", granted.Load(), refused.Load())
	}
}

// A token limit also holds for concurrent requests: requests in flight count.
func TestTokensUnderWayCount(t *testing.T) {
	finish := make(chan struct{})
	s, _, server := replica(t, filepath.Join(t.TempDir(), "s.db"), func(http.ResponseWriter, *http.Request) { <-finish })
	secret, err := Create(t.Context(), s, &store.Key{ID: "k", TokensPerMinute: 2000})
	if err != nil {
		t.Fatal(err)
	}
	minute := time.Now().Unix() / 60
	var granted atomic.Int64
	var wg, refused sync.WaitGroup
	refused.Add(16 - 4)
	for range 16 {
		wg.Go(func() {
			if ask(t, http.MethodPost, server.URL, secret).StatusCode == http.StatusOK {
				granted.Add(1)
			} else {
				refused.Done()
			}
		})
	}
	refused.Wait()
	close(finish)
	wg.Wait()
	if n := granted.Load(); time.Now().Unix()/60 == minute && n != 4 {
		t.Errorf("%d requests of 500 tokens at once under a limit of 2000", n)
	}
}

func TestRefusalSaysWhenByTheStoresClock(t *testing.T) {
	s, g, server := replica(t, filepath.Join(t.TempDir(), "s.db"), sayTenant)
	secret, err := Create(t.Context(), s, &store.Key{ID: "k", RequestsPerMinute: 1})
	if err != nil {
		t.Fatal(err)
	}
	g.now = func() time.Time { return time.Now().Add(-20 * time.Minute) }
	for range 3 { // a minute may end between two of them
		resp := ask(t, http.MethodPost, server.URL, secret)
		if wait, _ := strconv.Atoi(resp.Header.Get("Retry-After")); resp.StatusCode == http.StatusTooManyRequests && 1 <= wait && wait <= 60 {
			return
		}
	}
	t.Error("no refusal said when to ask again")
}

func TestStreamsUnderWayAreLimited(t *testing.T) {
	release := make(chan struct{})
	begun := make(chan struct{}, 2)
	s, _, server := replica(t, filepath.Join(t.TempDir(), "s.db"), func(http.ResponseWriter, *http.Request) { begun <- struct{}{}; <-release })
	secret, err := Create(t.Context(), s, &store.Key{Streams: 2})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { ask(t, http.MethodPost, server.URL, secret) })
	}
	<-begun
	<-begun
	if resp := ask(t, http.MethodPost, server.URL, secret); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("a third stream gives %d", resp.StatusCode)
	}
	close(release)
	wg.Wait()
	for deadline := time.Now().Add(time.Minute); ask(t, http.MethodPost, server.URL, secret).StatusCode != http.StatusOK; {
		if time.Now().After(deadline) {
			t.Fatal("streams that ended count on")
		}
	}
}

func TestAKeySeesItsOwnSpending(t *testing.T) {
	s, _, server := replica(t, filepath.Join(t.TempDir(), "s.db"), sayTenant)
	mine, err := Create(t.Context(), s, &store.Key{ID: "mine", Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	operator, err := Create(t.Context(), s, &store.Key{ID: "op", Operator: true})
	if err != nil {
		t.Fatal(err)
	}
	day := time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
	for i, key := range []string{"mine", "other", "mine"} {
		step := &sdk.Trace{ID: fmt.Sprint("t", i), Start: day, Tenant: "acme", CostUSD: 0.5, Calls: []sdk.Call{{Model: "small", CostUSD: 0.5}}}
		if err := s.Record(t.Context(), []store.Entry{{Trace: step, Key: key}}); err != nil {
			t.Fatal(err)
		}
	}
	get := func(secret, query string) (rows []store.Sum) {
		t.Helper()
		resp := ask(t, http.MethodGet, server.URL+"/v1/spend?"+query, secret)
		var body struct {
			Data []store.Sum `json:"data"`
		}
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status, err)
		}
		return body.Data
	}
	if rows := get(mine, "by=key&key=other&tenant=acme"); len(rows) != 1 || rows[0].Key != "mine" || rows[0].CostUSD != 1 {
		t.Errorf("a key sees %+v", rows)
	}
	if rows := get(operator, "by=day,model&key=other&since=2026-11-21&until=2026-11-22"); len(rows) != 1 || rows[0].Day != "2026-11-21" || rows[0].Model != "small" || rows[0].CostUSD != 0.5 {
		t.Errorf("an operator sees %+v", rows)
	}
	if got := ask(t, http.MethodGet, server.URL+"/v1/spend?by=weather", mine).StatusCode; got != 400 {
		t.Errorf("spending by the weather gives %d", got)
	}
}

// Requests that the guard rejects are observed by the gateway behind it, with the key's name.
func TestRefusalsAreObserved(t *testing.T) {
	s, g, _ := replica(t, filepath.Join(t.TempDir(), "s.db"), sayTenant)
	secret, err := Create(t.Context(), s, &store.Key{ID: "k", Tenant: "blue", RequestsPerMinute: 1})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	behind, err := gateway.New(gateway.Options{Model: fake.NewFakeLLM(nil), Observe: func(x *gateway.Exchange) {
		seen[x.Refused.Reason+" "+x.Client.Key]++
	}})
	if err != nil {
		t.Fatal(err)
	}
	h := g.Wrap(http.HandlerFunc(sayTenant), behind.Refuse)
	for _, key := range []string{"nobody", secret, secret, secret} {
		r := httptest.NewRequest(http.MethodPost, "/v1/messages", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK && !strings.Contains(w.Body.String(), `"type":"error"`) {
			t.Errorf("a refusal in no form of Messages: %s", w.Body)
		}
	}
	// A minute may end between the two requests.
	if seen["unknown_key "] != 1 || seen["rate_limit k"] < 1 || len(seen) != 2 {
		t.Errorf("observed %v", seen)
	}
}

// A refusal has a request id for the client. The scheme "Bearer" is matched case-insensitively.
func TestARefusalHasAnID(t *testing.T) {
	s, _, server := replica(t, filepath.Join(t.TempDir(), "s.db"), sayTenant)
	secret, err := Create(t.Context(), s, &store.Key{ID: "k", Tenant: "blue", RequestsPerMinute: 1})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(authorization, id string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/chat/completions", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", authorization)
		req.Header.Set("X-Request-ID", id)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	for _, c := range []struct {
		authorization, id string
		status            int
	}{
		{"Bearer nobody", "mine-1", http.StatusUnauthorized},
		{"Bearer nobody", strings.Repeat("x", 200), http.StatusUnauthorized},
		{"bearer " + secret, "mine-2", http.StatusOK},
		{"BEARER  " + secret, "mine-3", http.StatusTooManyRequests},
	} {
		resp := ask(c.authorization, c.id)
		id := resp.Header.Get("X-Request-ID")
		if resp.StatusCode != c.status {
			t.Errorf("%.10s: %s", c.authorization, resp.Status)
		}
		if c.status != http.StatusOK && (id == "" || id != resp.Header.Get("Request-Id") || len(c.id) < 100 && id != c.id || len(c.id) > 100 && !strings.HasPrefix(id, "req_")) {
			t.Errorf("%s: id %q", resp.Status, id)
		}
	}
}

// Names are written to logs, tables and databases, which only accept text.
func TestAKeysNamesAreText(t *testing.T) {
	s, _, _ := replica(t, filepath.Join(t.TempDir(), "s.db"), sayTenant)
	for _, k := range []*store.Key{{ID: "a\nb", Tenant: "t"}, {ID: "a\x1b[31m", Tenant: "t"}, {ID: "a\xff", Tenant: "t"}, {Tenant: "t\x00"}, {Tenant: "t", Note: "for\r"}} {
		if secret, err := Create(t.Context(), s, k); err == nil || secret != "" || !strings.Contains(err.Error(), "invalid UTF-8") {
			t.Errorf("%q, %q, %q: %v", k.ID, k.Tenant, k.Note, err)
		}
	}
	if _, err := Create(t.Context(), s, &store.Key{ID: "Ä b/ç", Tenant: "日本", Note: "for tests"}); err != nil {
		t.Error(err)
	}
}

// A cap too large for an account does not block calls: it used to make every call fail.
func TestACapBeyondMoneyIsNone(t *testing.T) {
	s, _, _ := replica(t, filepath.Join(t.TempDir(), "s.db"), sayTenant)
	leased := store.NewLeasedAccounts(s, store.LeaseOptions{})
	defer leased.Close()
	ledger := leased.Ledger(step.Caps{TenantUSD: 1e10})
	ctx := store.WithKey(t.Context(), &store.Key{ID: "k", CapUSD: 1e30})
	held, err := ledger.Reserve(ctx, &sdk.Query{Tenant: "t"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := held.Settle(ctx, 0.5); err != nil {
		t.Error(err)
	}
}

// A store's ledger has a cap only on keys, runs and tenants that have one.
func TestOnlyCapsAreCaps(t *testing.T) {
	s, _, _ := replica(t, filepath.Join(t.TempDir(), "s.db"), sayTenant)
	leased := store.NewLeasedAccounts(s, store.LeaseOptions{})
	defer leased.Close()
	keyed := func(usd float64) context.Context { return store.WithKey(t.Context(), &store.Key{ID: "k", CapUSD: usd}) }
	for i, c := range []struct {
		ctx  context.Context
		caps step.Caps
		want bool
	}{
		{t.Context(), step.Caps{}, false}, {keyed(0), step.Caps{}, false}, {keyed(1), step.Caps{}, true},
		{keyed(0), step.Caps{TenantUSD: 1}, true}, {keyed(0), step.Caps{RunUSD: 1}, false},
	} {
		if got := leased.Ledger(c.caps).HasCapOn(c.ctx, &sdk.Query{Tenant: "t"}); got != c.want {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
	}
}

// A store file that is moved away while it is open is treated like a store that hangs: keys are rejected for now, the
// gateway is not ready, that is logged once, and everything works again when the file is back.
func TestAStoreFileThatIsMovedAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	engine, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	shared := store.Share(engine, path, hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Error}))
	defer shared.Close()
	secret, err := Create(t.Context(), shared, &store.Key{Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	behind, err := gateway.New(gateway.Options{Model: fake.NewFakeLLM(nil)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(NewGuard(shared.Store, shared.Leased).Wrap(http.HandlerFunc(sayTenant), behind.Refuse))
	defer server.Close()
	if err := os.Rename(path, path+".away"); err != nil {
		t.Skip(err) // an open file cannot be moved here
	}
	for range 3 {
		resp := ask(t, http.MethodPost, server.URL+"/v1/chat/completions", secret)
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || shared.Ready(t.Context()) == nil {
			t.Errorf("status %d, Retry-After %q, ready", resp.StatusCode, resp.Header.Get("Retry-After"))
		}
	}
	if _, err := shared.Ledger(step.Caps{TenantUSD: 1}).Reserve(t.Context(), &sdk.Query{Tenant: "acme"}, 0.1); !errors.Is(err, sdk.ErrStoreUnavailable) {
		t.Errorf("a cap is answered by %v", err)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(10 * time.Second); shared.Ready(t.Context()) != nil && time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
	}
	if resp := ask(t, http.MethodPost, server.URL+"/v1/chat/completions", secret); resp.StatusCode != http.StatusOK || shared.Ready(t.Context()) != nil {
		t.Errorf("with its file back: status %d, ready %v", resp.StatusCode, shared.Ready(t.Context()))
	}
	if strings.Count(log.String(), "\n") != 1 {
		t.Errorf("the log:\n%s", log.String())
	}
}

// However many unknown keys clients try, a valid key keeps its grace while the store is unavailable.
func TestAFloodOfUnknownKeysLeavesValidOnes(t *testing.T) {
	s, g, _ := replica(t, filepath.Join(t.TempDir(), "s.db"), sayTenant)
	secret, err := Create(t.Context(), s, &store.Key{Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.find(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	for i := range maxKnown + 1 {
		g.remember(digest(fmt.Sprint(i)), knownKey{at: g.now()})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ahead.Add(int64(2 * fresh))
	defer ahead.Add(-int64(2 * fresh))
	if key, err := g.find(t.Context(), secret); err != nil || key.Tenant != "acme" {
		t.Errorf("%+v, %v", key, err)
	}
}

// A key from before texts had limits can be changed and revoked.
func TestChangeOfAKeyWithLongTexts(t *testing.T) {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "s.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	long := strings.Repeat("n", 501)
	if err := s.PutKey(t.Context(), &store.Key{ID: "k", Tenant: long, Note: long}, []byte("digest"), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Change(t.Context(), s, "k", func(k *store.Key) { k.CapUSD = 1 }); err != nil {
		t.Error(err)
	}
	if err := Revoke(t.Context(), s, "k"); err != nil {
		t.Error(err)
	}
	if _, err := Change(t.Context(), s, "k", func(k *store.Key) { k.Note += "n" }); err == nil {
		t.Error("a longer note is accepted")
	}
}
