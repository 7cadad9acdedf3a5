package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
)

// Client is the sender of a request, with its permissions.
type Client struct {
	// Tenant is the tenant to whose budget the client's steps are charged.
	Tenant string
	// Key names the key that was sent, for logs and metrics. It is never the key itself.
	Key string
	// Models are the names that the client can request, which can include Options.Name; nil means all.
	Models []string
	// MaxRequests limits the client's concurrent requests; 0 means Options.MaxRequests.
	MaxRequests int
}

// Keys returns an Authenticate function for a fixed set of keys, each with its tenant.
func Keys(tenants map[string]string) (func(context.Context, string) (Client, error), error) {
	// Keys are looked up by digest, so that the time of a lookup reveals nothing about them.
	clients := make(map[[sha256.Size]byte]Client, len(tenants))
	for key, tenant := range tenants {
		if key == "" {
			return nil, fmt.Errorf("the key of tenant %q is empty", tenant)
		}
		clients[sha256.Sum256([]byte(key))] = Client{Tenant: tenant, Key: tenant}
	}
	return func(_ context.Context, key string) (Client, error) {
		c, ok := clients[sha256.Sum256([]byte(key))]
		if !ok {
			return Client{}, ErrUnknownKey
		}
		return c, nil
	}, nil
}

// ErrUnknownKey is the error of Authenticate for an unknown key.
var ErrUnknownKey error = refuse(reasonUnknownKey, http.StatusUnauthorized, "invalid_api_key", "the API key is unknown to this gateway, or has expired")

// reasons are the reasons of refusals that only have a status.
var reasons = map[int]string{http.StatusUnauthorized: reasonUnknownKey, http.StatusForbidden: reasonForbidden, http.StatusTooManyRequests: ReasonRateLimit}

// refuse returns a refusal for one of the gateway's own reasons.
func refuse(reason string, status int, code, format string, args ...any) *Refusal {
	r := dialect.Refuse(status, code, format, args...)
	r.Reason = reason
	return r
}

// KeyOf returns the key of a request: a bearer token, or the key in a header or parameter that clients of
// other providers use.
func KeyOf(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(token)
	}
	return cmp.Or(r.Header.Get("X-Api-Key"), r.Header.Get("Api-Key"), r.Header.Get("X-Goog-Api-Key"), r.URL.Query().Get("key"))
}

// maxNameBytes limits the length of client-supplied names of runs, sessions and the like, because they are stored.
const maxNameBytes = 512

// admit authenticates the client, and counts the request as one of its concurrent requests.
func (g *Gateway) admit(x *exchange) *Refusal {
	own := &x.info
	for _, header := range [...]struct {
		name string
		to   *string
	}{{HeaderRun, &own.Run}, {HeaderSession, &own.Session}, {HeaderTenant, &own.Tenant}, {HeaderGroup, &own.Group}, {HeaderQuery, &own.QueryID}} {
		values := x.r.Header[header.name]
		if len(values) == 0 {
			continue
		}
		if *header.to = values[0]; len(values[0]) > maxNameBytes {
			return dialect.Invalid(header.name, "the header %s has %d bytes: want at most %d", header.name, len(values[0]), maxNameBytes)
		}
		if !utf8.ValidString(values[0]) {
			return dialect.Invalid(header.name, "the header %s is not UTF-8", header.name)
		}
	}
	if g.o.Authenticate == nil {
		x.Client.Tenant = own.Tenant
	} else {
		client, err := g.o.Authenticate(x.r.Context(), KeyOf(x.r))
		if err != nil {
			if refused, ok := errors.AsType[*Refusal](err); ok {
				own := *refused
				own.Reason = cmp.Or(own.Reason, reasons[own.Status])
				return &own
			}
			g.o.Logger.Error("looking up a key failed", "request", g.clean(x.ID), "error", g.clean(err.Error()))
			return dialect.Refuse(http.StatusInternalServerError, "server_error", "the gateway failed to look up the key")
		}
		x.Client = client
	}
	limit := cmp.Or(max(x.Client.MaxRequests, 0), g.o.MaxRequests)
	if limit <= 0 {
		return nil
	}
	release, ok := g.underway.enter(x.Client.Key+"\x00"+x.Client.Tenant, limit)
	if !ok {
		refused := refuse(ReasonRateLimit, http.StatusTooManyRequests, "rate_limit_exceeded", "%d requests of this client are in flight already, which is its limit", limit)
		refused.RetryAfter = time.Second
		return refused
	}
	x.release = release
	return nil
}

type requestCounter struct {
	mu     sync.Mutex
	counts map[string]int
}

func (u *requestCounter) enter(who string, limit int) (release func(), ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.counts[who] >= limit {
		return nil, false
	}
	u.counts[who]++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.counts[who]--; u.counts[who] == 0 {
			delete(u.counts, who)
		}
	}, true
}

// mayAsk protects a gateway without keys from web pages: it rejects other origins, and host names that are not the
// gateway's but resolve to the loopback (DNS rebinding).
func (g *Gateway) mayAsk(r *http.Request) *Refusal {
	if g.o.Authenticate != nil {
		return nil
	}
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && isLoopback(addr.String()) && !g.knownHost(r.Host) {
		return refuse(reasonForbidden, http.StatusForbidden, "forbidden", "this gateway only serves loopback addresses and its own host names, not %q", r.Host)
	}
	if origin := r.Header.Get("Origin"); isForeign(r, origin) && !g.origins.allow(origin) {
		return refuse(reasonForbidden, http.StatusForbidden, "forbidden", "requests from origin %q are not allowed", origin)
	}
	return nil
}

// isForeign reports whether the request comes from a page of another site, as far as the browser reports that.
func isForeign(r *http.Request, origin string) bool {
	if origin != "" {
		u, err := url.Parse(origin)
		return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)
	}
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

func (g *Gateway) knownHost(host string) bool {
	return isLoopback(host) || slices.ContainsFunc(g.o.Hosts, func(known string) bool {
		return known == "*" || strings.EqualFold(known, host) || strings.EqualFold(known, withoutPort(host))
	})
}

func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// isLoopback reports whether a host, with or without a port, is this machine.
func isLoopback(host string) bool {
	name := strings.TrimSuffix(strings.ToLower(withoutPort(host)), ".")
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}

// origins are the origins whose pages can send requests; "*" allows all.
type origins []string

func newOrigins(list []string) (o origins, err error) {
	for _, origin := range list {
		if origin == "*" {
			o = append(o, origin)
			continue
		}
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || strings.TrimSuffix(u.Path, "/") != "" || u.RawQuery != "" {
			return o, fmt.Errorf("invalid origin %q: want scheme and host, as https://app.example", origin)
		}
		o = append(o, strings.ToLower(u.Scheme+"://"+u.Host))
	}
	return o, nil
}

func (o origins) allow(origin string) bool {
	return slices.Contains(o, "*") || slices.Contains(o, strings.ToLower(origin))
}

// exposedHeaders are the response headers that a page can read.
var exposedHeaders = strings.Join([]string{headerRequestID, "Request-Id", HeaderModel, HeaderModels, headerNotSent, HeaderTraceID, HeaderCostUSD, "Retry-After", "Retry-After-Ms"}, ", ")

// serve sets the CORS headers. It answers a preflight request, and then returns true.
func (o origins) serve(w http.ResponseWriter, r *http.Request) (done bool) {
	origin := r.Header.Get("Origin")
	if origin == "" || len(o) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	if !o.allow(origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", exposedHeaders)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	if headers := r.Header.Get("Access-Control-Request-Headers"); headers != "" {
		h.Set("Access-Control-Allow-Headers", headers)
	}
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
