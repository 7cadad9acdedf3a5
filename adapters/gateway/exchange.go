package gateway

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// Exchange is one request and its result, for logs and metrics.
type Exchange struct {
	ID     string
	Method string
	Path   string
	Client Client
	// Model is the requested model; Stream reports whether the client requested a stream.
	Model  string
	Stream bool
	// Status is the HTTP status of the response. An error in a stream that had already begun is only in
	// Refused.
	Status  int
	Refused *Refusal
	Start   time.Time
	// FirstByte is the time to the first byte, Duration the total time.
	FirstByte, Duration time.Duration
	// Steps are the traces of the request's steps; empty if no model was called.
	Steps []*sdk.Trace
}

type exchange struct {
	Exchange
	g       *Gateway
	w       http.ResponseWriter
	r       *http.Request
	conn    *http.ResponseController
	api     dialect.API
	info    middleware.Info // origin of the request
	release func()
	digest  uint64 // digest of a step's request, to recognize its retries; 0 for none
	// noDeadline is set if the server does not support write deadlines.
	noDeadline    bool
	deadlineSetAt time.Time // time of the last write deadline
	unread        bool      // a part of the request's body may still arrive
	// answerID is the base of the ids in the answer. It is never the client's request id, because two requests
	// with the same id have different answers.
	answerID string
}

func (g *Gateway) begin(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{
		Exchange: Exchange{ID: requestID(r), Method: r.Method, Path: r.URL.Path, Start: time.Now()}, answerID: rand.Text(),
		g: g, w: w, r: r, conn: http.NewResponseController(w), unread: r.ContentLength != 0,
	}
	if x.ID == "" {
		x.ID = "req_" + x.answerID
	}
	h := w.Header()
	h[headerRequestID] = []string{x.ID}
	h["Request-Id"] = h[headerRequestID] // Anthropic's name for it
	return x
}

// requestID returns the client's own request id, or "" if it sent no valid one.
func requestID(r *http.Request) string {
	id := r.Header.Get(headerRequestID) //nolint:canonicalheader // the form that Go keeps it in
	if id == "" || len(id) > 128 || strings.IndexFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) >= 0 {
		return ""
	}
	return id
}

// end releases the request's slot, and logs and observes the request.
func (x *exchange) end() {
	if x.release != nil {
		x.release()
	}
	x.Duration = time.Since(x.Start)
	x.log()
	if x.g.o.Observe != nil {
		x.g.o.Observe(&x.Exchange)
	}
}

func (x *exchange) log() {
	log := x.g.o.Logger
	failed := x.Refused != nil
	if !log.IsDebug() && (!failed || !log.IsWarn()) {
		return
	}
	var why Refusal
	if failed {
		why = *x.Refused
	}
	var omitted int
	if why.Reason != "" {
		var ok bool
		if omitted, ok = x.g.refusals.admit(cmp.Or(x.Client.Key, KeyOf(x.r), withoutPort(x.r.RemoteAddr))); !ok {
			return
		}
	}
	args := []any{"request", x.ID, "path", x.Path, "status", x.Status, "took", x.Duration}
	add := func(is bool, more ...any) {
		if is {
			args = append(args, more...)
		}
	}
	add(x.Model != "", "model", x.Model, "stream", x.Stream)
	add(x.Client.Tenant != "", "tenant", x.Client.Tenant)
	for _, t := range x.Steps {
		args = append(args, "trace", t.ID, "cost_usd", t.CostUSD)
	}
	add(why.Reason != "", "reason", why.Reason, "key", x.Client.Key, "from", withoutPort(x.r.RemoteAddr))
	add(omitted > 0, "left_out", omitted)
	add(failed, "code", why.Code, "error", why.Message)
	for i, arg := range args { // paths, ids and model names come from the client
		if text, ok := arg.(string); ok {
			args[i] = x.g.clean(text)
		}
	}
	if failed {
		log.Warn("a request failed", args...)
		return
	}
	log.Debug("a request was answered", args...)
}

