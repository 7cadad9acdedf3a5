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
	// Model answers requests: a *router.Router, a *middleware.Model or any other. It is required.
	Model llms.Model
	// Name is the model that clients ask for to let Model choose; empty means "stepfall".
	Name string
	// Models returns the names that clients may pin a request to; nil is none. It is called for each
	// request, since a policy may be swapped.
	Models func() []string
	// AnyModel treats unknown names as Name, for programs whose model cannot be changed. Without it they
	// are answered with 404.
	AnyModel bool

	// Authenticate identifies the sender of a key, which is empty if none was sent; see [Keys]. An error
	// that is a *[Refusal] is sent to the client; any other is logged, and the client gets a 500. Nil
	// admits everybody who can reach the gateway.
	Authenticate func(ctx context.Context, key string) (Client, error)
	// Origins are those whose pages may send requests from a browser, as "https://app.example"; "*" is all
	// of them.
	Origins []string
	// Hosts are additional host names that a gateway without Authenticate accepts on a loopback address.
	// The names of the loopback itself are always accepted, and "*" accepts all. This protects against
	// pages whose host name was pointed at the loopback (DNS rebinding).
	Hosts []string

	// MaxBody is the largest request in bytes; 0 means 32 MiB.
	MaxBody int64
	// MaxRequests is the limit on concurrent requests of one client; 0 is no limit. A client's own limit
	// comes first.
	MaxRequests int
	// Patience is how long a client may take to send its request, or to read one piece of an answer; 0
	// means 30 seconds.
	Patience time.Duration
	// KeepAlive is how often a stream without text yet sends a comment; 0 means 10 seconds.
	KeepAlive time.Duration

	// Notes is where replicas find each other's answers by Idempotency-Key; nil keeps them in this
	// process.
	Notes Notes

	// Ready returns why requests should go elsewhere now; GET /readyz then answers 503.
	Ready func(ctx context.Context) error
	// Secrets returns texts that no client and no log may see. It is called for each failure. Texts that
	// look like credentials are removed without it.
	Secrets func() []string
	// Observe is called with each request that was answered; it may be nil. When Close of a body that
	// RoundTrip returned is over, it has been called.
	Observe func(*Exchange)
	// Logger gets a message for each request: a warning if it failed, a debug message otherwise. Requests
	// that the gateway itself turns away ([Refusal].Reason) are one line a second for each key, with the
	// number of those left out. Nil discards all.
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

// Headers of answers; those of a stream that are known at its end only are trailers.
const (
	HeaderModel     = "X-Stepfall-Model"    // which answered
	HeaderModels    = "X-Stepfall-Models"   // which were asked, in order
	headerNotSent   = "X-Stepfall-Not-Sent" // what the one that answered was not told of the request
	HeaderTraceID   = "X-Stepfall-Trace-Id"
	HeaderCostUSD   = "X-Stepfall-Cost-Usd"
	headerRequestID = "X-Request-Id" // the client's own, where it sent one
)

// Gateway answers requests of several APIs with one model. It is safe for concurrent use.
type Gateway struct {
	o        Options
	origins  origins
	underway requestCounter
	retries  retries
	items    *memoryNotes // of answers of Responses
	refusals refusalLog
	started  time.Time
	draining atomic.Bool // requests should go elsewhere
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
		return nil, fmt.Errorf("making the gateway: %q is a model's name and cannot stand for the policy's choice as well", o.Name)
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
		retries:  retries{seed: maphash.MakeSeed(), until: map[uint64]waitingRequest{}},
		refusals: refusalLog{seed: maphash.MakeSeed(), lines: map[uint64]loggedRefusal{}},
	}, nil
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := g.begin(w, r)
	defer x.end()
	// Whatever becomes of the request, its body may not take for ever. The deadline
	// goes when the body has been read: the server would take its end for the client's.
	_ = x.conn.SetReadDeadline(time.Now().Add(g.o.Patience))
	if refused := g.serve(x); refused != nil {
		x.refuse(refused)
	}
}

// Refuse answers a request that something in front of the gateway turned away: in the form of the
// request's API, logged and observed like the gateway's own refusals.
func (g *Gateway) Refuse(w http.ResponseWriter, r *http.Request, client Client, why *Refusal) {
	x := g.begin(w, r)
	defer x.end()
	x.Client = client
	g.findRoute(x)
	x.refuse(why)
}

// findRoute returns the route of the request's path, and sets the dialect of the answer.
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
		return dialect.Refuse(http.StatusMethodNotAllowed, "method_not_allowed", "%s is asked with %s", x.r.URL.Path, route.method)
	}
	if how := x.r.Header.Get("Content-Encoding"); how != "" && how != "identity" {
		return dialect.Refuse(http.StatusUnsupportedMediaType, "unsupported_content_encoding", "the body is packed (Content-Encoding: %s): send it as it is", how)
	}
	if refused := g.admit(x); refused != nil {
		return refused
	}
	return g.once(x, func(x *exchange) *Refusal { return route.answer(g, x) })
}

// maxHeader is the largest header of a request in bytes. The server reads a few times as
// much, so that a client which sends too much is told so in its dialect.
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
	probe  func(*Gateway, *exchange) // asked by whoever watches the server: no key, no dialect
}

// routes are by path; those of single models are beside them.
var routes = map[string]route{
	"/v1/chat/completions":      {http.MethodPost, dialect.Chat, (*Gateway).step, nil},
	"/v1/responses":             {http.MethodPost, dialect.Responses, (*Gateway).step, nil},
	"/v1/messages":              {http.MethodPost, dialect.Messages, (*Gateway).step, nil},
	"/v1/messages/count_tokens": {http.MethodPost, dialect.Messages, (*Gateway).countTokens, nil},
	"/v1/embeddings":            {http.MethodPost, dialect.Chat, (*Gateway).embeddings, nil},
	"/v1/verdicts":              {http.MethodPost, dialect.Chat, (*Gateway).reportVerdict, nil},
	"/v1/models":                {http.MethodGet, nil, (*Gateway).models, nil},
	"/livez":                    {probe: (*Gateway).alive},
	"/healthz":                  {probe: (*Gateway).alive},
	"/readyz":                   {probe: (*Gateway).ready},
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
