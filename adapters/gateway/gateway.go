package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
)

// Options configure a gateway.
type Options struct {
	// Model answers requests: a *router.Router, a *middleware.Model or any other model. It is required.
	Model llms.Model
	// Name is the model name with which clients let Model choose; empty means "stepfall".
	Name string
	// Models returns the names of models that clients can pin a request to; nil means none. It is called for
	// each request, because the policy can be swapped.
	Models func() []string
	// AnyModel treats unknown names like Name, for programs whose model cannot be changed. Otherwise they
	// are answered with 404.
	AnyModel bool

	// Authenticate identifies the client that sent a key, which is empty if none was sent; see [Keys]. An error
	// that is a *[Refusal] is sent to the client; any other error is logged, and the client gets a 500. Nil
	// admits everyone who can reach the gateway.
	Authenticate func(ctx context.Context, key string) (Client, error)
	// Origins are the web origins, such as "https://app.example", whose pages can send requests from a browser;
	// "*" allows all.
	Origins []string
	// Hosts are additional host names that a gateway without Authenticate accepts on a loopback address.
	// The names of the loopback itself are always accepted, and "*" accepts all. This protects against
	// pages whose host name was pointed at the loopback (DNS rebinding).
	Hosts []string

	// MaxBody is the largest request in bytes; 0 means 32 MiB.
	MaxBody int64
	// MaxRequests limits the concurrent requests of one client; 0 means no limit. Client.MaxRequests takes
	// precedence.
	MaxRequests int
	// Patience is the time limit for a client to send its request, or to read one piece of an answer; 0
	// means 30 seconds.
	Patience time.Duration
	// KeepAlive is the interval of comments on a stream that has no text yet; 0 means 10 seconds.
	KeepAlive time.Duration

	// Notes shares answers between replicas, by Idempotency-Key; nil keeps them in this process.
	Notes Notes

	// Ready returns an error if requests should be sent elsewhere now; GET /readyz then answers 503.
	Ready func(ctx context.Context) error
	// Secrets returns texts that must not reach clients or logs. It is called for each failure. Texts that
	// look like credentials are removed in any case.
	Secrets func() []string
	// Observe, when not nil, is called after each request was answered. For a response of RoundTrip, it has been
	// called when Close of the body returns.
	Observe func(*Exchange)
	// Logger gets a message for each request: a warning if it failed, otherwise a debug message. Requests
	// that the gateway itself rejects ([Refusal].Reason) are logged at most once a second for each key, with the
	// number of messages left out. Nil discards all.
	Logger hclog.Logger
}

// Request headers that identify the origin of a step.
const (
	HeaderRun     = "X-Stepfall-Run"
	HeaderSession = "X-Stepfall-Session"
	HeaderTenant  = "X-Stepfall-Tenant"
	HeaderGroup   = "X-Stepfall-Group"
	HeaderQuery   = "X-Stepfall-Query"
)

// Response headers. On a stream, those that are known only at its end are trailers.
const (
	HeaderModel     = "X-Stepfall-Model"    // the model that answered
	HeaderModels    = "X-Stepfall-Models"   // the models that were called, in order
	headerNotSent   = "X-Stepfall-Not-Sent" // parts of the request that were not sent to the model that answered
	HeaderTraceID   = "X-Stepfall-Trace-Id"
	HeaderCostUSD   = "X-Stepfall-Cost-Usd"
	headerRequestID = "X-Request-Id" // the client's own, if it sent one
)

// Gateway answers requests of several APIs with one model. It is safe for concurrent use.
type Gateway struct {
	o        Options
	origins  origins
	underway requestCounter
	retries  retries
	items    *memoryNotes // items of answers of Responses
	refusals refusalLog
	started  time.Time
	draining atomic.Bool // requests should be sent elsewhere
	secrets  atomic.Pointer[knownSecrets]
}

var (
	_ http.Handler      = (*Gateway)(nil)
	_ http.RoundTripper = (*Gateway)(nil)
)

// New returns a gateway.
func New(o Options) (*Gateway, error) {
	if o.Model == nil {
		return nil, errors.New("making the gateway: no model")
	}
	o.Name = cmp.Or(o.Name, "stepfall")
	if o.Models == nil {
		o.Models = func() []string { return nil }
	}
	if slices.Contains(o.Models(), o.Name) {
		return nil, fmt.Errorf("making the gateway: the name %q for the policy's choice is also the name of a model", o.Name)
	}
	o.MaxBody = cmp.Or(o.MaxBody, 32<<20)
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	o.KeepAlive = cmp.Or(o.KeepAlive, 10*time.Second)
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	if o.Notes == nil {
		o.Notes = newMemoryNotes()
	}
	allowed, err := newOrigins(o.Origins)
	if err != nil {
		return nil, fmt.Errorf("making the gateway: %w", err)
	}
	return &Gateway{
		o: o, origins: allowed, started: time.Now(), underway: requestCounter{counts: map[string]int{}}, items: newMemoryNotes(),
		retries:  retries{seed: maphash.MakeSeed()},
		refusals: refusalLog{seed: maphash.MakeSeed(), lines: map[uint64]loggedRefusal{}},
	}, nil
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := g.begin(w, r)
	defer x.end()
	// Limits the time for reading the body, whatever happens to the request. The deadline is removed once
	// the body has been read, because the server would take its expiry for a closed connection.
	_ = x.conn.SetReadDeadline(time.Now().Add(g.o.Patience))
	if refused := g.serve(x); refused != nil {
		x.refuse(refused)
	}
}

