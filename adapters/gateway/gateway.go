package gateway

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// Options configure a gateway.
type Options struct {
	// Model answers: a *router.Router, a *middleware.Model or any other. It is needed.
	Model llms.Model
	// Name is the model that clients ask for to let Model choose; empty means "stepfall".
	Name string
	// Models returns the names that clients may pin a request to; nil is none. It is
	// asked for each request, since a policy may be swapped.
	Models func() []string
	// AnyModel treats names that are not known as Name: for programs whose model
	// cannot be changed. Without it they are answered with 404.
	AnyModel bool
	// Keys are the tenants by the key that a client sends as a bearer token. With
	// none, everybody who can reach the gateway may use it.
	Keys map[string]string
	// MaxBody is the largest request in bytes; 0 means 32 MiB.
	MaxBody int64
	// KeepAlive is how often a stream that has nothing to say yet sends a comment;
	// 0 means 10 seconds.
	KeepAlive time.Duration
	// Logger hears about requests that fail; nil is silence.
	Logger hclog.Logger
}

// Headers of requests that say where a step comes from.
const (
	HeaderRun     = "X-Stepfall-Run"
	HeaderSession = "X-Stepfall-Session"
	HeaderTenant  = "X-Stepfall-Tenant"
	HeaderGroup   = "X-Stepfall-Group"
	HeaderQuery   = "X-Stepfall-Query"
)

// Headers of responses that are not streamed.
const (
	HeaderModel   = "X-Stepfall-Model"
	HeaderTraceID = "X-Stepfall-Trace-Id"
	HeaderCostUSD = "X-Stepfall-Cost-Usd"
)

type gateway struct {
	o Options
	// tenants are by the digest of their key, so that looking one up tells nothing
	// of the others through its time.
	tenants map[[sha256.Size]byte]string
	started int64
}

// New returns the gateway's handler. It is safe for concurrent use.
func New(o Options) (http.Handler, error) {
	if o.Model == nil {
		return nil, errors.New("making the gateway: no model")
	}
	o.Name = cmp.Or(o.Name, "stepfall")
	if o.Models == nil {
		o.Models = func() []string { return nil }
	}
	if slices.Contains(o.Models(), o.Name) {
		return nil, fmt.Errorf("making the gateway: %q is a model's name and cannot stand for the policy's choice as well", o.Name)
	}
	o.MaxBody = cmp.Or(o.MaxBody, 32<<20)
	o.KeepAlive = cmp.Or(o.KeepAlive, 10*time.Second)
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	g := &gateway{o: o, tenants: make(map[[sha256.Size]byte]string, len(o.Keys)), started: time.Now().Unix()}
	for key, tenant := range o.Keys {
		if key == "" {
			return nil, fmt.Errorf("making the gateway: the key of tenant %q is empty", tenant)
		}
		g.tenants[sha256.Sum256([]byte(key))] = tenant
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /v1/models", g.models)
	mux.HandleFunc("POST /v1/chat/completions", g.chat)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, refuse(http.StatusNotFound, "not_found", "no %s %s here; there are POST /v1/chat/completions and GET /v1/models", r.Method, r.URL.Path))
	})
	return mux, nil
}

// tenant returns whose request it is.
func (g *gateway) tenant(r *http.Request) (string, *apiError) {
	if len(g.tenants) == 0 {
		return r.Header.Get(HeaderTenant), nil
	}
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	tenant, ok := g.tenants[sha256.Sum256([]byte(key))]
	if !ok {
		return "", refuse(http.StatusUnauthorized, "invalid_api_key", "this gateway does not know the key that was sent as a bearer token")
	}
	return tenant, nil
}

func (g *gateway) models(w http.ResponseWriter, r *http.Request) {
	if _, refused := g.tenant(r); refused != nil {
		writeError(w, refused)
		return
	}
	type entry struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	var list []entry
	for _, name := range append([]string{g.o.Name}, g.o.Models()...) {
		list = append(list, entry{ID: name, Object: "model", Created: g.started, OwnedBy: "stepfall"})
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

func (g *gateway) chat(w http.ResponseWriter, r *http.Request) {
	tenant, refused := g.tenant(r)
	if refused != nil {
		writeError(w, refused)
		return
	}
	// The deadline must not stay: the server would take its end for the client's.
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(clientPatience))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, g.o.MaxBody))
	_ = conn.SetReadDeadline(time.Time{})
	if err != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			writeError(w, refuse(http.StatusRequestEntityTooLarge, "request_too_large", "the request is larger than %d bytes", g.o.MaxBody))
		}
		// Otherwise the client has gone.
		return
	}
	req, refused := g.read(body)
	if refused != nil {
		writeError(w, refused)
		return
	}
	header := r.Header
	ctx := middleware.WithInfo(r.Context(), middleware.Info{
		QueryID: header.Get(HeaderQuery), Group: header.Get(HeaderGroup), Run: header.Get(HeaderRun), Session: header.Get(HeaderSession),
		Tenant: tenant, Labels: req.labels, Format: req.format,
	})
	if req.stream {
		g.stream(ctx, w, req)
		return
	}
	resp, err := g.o.Model.GenerateContent(ctx, req.messages, req.options...)
	if err != nil {
		g.o.Logger.Warn("a step failed", "error", err)
		writeError(w, failure(err))
		return
	}
	answer := completionOf(req, resp)
	if s := answer.Step; s != nil {
		w.Header().Set(HeaderModel, s.Model)
		w.Header().Set(HeaderTraceID, s.TraceID)
		w.Header().Set(HeaderCostUSD, fmt.Sprintf("%g", s.CostUSD))
	}
	writeJSON(w, http.StatusOK, answer)
}

// clientPatience is how long a client may take to send its request, or to receive
// one piece of an answer: one that stalls holds no connection for ever.
const clientPatience = 30 * time.Second

// hurry bounds the next write to w, where the server can do that.
func hurry(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(clientPatience))
}

// writeJSON sends v. A failure to write means that the client has gone, and there
// is nobody to tell.
func writeJSON(w http.ResponseWriter, status int, v any) {
	hurry(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
