package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

func (i *instance) verify(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	out, err := askPlugin(ctx, i, i.settings.VerifyTimeout, false, req, (*wire.Client).Verify)
	if err != nil {
		return nil, err
	}
	i.overrideClaims(out)
	return out, nil
}

func (i *instance) estimateQuality(ctx context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
	return askPlugin(ctx, i, i.settings.CallTimeout, true, req, (*wire.Client).EstimateQuality)
}

func (i *instance) estimateCost(ctx context.Context, req *sdk.CostRequest) (*sdk.CostResponse, error) {
	return askPlugin(ctx, i, i.settings.CallTimeout, true, req, (*wire.Client).EstimateCost)
}

// askPlugin calls a method of the plugin's client. It acquires a process and a free slot, sets the deadline, updates the
// statistics, and retries an idempotent call once if the process was lost, unless money was spent.
func askPlugin[Q, A any](ctx context.Context, i *instance, timeout time.Duration, idempotent bool, req Q, method func(*wire.Client, context.Context, Q) (A, error)) (out A, err error) {
	callCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	do := func(ctx context.Context, s *session) (err error) {
		out, err = method(s.Client(), ctx, req)
		return err
	}
	err = i.tryCall(ctx, callCtx, timeout, do)
	retried := idempotent && isConnectionLost(err) && callCtx.Err() == nil && sdk.SpentUSD(err) == 0
	if retried {
		err = i.tryCall(ctx, callCtx, timeout, do)
	}
	i.count(retried, err)
	return out, err
}

func isConnectionLost(err error) bool {
	u, ok := errors.AsType[*unavailableError](err)
	return ok && u.Until.IsZero() && hasNoConnection(u.Err)
}

func (i *instance) tryCall(ctx, callCtx context.Context, timeout time.Duration, do func(context.Context, *session) error) error {
	s, err := i.acquire(callCtx)
	if err != nil {
		return i.explain(ctx, callCtx, timeout, nil, err)
	}
	if s.slots != nil {
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		case <-callCtx.Done():
			return i.explain(ctx, callCtx, timeout, nil, &waitError{Reason: fmt.Sprintf("all of its %d calls at once (max_concurrency) were busy", cap(s.slots)), Err: callCtx.Err()})
		}
	}
	s.calls.Add(1)
	from := time.Now()
	err = do(callCtx, s)
	s.calls.Add(-1)
	err = i.explain(ctx, callCtx, timeout, s, err)
	if err != nil && ctx.Err() != nil {
		i.countAbandoned(s, time.Since(from), timeout)
	}
	return err
}

// clockSlack is how much earlier than the caller's the deadline can expire on the plugin's side, which
// measures it with its own clock.
const clockSlack = 50 * time.Millisecond

// explain converts the error of one attempt. ctx is the caller's, without the host's deadline, which callCtx
// has after the timeout; s is nil if no session was called.
func (i *instance) explain(ctx, callCtx context.Context, timeout time.Duration, s *session, err error) error {
	if err == nil {
		if s != nil {
			s.recordAnswer()
		}
		return nil
	}
	code := status.Code(err)
	if errors.Is(err, context.DeadlineExceeded) {
		code = codes.DeadlineExceeded
	}
	if due, ok := ctx.Deadline(); ok && code == codes.DeadlineExceeded && time.Until(due) < clockSlack {
		<-ctx.Done()
	}
	wait, _ := errors.AsType[*waitError](err)
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		if wait != nil {
			cause = &waitError{Reason: wait.Reason, Err: cause}
		}
		ended := fmt.Errorf("plugin %s (%s): %w", i.plugin, i.name, cause)
		if usd := sdk.SpentUSD(err); usd > 0 {
			return &sdk.SpentError{Err: ended, CostUSD: usd}
		}
		return ended
	}
	var unavailable *unavailableError
	if errors.As(err, &unavailable) || isPermanent(err) || errors.Is(err, errClosed) {
		return err
	}
	due, _ := callCtx.Deadline()
	switch {
	case code == codes.DeadlineExceeded && time.Until(due) < clockSlack:
		reason := fmt.Sprintf("it did not answer within %s (%s)", timeout, i.timeoutName())
		if wait != nil {
			reason, err = wait.Reason, wait.Err
		}
		if s != nil {
			i.countOverrun(s)
		}
		return &unavailableError{Instance: i.name, Plugin: i.plugin, Reason: reason, Err: err}
	case s != nil && s.isLost(err):
		return &unavailableError{Instance: i.name, Plugin: i.plugin, Reason: s.lostReason(), Err: err}
	}
	if s != nil {
		s.recordAnswer()
	}
	message := err.Error()
	var malformed *wire.MalformedError
	if st, ok := status.FromError(err); ok && !errors.As(err, &malformed) {
		message = cmp.Or(st.Message(), st.Code().String())
	}
	return &callError{Instance: i.name, Plugin: i.plugin, Message: message, Err: err}
}

// timeoutName names the arguments that set the timeout of a call.
func (i *instance) timeoutName() string {
	if i.role == wire.Verifier {
		return "timeout of its verifier, or its call_timeout"
	}
	return "its call_timeout"
}

// isLost reports whether err, of a call whose caller has not given up, means that the connection was lost.
// A plugin can return the same status codes, because of its own backend for instance, and stay alive.
func (s *session) isLost(err error) bool {
	if !hasNoConnection(err) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	return s.Conn().GetState() != connectivity.Ready || hasNoConnection(s.Client().Healthy(ctx))
}

// hasNoConnection reports whether a call's error may be that the connection broke, or was closed
// because the process had ended.
func hasNoConnection(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.Canceled
}

// lostReason returns how the process of a lost connection ended. It waits for that briefly and then kills
// the process, which cannot be reached any more.
func (s *session) lostReason() string {
	timer := time.NewTimer(200 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-s.Done():
	case <-timer.C:
		s.kill("its connection was lost")
		<-s.Done()
	}
	if reason := s.killReason(); reason != "" {
		return reason
	}
	return "its process ended with " + s.Exit()
}

func (s *session) hasEnded() bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

func (s *session) recordAnswer() {
	s.overruns.Store(0)
	s.unanswered.Store(0)
}

// countOverrun counts a call that missed the host's deadline, and kills a process that seems to hang.
func (i *instance) countOverrun(s *session) {
	if n := s.overruns.Add(1); n >= maxOverruns {
		s.kill(fmt.Sprintf("it missed %d deadlines in a row and was killed", n))
		return
	}
	i.killUnhealthy(s)
}

// countAbandoned records a call that its caller gave up before the host's limit. Calls without an answer
// that together took nearly as long as the limit, which can be the caller's too, count as one overrun.
func (i *instance) countAbandoned(s *session, took, limit time.Duration) {
	if s.unanswered.Add(int64(took)) < int64(limit)*9/10 {
		i.killUnhealthy(s)
		return
	}
	s.unanswered.Store(0)
	i.countOverrun(s)
}

// killUnhealthy kills the process if it misses several health checks in a row: the machine may be busy, or
// the program may compute without a pause. Only one such test runs at a time.
func (i *instance) killUnhealthy(s *session) {
	i.host.mu.Lock()
	defer i.host.mu.Unlock()
	if i.host.closed || !s.checking.CompareAndSwap(false, true) {
		return
	}
	i.host.wg.Go(func() {
		defer s.checking.Store(false)
		for range maxMissedChecks {
			if i.healthy(s) || i.host.ctx.Err() != nil || s.hasEnded() {
				return
			}
		}
		s.kill(fmt.Sprintf("it missed a deadline and health checks for %v and was killed", maxMissedChecks*healthTimeout))
	})
}
