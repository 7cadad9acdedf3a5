package view

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
)

// Options configures the pages.
type Options struct {
	Traces store.TraceReader
	// Source names the origin of the traces, for the head of the pages.
	Source string
	// LeftOut returns how many records could not be read; nil means none.
	LeftOut func() int
	// Status returns the state of a running router; nil where there is none.
	Status func(ctx context.Context) (*Status, error)
	// Policy loads the current policy, changed by sets as by --set; nil where it is not known. The pages replay steps
	// to find changes that would pay.
	Policy func(sets ...string) (*policies.Policy, error)
	// Sample is how many of the newest steps are read whole for what sums cannot show: savings, reliability, replays.
	// 0 means 1000.
	Sample int
}

// Status is the state of a running router.
type Status struct {
	Caps []Cap
	// Circuits names the models with an open circuit.
	Circuits []string
	// Unsupported lists the parameters that servers rejected as unsupported.
	Unsupported []middleware.Unsupported
	Plugins     []PluginStatus
}

// Cap is a limit on spending and how much of it is used.
type Cap struct {
	Name string
	// SpentUSD includes reservations of calls in flight.
	SpentUSD, LimitUSD float64
	// Each reports that the limit applies to each step or run, so that there is no total.
	Each bool
}

// PluginStatus is the state of a plugin.
type PluginStatus struct {
	Name     string
	Running  bool
	Restarts int
	// Error is why it is not running.
	Error string
}

//go:embed assets pages
var files embed.FS

// contentPolicy is the content security policy of every page: scripts and styles of this package, requests to this
// server, and no markup made from strings.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

type viewer struct {
	o       Options
	sampler *sampler
	ledger  *ledger
	replay  replayer
	pages   map[string]*template.Template
	export  *exporter // nil on a server
	ways    comparisonCache
	// searching is about how long a page searches for a text.
	searching time.Duration
}

func newViewer(o Options) *viewer {
	o.Sample = cmp.Or(o.Sample, 1000)
	v := &viewer{o: o, sampler: &sampler{from: o.Traces}, pages: map[string]*template.Template{}, searching: searching}
	v.ledger = &ledger{from: v.sampler}
	for _, name := range []string{"overview", "steps", "step", "runs", "run", "trust", "compare", "message", "packed"} {
		v.pages[name] = template.Must(template.New(name).Funcs(v.funcs()).ParseFS(files, "pages/layout.html", "pages/parts.html", "pages/"+name+".html"))
	}
	return v
}

// New returns a handler that serves the pages at its root; mount it elsewhere with http.StripPrefix. It does not
// authenticate: see [Local] and [RequireKey].
func New(o Options) http.Handler {
	v := newViewer(o)
	mux := http.NewServeMux()
	go v.warm()
	mux.HandleFunc("GET /{$}", page(v, "overview", v.overview))
	mux.HandleFunc("GET /steps", page(v, "steps", v.steps))
	mux.HandleFunc("GET /step", page(v, "step", v.step))
	mux.HandleFunc("GET /runs", page(v, "runs", v.runs))
	mux.HandleFunc("GET /run", page(v, "run", v.run))
	mux.HandleFunc("GET /trust", page(v, "trust", v.trust))
	mux.HandleFunc("GET /compare", page(v, "compare", v.compare))
	mux.HandleFunc("GET /why.json", v.whyJSON)
	mux.HandleFunc("GET /live", v.live)
	mux.Handle("GET /assets/{name}", http.FileServerFS(files))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		v.fail(w, fmt.Errorf("no such page: %w", store.ErrNotFound))
	})
	return secure(mux)
}

// page serves the page that make makes from the query.
func page[P any](v *viewer, name string, make func(context.Context, url.Values) (*P, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		content, err := make(r.Context(), r.URL.Query())
		if err != nil {
			v.fail(w, err)
			return
		}
		v.write(w, http.StatusOK, name, content)
	}
}

// warm reads the traces for the first page before somebody opens it. Errors are left to the page.
func (v *viewer) warm() {
	_, _ = v.sampler.newest(context.Background(), store.Filter{}, v.o.Sample)
	_ = v.ledger.read(context.Background())
}

func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

type frame struct {
	v     *viewer
	Title string
	// At is the page's name, to mark it among the tabs.
	At   string
	Live bool
}

func (v *viewer) frame(at, title string, live bool) frame {
	return frame{v: v, Title: title, At: at, Live: live && v.export == nil}
}

// Source names the origin of the steps.
func (f frame) Source() string { return f.v.o.Source }

// LeftOut returns how many records could not be read.
func (f frame) LeftOut() int {
	if f.v.o.LeftOut == nil {
		return 0
	}
	return f.v.o.LeftOut()
}

func (f frame) title() string { return f.Title }

// Policy returns the content policy of an exported page, which no server sends; "" with a server. Such pages unpack
// themselves into blobs.
func (f frame) Policy() string {
	if f.v.export == nil {
		return ""
	}
	return strings.NewReplacer("frame-ancestors 'none'; ", "", "connect-src 'self'", "connect-src 'self' blob:").Replace(contentPolicy)
}

func (f frame) Tabs() []tab {
	return []tab{{"overview", "Overview"}, {"steps", "Steps"}, {"runs", "Runs"}, {"trust", "Trust"}, {"compare", "Compare"}}
}

type tab struct{ Name, Title string }

// write renders a page, or an error if that fails.
func (v *viewer) write(w http.ResponseWriter, status int, name string, content any) {
	var b bytes.Buffer
	if err := v.pages[name].ExecuteTemplate(&b, "layout", content); err != nil {
		http.Error(w, "making the page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

type messagePage struct {
	frame
	Text string
}

func (v *viewer) fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, store.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, errBadQuery):
		status = http.StatusBadRequest
	}
	v.write(w, status, "message", messagePage{v.frame("", http.StatusText(status), false), err.Error()})
}

// errBadQuery is wrapped by errors about a page's query.
var errBadQuery = errors.New("invalid address")

// live sends a server-sent event when there are new steps.
func (v *viewer) live(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	_ = rc.SetWriteDeadline(time.Time{})
	fmt.Fprint(w, "retry: 2000\n\n")
	_ = rc.Flush()
	last, err := v.o.Traces.LastSeq(r.Context())
	if err != nil {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for beat := 0; ; beat++ {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
		came, err := v.o.Traces.Follow(r.Context(), last, store.Filter{Limit: 1000})
		if err != nil {
			return
		}
		switch {
		case len(came) > 0:
			last = came[len(came)-1].Seq
			fmt.Fprintf(w, "event: steps\ndata: %d\n\n", len(came))
		case beat%15 == 0:
			fmt.Fprint(w, ": nothing new\n\n")
		default:
			continue
		}
		if rc.Flush() != nil {
			return
		}
	}
}
