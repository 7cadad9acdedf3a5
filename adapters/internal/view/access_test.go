package view

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestLocalOpensOnceForThisMachine(t *testing.T) {
	secret := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("secret")) })
	handler, path := Local(secret, "4242")
	ask := func(method, target, host string, set func(*http.Request)) *http.Response {
		r := httptest.NewRequest(method, target, nil)
		r.Host = host
		if set != nil {
			set(r)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if strings.Contains(w.Body.String(), "secret") != (w.Code == http.StatusOK && !strings.Contains(target, "token")) {
			t.Errorf("%s %s as %s: %d %s", method, target, host, w.Code, w.Body)
		}
		return w.Result()
	}
	const here = "127.0.0.1:4242"
	for name, r := range map[string]*http.Response{
		"no token":        ask("GET", "/", here, nil),
		"a wrong token":   ask("GET", "/?token=AAAA", here, nil),
		"another name":    ask("GET", path, "evil.example:4242", nil),
		"another port":    ask("GET", path, "127.0.0.1:4243", nil),
		"no port":         ask("GET", path, "127.0.0.1", nil),
		"another origin":  ask("GET", path, here, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }),
		"the null origin": ask("GET", path, here, func(r *http.Request) { r.Header.Set("Origin", "null") }),
		"another site's script": ask("GET", path, here, func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "no-cors")
		}),
	} {
		if r.StatusCode != http.StatusForbidden || len(r.Cookies()) > 0 {
			t.Errorf("%s: %d, %d cookies", name, r.StatusCode, len(r.Cookies()))
		}
	}
	first := ask("GET", path+"&page=x", here, nil)
	if len(first.Cookies()) != 1 || first.StatusCode != http.StatusOK || !strings.HasSuffix(first.Header.Get("Refresh"), "./?page=x") {
		t.Fatalf("the address does not open the page: %d %v", first.StatusCode, first.Header)
	}
	cookie := first.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode {
		t.Errorf("the cookie is %+v", cookie)
	}
	with := func(r *http.Request) { r.AddCookie(cookie) }
	if r := ask("GET", "/", here, with); r.StatusCode != http.StatusOK {
		t.Errorf("with the cookie: %d", r.StatusCode)
	}
	if r := ask("GET", "/", "evil.example:4242", with); r.StatusCode != http.StatusForbidden {
		t.Errorf("with the cookie and another name: %d", r.StatusCode)
	}
	if r := ask("POST", "/", here, with); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", r.StatusCode)
	}
	if r := ask("GET", path, here, nil); r.StatusCode != http.StatusForbidden {
		t.Errorf("the address a second time: %d", r.StatusCode)
	}
}

func TestKeyedAsksForTheOperatorsKey(t *testing.T) {
	secret := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("secret")) })
	handler := RequireKey(secret, func(_ *http.Request, key string) bool { return key == "operator" })
	ask := func(r *http.Request) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	login := func(key, origin string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(url.Values{"key": {key}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin)
		return ask(r)
	}
	if w := ask(httptest.NewRequest(http.MethodGet, "/", nil)); w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("without a key: %d %s", w.Code, w.Body)
	}
	if w := login("tenant", "http://example.com"); w.Code != http.StatusForbidden || len(w.Result().Cookies()) > 0 {
		t.Errorf("a wrong key: %d", w.Code)
	}
	if w := login("operator", "http://evil.example"); w.Code != http.StatusForbidden || len(w.Result().Cookies()) > 0 {
		t.Errorf("from another page: %d", w.Code)
	}
	w := login("operator", "http://example.com")
	if len(w.Result().Cookies()) != 1 {
		t.Fatalf("the right key: %d", w.Code)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.AddCookie(w.Result().Cookies()[0])
	if w := ask(r); w.Body.String() != "secret" {
		t.Errorf("with the cookie: %d", w.Code)
	}
	r = httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer operator")
	if w := ask(r); w.Body.String() != "secret" {
		t.Errorf("with the key as a bearer: %d", w.Code)
	}
}
