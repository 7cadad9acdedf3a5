package view

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Local protects pages that are served on the user's own machine. The returned path carries a token that opens a
// session for the first browser that requests it, and for none after it. Only requests for this machine's loopback
// names and the given port are answered, since other host names can be made to resolve here (DNS rebinding), and none
// from pages of other origins.
func Local(next http.Handler, port string) (handler http.Handler, path string) {
	g := &guard{next: readOnly(next), port: port, token: rand.Text(), session: rand.Text()}
	return g, "/?token=" + g.token
}

type guard struct {
	next           http.Handler
	port           string
	token, session string

	used atomic.Bool // whether the token has been used
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains([]string{"127.0.0.1:" + g.port, "localhost:" + g.port, "[::1]:" + g.port}, r.Host) {
		refuse(w, http.StatusForbidden, "This page is served at 127.0.0.1 only.")
		return
	}
	if !sameOrigin(r) {
		refuse(w, http.StatusForbidden, "This page refuses requests from other sites.")
		return
	}
	name := "stepfall-view-" + g.port
	if c, err := r.Cookie(name); err == nil && equalSecrets(c.Value, g.session) {
		if r.URL.Query().Has("token") {
			home(w, r)
			return
		}
		g.next.ServeHTTP(w, r)
		return
	}
	if !equalSecrets(r.URL.Query().Get("token"), g.token) || !g.used.CompareAndSwap(false, true) {
		refuse(w, http.StatusForbidden, "The address of this page works once, in one browser. Run stepfall view again for a new one.")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: name, Value: g.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	home(w, r)
}

// home sends the browser to the address without the token. It does so from a page, since browsers do not send a
// SameSite=Strict cookie after a redirect from another program's link.
func home(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	q.Del("token")
	to := "./"
	if len(q) > 0 {
		to += "?" + q.Encode()
	}
	w.Header().Set("Refresh", "0; url="+to)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write([]byte(`<!DOCTYPE html><html lang="en"><link rel="icon" href="data:,"><title>stepfall</title><p>Opening.</p></html>`))
}

// RequireKey requires an operator's key: in a form that sets a session cookie, or as a bearer token.
func RequireKey(next http.Handler, valid func(r *http.Request, key string) bool) http.Handler {
	return &keyGuard{next: readOnly(next), valid: valid, sessions: map[string]bool{}}
}

type keyGuard struct {
	next  http.Handler
	valid func(*http.Request, string) bool

	mu       sync.Mutex
	sessions map[string]bool
}

const keyedCookie = "stepfall-view"

func (k *keyGuard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !sameOrigin(r) {
		refuse(w, http.StatusForbidden, "This page refuses requests from other sites.")
		return
	}
	key, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if isBearer && k.valid(r, key) || k.hasSession(r) {
		k.next.ServeHTTP(w, r)
		return
	}
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, 1<<16)
		if !k.valid(r, r.PostFormValue("key")) {
			login(w, http.StatusForbidden, "Wrong operator's key.")
			return
		}
		session := rand.Text()
		k.mu.Lock()
		if len(k.sessions) >= 1000 {
			clear(k.sessions)
		}
		k.sessions[session] = true
		k.mu.Unlock()
		http.SetCookie(w, &http.Cookie{Name: keyedCookie, Value: session, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
		home(w, r)
		return
	}
	login(w, http.StatusUnauthorized, "")
}

func (k *keyGuard) hasSession(r *http.Request) bool {
	c, err := r.Cookie(keyedCookie)
	k.mu.Lock()
	defer k.mu.Unlock()
	return err == nil && k.sessions[c.Value]
}

func login(w http.ResponseWriter, status int, fault string) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "same-origin")
	w.WriteHeader(status)
	if fault != "" {
		fault = `<p role="alert">` + fault + `</p>`
	}
	_, _ = w.Write([]byte(`<!DOCTYPE html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><link rel="icon" href="data:,"><title>stepfall</title>` +
		`<h1>stepfall</h1>` + fault + `<form method="post"><p><label>Operator's key <input type="password" name="key" autocomplete="current-password" autofocus required></label> <button>Open</button></p></form></html>`))
}

// sameOrigin reports whether a request does not come from another site's page, by Origin and Sec-Fetch-Site. Links
// that a person follows are allowed.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		if r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Method != http.MethodGet {
			return false
		}
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host == r.Host
}

// readOnly allows GET and HEAD requests only.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			refuse(w, http.StatusMethodNotAllowed, "These pages are read-only.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, why, status)
}

func equalSecrets(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
