package middleware

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk/step"
)

type target struct {
	deployments []*deployment
	timeout     time.Duration
	// sample is the number of earlier candidates that are samples of the same model, and temperature is the
	// minimum temperature of a further sample.
	sample      int
	temperature float64
	// effort is the reasoning effort to request, with override even if the caller states one. isLaterArm
	// marks arms of a model other than its first.
	effort               string
	override, isLaterArm bool
}

type deployment struct {
	Deployment
	llm  llms.Model
	kind kind
	// shortIDs requires call ids in the form that Mistral accepts. Clients of kindNative convert ids themselves.
	shortIDs bool
	breaker  *breaker
	// pausedUntil is the end of a pause that the server requested, in Unix nanoseconds; 0 for none.
	pausedUntil atomic.Int64
	// succeeded is when a call last succeeded, in Unix nanoseconds.
	succeeded atomic.Int64
}

func newTarget(c Candidate, b BreakerConfig, circuits Circuits) (target, error) {
	list := c.Deployments
	if len(list) == 0 {
		list = []Deployment{{LLM: c.LLM}}
	} else if c.LLM != nil {
		return target{}, errors.New("has both an LLM and deployments")
	}
	t := target{timeout: c.Timeout}
	for i, d := range list {
		if d.LLM == nil {
			if len(list) == 1 {
				return t, errors.New("has no LLM")
			}
			return t, fmt.Errorf("deployment %d (%s) has no LLM", i, d.Name)
		}
		kind := kindOf(d.LLM, c.Model.Provider)
		t.deployments = append(t.deployments, &deployment{
			Deployment: d, llm: d.LLM, kind: kind, shortIDs: kind != kindNative && mistralName.MatchString(cmp.Or(c.Model.Served, c.Model.Name)),
			breaker: newBreaker(b, circuits, strings.Join([]string{c.Model.Name, c.Model.Provider, c.Model.Served, d.Name}, "/")),
		})
	}
	return t, nil
}

// pick returns the deployment for the attempt, counted from 1, among those whose circuit is closed,
// or nil, and whether another one follows in this round. Paused deployments come last.
func (t *target) pick(attempt int) (d *deployment, more bool) {
	n, now := len(t.deployments), time.Now()
	for at := (attempt - 1) % n; at < n; at++ {
		if d = t.deployments[at]; !d.notBefore().After(now) && d.breaker.permits() {
			return d, slices.ContainsFunc(t.deployments[at+1:], func(next *deployment) bool {
				return !next.notBefore().After(now) && !next.breaker.isOpen()
			})
		}
	}
	return t.pickAny(now), false
}

// pickAny returns a deployment whose circuit is closed, or nil. Paused deployments come last.
func (t *target) pickAny(now time.Time) *deployment {
	for _, paused := range []bool{false, true} {
		for _, d := range t.deployments {
			if d.notBefore().After(now) == paused && d.breaker.permits() {
				return d
			}
		}
	}
	return nil
}

// notBefore returns the end of the pause that the server requested, or the zero time.
func (d *deployment) notBefore() time.Time {
	if at := d.pausedUntil.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

const maxPause = 5 * time.Minute

// record records the outcome of a call that began then; nil means success. That a call took too long says nothing about
// the server's health if others have succeeded meanwhile.
func (d *deployment) record(begun time.Time, failed *step.CallError) {
	switch {
	case failed == nil:
		d.succeeded.Store(time.Now().UnixNano())
		d.breaker.record(nil)
	case hasCode(failed, llms.ErrCodeTimeout) && d.succeeded.Load() > begun.UnixNano() && !d.breaker.isHalfOpen():
	default:
		d.breaker.record(failed)
	}
	switch {
	case failed != nil && failed.After > 0:
		d.pausedUntil.Store(time.Now().Add(min(failed.After, maxPause)).UnixNano())
	case failed == nil && d.pausedUntil.Load() != 0:
		d.pausedUntil.Store(0)
	}
}

// notBefore returns when one of the deployments can be called again; the zero time means now.
func (t *target) notBefore() time.Time {
	var first time.Time
	for _, d := range t.deployments {
		if d.breaker.isOpen() {
			continue
		}
		at := d.notBefore()
		if at.IsZero() {
			return at
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

func (t *target) exclude() string {
	if slices.ContainsFunc(t.deployments, func(d *deployment) bool { return !d.breaker.isOpen() }) {
		return ""
	}
	return ReasonCircuitOpen
}

type breaker struct {
	circuit circuitbreaker.CircuitBreaker[any] // nil if it is disabled
	name    string                             // of the circuit in peers
	peers   Circuits                           // can be nil
}

func newBreaker(c BreakerConfig, peers Circuits, name string) *breaker {
	if c.Failures < 0 {
		return &breaker{}
	}
	c.Failures = cmp.Or(c.Failures, 5)
	c.Delay = cmp.Or(c.Delay, 30*time.Second)
	return &breaker{name: name, peers: peers, circuit: circuitbreaker.NewBuilder[any]().
		WithFailureThreshold(uint(c.Failures)).WithSuccessThreshold(1).WithDelay(c.Delay).Build()}
}

func (b *breaker) isOpenElsewhere() bool {
	if b.peers == nil {
		return false
	}
	until := b.peers.Until(b.name)
	return !until.IsZero() && time.Now().Before(until)
}

func (b *breaker) isOpen() bool {
	return b.circuit != nil && b.circuit.IsOpen() && b.circuit.RemainingDelay() > 0 || b.isOpenElsewhere()
}

func (b *breaker) isHalfOpen() bool { return b.circuit != nil && b.circuit.IsHalfOpen() }

func (b *breaker) permits() bool {
	return !b.isOpenElsewhere() && (b.circuit == nil || b.circuit.TryAcquirePermit())
}

// record records the outcome of a call; nil means success. Errors that are no evidence about the server's
// health (a bad request, a rate limit, a canceled call) count as neither success nor failure, except that
// a rate limit closes a half-open circuit: a server that limits its callers is up again.
func (b *breaker) record(failed *step.CallError) {
	switch {
	case b.circuit == nil:
	case failed == nil:
		b.circuit.RecordSuccess()
	case hasCode(failed, llms.ErrCodeRateLimit):
		if b.circuit.IsHalfOpen() {
			b.circuit.RecordSuccess()
		}
	case failed.Retry:
		b.circuit.RecordFailure()
		if b.peers != nil && b.circuit.IsOpen() && !isDial(failed) {
			b.peers.Opened(b.name, time.Now().Add(b.circuit.RemainingDelay()))
		}
	case b.circuit.IsHalfOpen():
		// The probe's permit must be returned.
		b.circuit.RecordFailure()
	}
}

func hasCode(failed *step.CallError, code llms.ErrorCode) bool {
	typed, ok := errors.AsType[*llms.Error](failed.Err)
	return ok && typed.Code == code
}

// isDial reports whether no connection was made. The reason may be this machine (no file descriptors, no resolver, no
// route), which must not stop others.
func isDial(failed *step.CallError) bool {
	lost, ok := errors.AsType[*net.OpError](failed.Err)
	return ok && (lost.Op == "dial" || lost.Op == "proxyconnect")
}
