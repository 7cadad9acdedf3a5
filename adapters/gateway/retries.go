package gateway

import (
	"hash/maphash"
	"net/http"
	"sync"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/lookup"
)

// retries remembers which requests were told to retry later, so that the retry disables the step's own
// retries: a client that repeats its request and a step that repeats its calls would multiply.
type retries struct {
	seed maphash.Seed

	mu    sync.Mutex
	until map[uint64]waitingRequest
}

// waitingRequest is the time at which a request can be retried, and its refusal.
type waitingRequest struct {
	at  time.Time
	why *Refusal
}

const (
	// repeatWithin is how long after the end of its pause a request counts as a retry.
	repeatWithin = time.Minute
	// maxWait limits the time for which a request is refused without a call; a model is not avoided for longer either.
	maxWait = 5 * time.Minute
	// maxWaiting limits the number of remembered requests.
	maxWaiting = 10_000
)

func (s *retries) digest(c *Client, path string, body []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, text := range []string{c.Key, "\x00", c.Tenant, "\x00", path, "\x00"} {
		_, _ = h.WriteString(text)
	}
	_, _ = h.Write(body)
	return h.Sum64()
}

func (s *retries) remember(digest uint64, why *Refusal) {
	if why.RetryAfter <= 0 || why.Final || why.Status != http.StatusTooManyRequests && why.Status != http.StatusServiceUnavailable {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lookup.MakeRoom(&s.until, maxWaiting)
	s.until[digest] = waitingRequest{time.Now().Add(min(why.RetryAfter, maxWait)), why}
}

// find reports whether a request is a retry of one that was told to wait. If it comes too early, find returns the
// refusal.
func (s *retries) find(digest uint64) (again bool, early *Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, known := s.until[digest]
	if !known {
		return false, nil
	}
	rest := time.Until(w.at)
	switch {
	case rest > 0 && w.why.Status == http.StatusTooManyRequests:
		own := *w.why
		own.RetryAfter = rest
		return true, &own
	case rest > 0:
		return true, nil
	}
	delete(s.until, digest)
	return rest > -repeatWithin, nil
}

// isRetry reports whether a request is marked as a retry, as the official clients do.
func isRetry(h http.Header) bool {
	n := h.Get("X-Stainless-Retry-Count")
	return n != "" && n != "0"
}
