package keys

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/internal/store"
)

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
