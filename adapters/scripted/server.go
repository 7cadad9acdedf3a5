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

	"github.com/stepfall/stepfall/adapters/internal/dialect"
)

const maxBody = 16 << 20

// Options configure a server.
type Options struct {
	// Models are the names that the server knows; requests for others are answered with 404. If empty, every
	// name is known.
	Models []string
	// Respond returns the reply to a request. It must be safe for concurrent use. ctx ends when the client
	// disconnects or the server closes.
	Respond func(ctx context.Context, req *Request) Reply
	// Key is the API key that clients must send; empty means any or none.
	Key string
}

// Server is a running model server. Its methods are safe for concurrent use.
type Server struct {
	options Options
	url     string
	http    *http.Server
	closing context.CancelFunc
	done    chan struct{}

	mu    sync.Mutex
	calls map[string]int
}

// Start starts a server on a free port of the loopback interface.
func Start(o Options) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the scripted model server: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{options: o, url: "http://" + listener.Addr().String() + "/v1", closing: cancel, done: make(chan struct{}), calls: map[string]int{}}
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() {
		defer close(s.done)
		// Serve returns when Close is called; its error only reports that.
		_ = s.http.Serve(listener)
	}()
	return s, nil
}

// URL returns the base URL for clients, with the path /v1.
func (s *Server) URL() string { return s.url }

// Calls returns the number of requests for a model so far, including those that were answered with a
// fault.
func (s *Server) Calls(model string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[model]
}

// Close aborts open answers, stops listening and waits until the server has ended. Further calls do
// nothing.
func (s *Server) Close() error {
	s.closing()
	err := s.http.Close()
	<-s.done
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	x := &exchange{w: w, r: r, api: dialect.Chat}
	switch r.Method + " " + r.URL.Path {
	case "GET /v1/models":
		s.models(w)
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
	s.answer(x)
}

func (s *Server) models(w http.ResponseWriter) {
	list := []dialect.Object{}
	for _, name := range s.options.Models {
		list = append(list, dialect.Object{"id": name, "object": "model", "owned_by": "scripted"})
	}
	writeJSON(w, http.StatusOK, dialect.Object{"object": "list", "data": list})
}

func (s *Server) answer(x *exchange) {
	if key := s.options.Key; key != "" && x.r.Header.Get("Authorization") != "Bearer "+key && x.r.Header.Get("X-Api-Key") != key {
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
	if known := s.options.Models; len(known) > 0 && !slices.Contains(known, req.Model) {
		x.refuse(http.StatusNotFound, "model_not_found", fmt.Sprintf("the model %q does not exist", req.Model))
		return
	}
	s.mu.Lock()
	req.Seq = s.calls[req.Model]
	s.calls[req.Model]++
	s.mu.Unlock()
	var reply Reply
	if s.options.Respond != nil {
		reply = s.options.Respond(x.r.Context(), req)
	}
	select {
	case <-x.r.Context().Done():
	case <-time.After(reply.Delay):
		x.send(req, &reply)
	}
}

// writeJSON sends a value. It ignores write errors, which mean that the client has disconnected.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