// body reads the request's body.
func (x *exchange) body() ([]byte, *Refusal) {
	var buf bytes.Buffer
	buf.Grow(int(min(max(x.r.ContentLength, 0), 64<<10)) + bytes.MinRead)
	if _, err := buf.ReadFrom(http.MaxBytesReader(x.w, x.r.Body, x.g.o.MaxBody)); err != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			return nil, dialect.Refuse(http.StatusRequestEntityTooLarge, "request_too_large", "the request is larger than %d bytes", x.g.o.MaxBody)
		}
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			return nil, dialect.Refuse(http.StatusRequestTimeout, "request_timeout", "the request did not arrive within %v", x.g.o.Patience)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, dialect.Invalid("", "the request ended before its body did")
		}
		return nil, dialect.Invalid("", "the body could not be read: %v", err)
	}
	_ = x.conn.SetReadDeadline(time.Time{})
	x.unread = false
	return buf.Bytes(), nil
}

// parse reads and parses the request's body.
func (x *exchange) parse() (body []byte, root gjson.Result, refused *Refusal) {
	if body, refused = x.body(); refused == nil {
		root, refused = dialect.Parse(body)
	}
	return body, root, refused
}

// setWriteDeadline sets a deadline for the next write, if the server supports that. Writes in quick succession share
// a deadline.
func (x *exchange) setWriteDeadline() {
	if now := time.Now(); !x.noDeadline && now.Sub(x.deadlineSetAt) > x.g.o.Patience/16 {
		x.deadlineSetAt, x.noDeadline = now, x.conn.SetWriteDeadline(now.Add(x.g.o.Patience)) != nil
	}
}

func (x *exchange) head(status int) {
	if x.unread {
		x.w.Header().Set("Connection", "close") // otherwise the server would wait for the rest
	}
	x.setWriteDeadline()
	x.Status, x.FirstByte = status, time.Since(x.Start)
	x.w.WriteHeader(status)
}

// send writes encoded JSON. It ignores write errors, which mean that the client has disconnected.
func (x *exchange) send(status int, data []byte) {
	h := x.w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(data))}
	x.head(status)
	_, _ = x.w.Write(data)
}

func (x *exchange) json(status int, v any) {
	data, isWritten := v.(json.RawMessage)
	var err error
	if !isWritten {
		data, err = json.Marshal(v)
	}
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":{"message":"the answer cannot be encoded as JSON","type":"server_error","code":"server_error","param":null}}`)
	}
	x.send(status, append(data, '\n'))
}

func (x *exchange) refuse(why *Refusal) {
	why = x.withoutSecrets(why)
	x.Refused = why
	if x.digest != 0 {
		x.g.retries.remember(x.digest, why)
	}
	why.SetHeader(x.w.Header())
	x.json(why.Status, x.api.Error(why, x.ID))
}

func (x *exchange) withoutSecrets(why *Refusal) *Refusal {
	own := *why
	own.Message, own.Param = x.g.clean(why.Message), x.g.clean(why.Param)
	return &own
}

// describe sets the headers about the step, which are trailers if the header has been sent.
func (x *exchange) describe() {
	if len(x.Steps) == 0 {
		return
	}
	h := x.w.Header()
	t := x.Steps[len(x.Steps)-1]
	asked := ""
	for i := range t.Calls {
		switch model := t.Calls[i].Model; {
		case i == 0:
			asked = model
		case model != t.Calls[i-1].Model:
			asked += ", " + model
		}
	}
	values := []string{t.ID, dollars(t.CostUSD), t.Chosen, asked, x.notSentOf(t)}
	for i, name := range []string{HeaderTraceID, HeaderCostUSD, HeaderModel, HeaderModels, headerNotSent} {
		if values[i] != "" {
			h[name] = values[i : i+1 : i+1]
		}
	}
}

// notSentOf names the parts of the request that were not sent to the chosen model, in terms of the client's API.
func (x *exchange) notSentOf(t *sdk.Trace) string {
	for i := range slices.Backward(t.Calls) {
		if c := &t.Calls[i]; c.Model == t.Chosen && c.Error == "" {
			return dialect.SpellNotSent(x.api.Dialect(), c.NotSent)
		}
	}
	return ""
}

var trailers = []string{strings.Join([]string{HeaderTraceID, HeaderCostUSD, HeaderModel, HeaderModels, headerNotSent}, ", ")}

// dollars formats an amount to 12 decimals, without an exponent.
func dollars(usd float64) string {
	return strconv.FormatFloat(math.Round(usd*1e12)/1e12, 'f', -1, 64)
}
