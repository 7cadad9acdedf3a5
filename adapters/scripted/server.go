package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stepfall/stepfall/adapters/dialect"
)

// maxBody is the largest request that is read.
const maxBody = 16 << 20

// Options say what a server answers.
type Options struct {
	// Models are the names that the server knows; others are answered 404. Empty
	// means that every name is known.
	Models []string
	// Respond gives the reply to a request. It must be safe for concurrent use.
	// ctx ends when the client has gone or the server closes.
	Respond func(ctx context.Context, req *Request) Reply
	// Key is the API key that clients must send; empty means any or none.
	Key string
}

// Server is a running model server. Its methods are safe for concurrent use.
type Server struct {
	url     string
	http    *http.Server
	closing context.CancelFunc
	done    chan struct{}
	handler *handler
}

// Start starts a server on a free port of the loopback interface.
func Start(o Options) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the scripted model server: %w", err)
	}
	return serve(listener, o), nil
}

func serve(listener net.Listener, o Options) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	h := &handler{options: o, calls: map[string]int{}}
	s := &Server{
		url:     "http://" + listener.Addr().String() + "/v1",
		closing: cancel,
		done:    make(chan struct{}),
		handler: h,
		http: &http.Server{
			Handler:           h,
			ReadHeaderTimeout: 10 * time.Second,
			BaseContext:       func(net.Listener) context.Context { return ctx },
		},
	}
	go func() {
		defer close(s.done)
		// Serve returns when Close is called; its error says only that.
		_ = s.http.Serve(listener)
	}()
	return s
}

// URL returns the base URL for clients, with the path /v1.
func (s *Server) URL() string { return s.url }

// Calls returns the number of chat completions asked of a model so far, those
// that were answered with a fault included.
func (s *Server) Calls(model string) int { return s.handler.count(model) }

// Close ends open answers, stops listening and waits until the server has ended.
// Calls after the first do nothing.
func (s *Server) Close() error {
	s.closing()
	err := s.http.Close()
	<-s.done
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

type handler struct {
	options Options

	mu    sync.Mutex
	calls map[string]int
}

func (h *handler) count(model string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[model]
}

// next counts a call of model and returns the number of those before it.
func (h *handler) next(model string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[model]++
	return h.calls[model] - 1
}

// ServeHTTP answers one request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{w: w, r: r, api: dialect.Chat}
	switch r.Method + " " + r.URL.Path {
	case "GET /v1/models":
		h.models(w)
		return
	case "POST /v1/chat/completions":
	case "POST /v1/messages":
		x.api = dialect.Messages
	case "POST /v1/responses":
		x.api = dialect.Responses
	default:
		x.refuse(http.StatusNotFound, "not_found", "no "+r.Method+" "+r.URL.Path+" here")
		return
	}
	h.answer(x)
}

func (h *handler) models(w http.ResponseWriter) {
	type entry struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		OwnedBy string `json:"owned_by"`
	}
	list := []entry{}
	for _, name := range h.options.Models {
		list = append(list, entry{ID: name, Object: "model", OwnedBy: "scripted"})
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

func (h *handler) answer(x *exchange) {
	if key := h.options.Key; key != "" && x.r.Header.Get("Authorization") != "Bearer "+key && x.r.Header.Get("X-Api-Key") != key {
		x.refuse(http.StatusUnauthorized, "invalid_api_key", "incorrect API key provided")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, maxBody))
	if err != nil {
		x.refuse(http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	root, refused := dialect.Parse(body)
	var in *dialect.Request
	if refused == nil {
		in, refused = x.api.Read(root, x.r.Header)
	}
	if refused != nil {
		writeJSON(x.w, refused.Status, x.api.Error(refused, ""))
		return
	}
	req := newRequest(in, x.r.Header)
	if known := h.options.Models; len(known) > 0 && !slices.Contains(known, req.Model) {
		x.refuse(http.StatusNotFound, "model_not_found", fmt.Sprintf("the model %q does not exist", req.Model))
		return
	}
	req.Seq = h.next(req.Model)
	var reply Reply
	if h.options.Respond != nil {
		reply = h.options.Respond(x.r.Context(), req)
	}
	if wait(x.r.Context(), reply.Delay) {
		x.send(req, &reply)
	}
}

// wait returns false when ctx ended before d had passed.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// writeJSON sends a value. A failure to write means that the client has gone, and there
// is nobody to tell.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
