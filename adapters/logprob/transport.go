package logprob

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
)

// maxBody bounds what the tap reads of one request or of one answer that is not streamed.
const maxBody = 64 << 20

// Transport is the tap. The zero value is ready and uses [http.DefaultTransport].
// It is safe for concurrent use and must not be copied after first use.
type Transport struct {
	// Base makes the requests; nil means http.DefaultTransport.
	Base http.RoundTripper

	// refused holds the servers and models that refuse log-probabilities.
	refused sync.Map // refusal -> struct{}
}

type refusal struct{ host, model string }

// RoundTrip sends the request, changed as the capture of its context asks, and
// records the answer there. Requests without a capture are passed on untouched.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	capture := from(req.Context())
	if capture == nil {
		return base.RoundTrip(req)
	}
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{WroteRequest: capture.wrote}))
	if req.Body == nil || !strings.HasSuffix(req.URL.Path, "/chat/completions") {
		resp, err := base.RoundTrip(req)
		if err == nil {
			capture.begin(resp, false)
		}
		return resp, err
	}

	body, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	req.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("reading the request to tap: %w", err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("the request to tap is over %d MiB", maxBody>>20)
	}
	patched, model, asked := patch(body, capture.options)
	key := refusal{req.URL.Host, model}
	_, refused := t.refused.Load(key)
	if asked && refused {
		plain := capture.options
		plain.TopLogProbs = 0
		patched, _, _ = patch(body, plain)
	}
	resp, err := base.RoundTrip(withBody(req, patched))
	if err != nil {
		return nil, err
	}
	if asked && !refused && resp.StatusCode == http.StatusBadRequest {
		resp, refused, err = t.retryPlain(base, req, resp, body, capture.options)
		if err != nil {
			return nil, err
		}
		if refused {
			t.refused.Store(key, struct{}{})
		}
	}
	capture.begin(resp, asked && refused)
	return resp, tapBody(resp, capture)
}

// retryPlain repeats a request that the server answered with 400, if the answer
// speaks of log-probabilities, without asking for them.
func (t *Transport) retryPlain(base http.RoundTripper, req *http.Request, resp *http.Response, body []byte, o Options) (*http.Response, bool, error) {
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	resp.Body.Close()
	if err != nil {
		return nil, false, fmt.Errorf("reading the server's refusal: %w", err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(said))
	if !bytes.Contains(bytes.ToLower(said), []byte("logprob")) {
		return resp, false, nil
	}
	o.TopLogProbs = 0
	plain, _, _ := patch(body, o)
	again, err := base.RoundTrip(withBody(req, plain))
	if err != nil {
		return nil, false, err
	}
	return again, true, nil
}

// withBody returns a copy of req with another body, which can be sent again.
func withBody(req *http.Request, body []byte) *http.Request {
	clone := req.Clone(req.Context())
	clone.Body = io.NopCloser(bytes.NewReader(body))
	clone.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	clone.ContentLength = int64(len(body))
	clone.Header.Del("Content-Length")
	return clone
}

// patch returns the request's body changed as the options ask, the model that it
// names, and whether log-probabilities are asked for because of it. A body that
// is not a JSON object is returned as it is.
func patch(body []byte, o Options) (patched []byte, model string, asked bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields == nil {
		return body, "", false
	}
	_ = json.Unmarshal(fields["model"], &model) // a model that is no string is the server's to refuse
	changed := false
	if _, set := fields["logprobs"]; !set && o.TopLogProbs > 0 {
		fields["logprobs"] = json.RawMessage("true")
		fields["top_logprobs"] = json.RawMessage(fmt.Sprint(min(o.TopLogProbs, 20)))
		asked, changed = true, true
	}
	if _, set := fields["top_p"]; !set && o.TopP > 0 {
		fields["top_p"] = json.RawMessage(fmt.Sprint(o.TopP))
		changed = true
	}
	if _, set := fields["temperature"]; set && o.DropTemperature {
		delete(fields, "temperature")
		changed = true
	}
	if !changed {
		return body, model, false
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return body, model, false
	}
	return out, model, asked
}

// tapBody arranges for the answer's body to be recorded as the client reads it.
func tapBody(resp *http.Response, c *Capture) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "text/event-stream" {
		c.mu.Lock()
		c.seen.streamed = true
		c.mu.Unlock()
		resp.Body = &eventReader{body: resp.Body, capture: c}
		return nil
	}
	if resp.StatusCode/100 != 2 {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		resp.Body.Close()
		return fmt.Errorf("reading the answer: %w", err)
	}
	rest := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), rest}
	c.record(body)
	return nil
}
