package view

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
)

// Options say what the pages show.
type Options struct {
	// Traces is where steps are found.
	Traces store.TraceReader
	// Source names where they come from, for the head of the pages.
	Source string
	// LeftOut returns how many records could not be read; nil means none.
	LeftOut func() int
	// Status is what a running router says of itself; nil where there is none.
	Status func(ctx context.Context) (*Status, error)
	// Policy loads the policy in use, changed by sets as those of --set; nil where it is not
	// known. What changes would pay is found by a replay of steps.
	Policy func(sets ...string) (*policies.Policy, error)
	// Sample is how many of the newest steps are read whole for what sums do not tell:
	// savings, reliability, replays. 0 means 1000.
	Sample int
}

// Status is what a running router says of itself.
type Status struct {
	Caps []Cap
	// Circuits names the models that are not asked for a while, because they failed.
	Circuits []string
	// Unsupported are the parameters that servers said they do not support.
	Unsupported []middleware.Unsupported
	Plugins     []PluginStatus
}

// Cap is a limit on spending and what is left of it.
type Cap struct {
	Name string
	// SpentUSD counts what is reserved for calls under way, too.
	SpentUSD, LimitUSD float64
	// Each says that the limit is of each step or run, so that there is no sum of it.
	Each bool
}

// PluginStatus is how a plugin fares.
type PluginStatus struct {
	Name     string
	Running  bool
	Restarts int
	// Error is what keeps it from running.
	Error string
}

//go:embed assets pages
var files embed.FS

// The policy of every page: scripts and styles of this package, requests to this
// server, and no markup made of strings.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

type viewer struct {
	o       Options
	sampler *sampler
	ledger  *ledger
	replay  replayer
	pages   map[string]*template.Template
	export  *exporter // nil on a server
	ways    waysCache
	// searching is how long a page looks for a text, about.
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

// New returns a handler of the pages, at its root; it may be mounted elsewhere by
// http.StripPrefix. It lets everybody in: see [Local] and [RequireKey].
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
	mux.HandleFunc("GET /assets/{name}", asset)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		v.fail(w, fmt.Errorf("no such page: %w", store.ErrNotFound))
	})
	return secure(mux)
}

// page serves a page, made by make from the query.
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

// warm reads the traces for the first page before somebody opens it. On errors, the page itself
// fails.
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

func asset(w http.ResponseWriter, r *http.Request) {
	data, err := fs.ReadFile(files, "assets/"+path.Base(r.PathValue("name")))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(r.PathValue("name"))))
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(data)
}

type frame struct {
	v     *viewer
	Title string
	// At is the page's name, to mark it in the list of pages.
	At   string
	Live bool
}

func (v *viewer) frame(at, title string, live bool) frame {
	return frame{v: v, Title: title, At: at, Live: live && v.export == nil}
}

// Source names where the steps come from.
func (f frame) Source() string { return f.v.o.Source }

// LeftOut is how many records could not be read.
func (f frame) LeftOut() int {
	if f.v.o.LeftOut == nil {
		return 0
	}
	return f.v.o.LeftOut()
}

func (f frame) title() string { return f.Title }

// Policy is the content policy of a page that no server sends; "" with a server. Such
// pages unpack themselves into blobs.
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

// write writes a page or, if it cannot be made, an error.
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

// errBadQuery is wrapped by errors about what was asked.
var errBadQuery = errors.New("the address is not one of this page's")

// live sends a server-sent event when there are new steps.
func (v *viewer) live(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	_ = rc.SetWriteDeadline(time.Time{})
	fmt.Fprint(w, "retry: 2000\n\n")
	_ = rc.Flush()
	var last int64
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	newest, err := v.o.Traces.Steps(r.Context(), store.Filter{Limit: 1})
	if err == nil && len(newest) > 0 {
		last = newest[0].Seq
	}
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
