package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// headerTenant is the header from which a gateway without its own keys reads the tenant.
const headerTenant = "X-Stepfall-Tenant"

const (
	// fresh is how long a key that was read from the store is used.
	fresh = 500 * time.Millisecond
	// grace is how long it is used while the store is unavailable.
	grace = time.Minute
	// maxKnown limits the number of remembered digests.
	maxKnown = 100_000
)

// Guard admits requests with a valid key. It is safe for concurrent use.
type Guard struct {
	s      store.Store
	leased *store.LeasedAccounts
	now    func() time.Time

	mu    sync.Mutex
	known map[[32]byte]knownKey
}

// knownKey is a key as read from the store; key is nil if the store has none with the digest.
type knownKey struct {
	key *store.Key
	at  time.Time
}

// NewGuard returns a guard for the keys of a store. Their limits are enforced by the accounts of leased.
func NewGuard(s store.Store, leased *store.LeasedAccounts) *Guard {
	return &Guard{s: s, leased: leased, now: time.Now, known: map[[32]byte]knownKey{}}
}

func (g *Guard) find(ctx context.Context, secret string) (*store.Key, error) {
	if secret == "" {
		return nil, gateway.ErrUnknownKey
	}
	d := digest(secret)
	g.mu.Lock()
	k := g.known[d]
	g.mu.Unlock()
	if now := g.now(); now.Sub(k.at) >= fresh {
		key, err := g.s.KeyByDigest(ctx, d[:])
		switch {
		case errors.Is(err, store.ErrNotFound):
			key = nil
		case err != nil && now.Sub(k.at) < grace:
			key, now = k.key, k.at
		case err != nil:
			return nil, err
		}
		k = knownKey{key, now}
		g.remember(d, k)
	}
	if !k.key.Valid(g.now()) {
		return nil, gateway.ErrUnknownKey
	}
	return k.key, nil
}

// RefuseFunc answers a request that is not admitted, like [gateway.Gateway.Refuse].
type RefuseFunc func(http.ResponseWriter, *http.Request, gateway.Client, *gateway.Refusal)

func (g *Guard) remember(digest [32]byte, k knownKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.known) >= maxKnown {
		// However many unknown keys clients try, valid ones keep their grace.
		maps.DeleteFunc(g.known, func(_ [32]byte, k knownKey) bool { return k.key == nil })
		if len(g.known) > maxKnown/2 {
			clear(g.known)
		}
	}
	g.known[digest] = k
}