// Refuse answers a request that a handler in front of the gateway rejected: in the form of the request's
// API, logged and observed like the gateway's own refusals.
func (g *Gateway) Refuse(w http.ResponseWriter, r *http.Request, client Client, why *Refusal) {
	x := g.begin(w, r)
	defer x.end()
	x.Client = client
	g.findRoute(x)
	x.refuse(why)
}

// findRoute returns the route of the request's path, and sets the API of the answer.
func (g *Gateway) findRoute(x *exchange) (route, bool) {
	path := x.r.URL.Path
	found, ok := routes[path]
	if id, isModel := modelPath(path); isModel {
		found, ok = route{method: http.MethodGet, answer: func(g *Gateway, x *exchange) *Refusal { return g.model(x, id) }}, true
	}
	x.api = found.api
	if x.api == nil {
		x.api = dialect.Chat
		if x.r.Header.Get("Anthropic-Version") != "" {
			x.api = dialect.Messages
		}
	}
	return found, ok
}

func (g *Gateway) serve(x *exchange) *Refusal {
	route, ok := g.findRoute(x)
	if headerBytes(x.r) > maxHeader {
		return dialect.Refuse(http.StatusRequestHeaderFieldsTooLarge, "request_header_fields_too_large", "the header is larger than %d bytes", maxHeader)
	}
	if route.probe != nil {
		route.probe(g, x)
		return nil
	}
	if refused := g.mayAsk(x.r); refused != nil {
		return refused
	}
	if done := g.origins.serve(x.w, x.r); done {
		return nil
	}
	if !ok {
		return dialect.Refuse(http.StatusNotFound, "not_found", "no %s here: set the base URL to this gateway's with /v1, for POST /v1/chat/completions, /v1/responses, /v1/messages, /v1/embeddings and GET /v1/models", x.r.URL.Path)
	}
	if x.r.Method != route.method && (x.r.Method != http.MethodHead || route.method != http.MethodGet) {
		x.w.Header().Set("Allow", route.method)
		return dialect.Refuse(http.StatusMethodNotAllowed, "method_not_allowed", "%s requires %s", x.r.URL.Path, route.method)
	}
	if how := x.r.Header.Get("Content-Encoding"); how != "" && how != "identity" {
		return dialect.Refuse(http.StatusUnsupportedMediaType, "unsupported_content_encoding", "Content-Encoding %s is not supported: send the body uncompressed", how)
	}
	if refused := g.admit(x); refused != nil {
		return refused
	}
	return g.serveOnce(x, func(x *exchange) *Refusal { return route.answer(g, x) })
}

// maxHeader is the maximum size of a request's header in bytes. The server accepts a few times as much, so
// that a client which exceeds it gets an error in the form of its API.
const maxHeader = 64 << 10

func headerBytes(r *http.Request) int {
	n := len(r.RequestURI)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return n
}

type route struct {
	method string
	api    dialect.API
	answer func(*Gateway, *exchange) *Refusal
	probe  func(*Gateway, *exchange) // for monitoring: without key and API
}

var routes = map[string]route{
	"/v1/chat/completions":       {http.MethodPost, dialect.Chat, (*Gateway).step, nil},
	"/v1/responses":              {http.MethodPost, dialect.Responses, (*Gateway).step, nil},
	"/v1/messages":               {http.MethodPost, dialect.Messages, (*Gateway).step, nil},
	"/v1/messages/count_tokens":  {http.MethodPost, dialect.Messages, (*Gateway).countTokens, nil},
	"/v1/responses/input_tokens": {http.MethodPost, dialect.Responses, (*Gateway).countTokens, nil},
	"/v1/embeddings":             {http.MethodPost, dialect.Chat, (*Gateway).embeddings, nil},
	"/v1/verdicts":               {http.MethodPost, dialect.Chat, (*Gateway).reportVerdict, nil},
	"/v1/models":                 {http.MethodGet, nil, (*Gateway).models, nil},
	"/livez":                     {probe: (*Gateway).alive},
	"/healthz":                   {probe: (*Gateway).alive},
	"/readyz":                    {probe: (*Gateway).ready},
}

func (g *Gateway) alive(x *exchange) {
	x.json(http.StatusOK, map[string]string{"status": "ok"})
}

func (g *Gateway) ready(x *exchange) {
	var err error
	if g.draining.Load() {
		err = errShutdown
	} else if g.o.Ready != nil {
		err = g.o.Ready(x.r.Context())
	}
	if err != nil {
		x.json(http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": g.clean(err.Error())})
		return
	}
	x.json(http.StatusOK, map[string]string{"status": "ready"})
}