// Wrap returns a handler that passes requests with a valid key on to next, with the key's tenant in the
// header X-Stepfall-Tenant, whatever the client sent there. Only GET /healthz, /livez and /readyz and a
// browser's OPTIONS need no key. Other requests are answered by refuse.
func (g *Guard) Wrap(next http.Handler, refuse RefuseFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if needsNoKey(r) {
			next.ServeHTTP(w, r)
			return
		}
		key, err := g.find(r.Context(), gateway.KeyOf(r))
		if err != nil {
			why, ok := errors.AsType[*gateway.Refusal](err)
			if !ok {
				why = storeDown("the keys")
			}
			refuse(w, r, gateway.Client{}, why)
			return
		}
		client := gateway.Client{Tenant: key.Tenant, Key: key.ID}
		if r.URL.Path == "/v1/spend" {
			if why := g.spend(w, r, key); why != nil {
				refuse(w, r, client, why)
			}
			return
		}
		r.Header.Set(headerTenant, key.Tenant)
		ctx := store.WithKey(r.Context(), key)
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		settle, why := g.admit(ctx, key, r.ContentLength)
		if why != nil {
			refuse(w, r, client, why)
			return
		}
		ctx, report := middleware.WithReport(ctx)
		defer func() { settle(report) }()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func needsNoKey(r *http.Request) bool {
	return r.Method == http.MethodOptions || r.Method == http.MethodGet && slices.Contains([]string{"/healthz", "/livez", "/readyz"}, r.URL.Path)
}

// admit charges a request to the key's limits. The returned function settles the actual usage.
func (g *Guard) admit(ctx context.Context, key *store.Key, length int64) (settle func(*middleware.Report), why *gateway.Refusal) {
	limits := chargesOf(key, length)
	if len(limits) == 0 {
		return func(*middleware.Report) {}, nil
	}
	charges := make([]store.Charge, len(limits))
	for i := range limits {
		charges[i] = limits[i].Charge
	}
	held, err := g.leased.Take(ctx, charges)
	if full, refused := errors.AsType[*store.RefusedError](err); refused {
		for _, l := range limits {
			if l.Account == full.Account {
				wait := max(time.Second, full.Wait) // the minute may have ended already
				return nil, refusal(gateway.ReasonRateLimit, http.StatusTooManyRequests, "rate_limit_exceeded",
					fmt.Sprintf("the key %s is limited to %d %s", key.ID, l.Cap, l.what), wait)
			}
		}
	}
	if err != nil {
		return nil, storeDown("the key's limits")
	}
	return func(report *middleware.Report) {
		spent := make([]int64, len(limits))
		for i, l := range limits {
			spent[i] = l.used(report.Usage())
		}
		// Charges that cannot be settled now are settled later.
		_ = held.Settle(context.WithoutCancel(ctx), spent...)
	}, nil
}

type limit struct {
	store.Charge
	what string
	used func(sdk.Usage) int64
}

// While it is running, a request counts as the tokens of its body and of a typical answer.
const bytesPerToken, answerTokens = 4, 500

func chargesOf(key *store.Key, length int64) []limit {
	var list []limit
	if n := key.RequestsPerMinute; n > 0 {
		list = append(list, limit{store.Charge{Account: fmt.Sprintf("requests of key %q", key.ID), Amount: 1, Cap: n, Period: time.Minute},
			"requests a minute", func(sdk.Usage) int64 { return 1 }})
	}
	if n := key.TokensPerMinute; n > 0 {
		list = append(list, limit{store.Charge{Account: fmt.Sprintf("tokens of key %q", key.ID), Amount: min(n, max(0, length)/bytesPerToken+answerTokens), Cap: n, Period: time.Minute},
			"tokens a minute", func(u sdk.Usage) int64 {
				return int64(u.InputTokens + u.CachedInputTokens + u.CacheWriteTokens + u.OutputTokens + u.ReasoningTokens)
			}})
	}
	if n := key.Streams; n > 0 {
		list = append(list, limit{store.Charge{Account: fmt.Sprintf("streams of key %q", key.ID), Amount: 1, Cap: n, Returns: true},
			"concurrent requests", func(sdk.Usage) int64 { return 0 }})
	}
	return list
}

func refusal(reason string, status int, code, message string, after time.Duration) *gateway.Refusal {
	return &gateway.Refusal{Reason: reason, Status: status, Code: code, Message: message, RetryAfter: after}
}

func storeDown(what string) *gateway.Refusal {
	return refusal(gateway.ReasonStore, http.StatusServiceUnavailable, "store_unavailable", what+" cannot be looked up now", time.Second)
}

// spend answers GET /v1/spend, or returns a refusal.
func (g *Guard) spend(w http.ResponseWriter, r *http.Request, key *store.Key) *gateway.Refusal {
	if r.Method != http.MethodGet {
		return refusal("", http.StatusMethodNotAllowed, "method_not_allowed", "only GET is allowed on /v1/spend", 0)
	}
	by, f, err := Question(r.URL.Query())
	if err != nil {
		return refusal("", http.StatusBadRequest, "invalid_request_error", err.Error(), 0)
	}
	if !key.Operator {
		f.Key, f.Tenant = key.ID, ""
	}
	rows, err := g.s.Sums(r.Context(), by, f)
	if err != nil {
		return storeDown("the spending")
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": rows}) // an error means that the client has disconnected
	return nil
}

// Question parses a query for sums: by, since, until, tenant, key, policy, model.
func Question(q url.Values) (by []store.Dimension, f store.Filter, err error) {
	known := map[string]bool{"day": true, "tenant": true, "key": true, "policy": true, "model": true}
	for _, name := range strings.FieldsFunc(q.Get("by"), func(r rune) bool { return r == ',' }) {
		if !known[name] {
			return nil, f, fmt.Errorf("by=%s: want day, tenant, key, policy or model", name)
		}
		by = append(by, store.Dimension(name))
	}
	f = store.Filter{Tenant: q.Get("tenant"), Key: q.Get("key"), Policy: q.Get("policy"), Model: q.Get("model")}
	for name, into := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		if text := q.Get(name); text != "" {
			if *into, err = time.Parse(time.DateOnly, text); err != nil {
				return nil, f, fmt.Errorf("%s=%s: want a day such as 2026-11-21", name, text)
			}
		}
	}
	return by, f, nil
}
