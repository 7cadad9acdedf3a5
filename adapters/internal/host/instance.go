package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stepfall/stepfall/sdk/plugin/process"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

type state string

// The states.
const (
	// Stopped: not started yet, or its process exited; the next call starts it.
	Stopped       state = "stopped"
	stateStarting state = "starting"
	Ready         state = "ready"
	// statePaused: it crashed; it is not started before a pause has passed.
	statePaused state = "paused"
	// stateOpen: it crashed too often; it is not started for a longer time.
	stateOpen state = "open"
	// stateRefused: it rejected its config, or its program must not be run.
	stateRefused state = "refused"
	// stateClosed: the host was closed.
	stateClosed state = "closed"
)

type instance struct {
	host     *Host
	name     string
	plugin   string
	role     wire.Role
	config   map[string]any
	settings PluginConfig
	log      hclog.Logger

	mu       sync.Mutex
	state    state
	session  *session
	starting *start
	// crashes are the times of recent crashes and failed starts.
	crashes []time.Time
	pauses  int // starts in a row that were followed by a crash
	until   time.Time
	last    error // the reason why it is down
	stats   Stats
}

// start is one attempt to start, shared by all callers that wait for it.
type start struct {
	begun   time.Time
	done    chan struct{}
	session *session
	err     error
}

func (i *instance) acquire(ctx context.Context) (*session, error) {
	i.mu.Lock()
	if s := i.session; s != nil && i.state == Ready {
		select {
		case <-s.Done():
			// watch might not have recorded it yet.
			i.recordEnd(s)
		default:
			i.mu.Unlock()
			return s, nil
		}
	}
	st := i.starting
	if st == nil {
		if err := i.mayStart(); err != nil {
			i.mu.Unlock()
			return nil, err
		}
		st = &start{begun: time.Now(), done: make(chan struct{})}
		i.starting = st
		i.state = stateStarting
		i.host.wg.Go(func() { i.start(st) })
	}
	i.mu.Unlock()
	select {
	case <-st.done:
		return st.session, st.err
	case <-ctx.Done():
		took := time.Since(st.begun).Round(10 * time.Millisecond)
		return nil, &waitError{Reason: fmt.Sprintf("it was still starting after %v (start_timeout %v)", took, i.settings.StartTimeout), Err: ctx.Err()}
	}
}

// mayStart returns an error if the process must not be started now. i.mu is held.
func (i *instance) mayStart() error {
	switch i.state {
	case stateClosed:
		return errClosed
	case stateRefused: // the program may have been replaced
		if !errors.Is(i.last, ErrChecksum) || time.Now().Before(i.until) {
			return i.last
		}
	case statePaused, stateOpen:
		if time.Now().Before(i.until) {
			return i.unavailable("it is down after crashes", i.until, i.last)
		}
	}
	return nil
}

func (i *instance) unavailable(reason string, until time.Time, err error) *unavailableError {
	// Do not wrap an error of the same type again.
	if u, ok := errors.AsType[*unavailableError](err); ok {
		reason, err = u.Reason, u.Err
	}
	return &unavailableError{Instance: i.name, Plugin: i.plugin, Reason: reason, Until: until, Err: err}
}

// start starts a process. It has its own context, so that a caller that gives up does not cancel the start
// for others.
func (i *instance) start(st *start) {
	defer close(st.done)
	ctx, cancel := context.WithTimeout(i.host.ctx, i.settings.StartTimeout)
	defer cancel()
	s, err := i.newSession(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.starting = nil
	i.stats.Starts++
	if i.state == stateClosed && err == nil {
		s.stop()
		err = errClosed
	}
	if err != nil {
		st.err = i.recordFailedStart(err)
		return
	}
	i.log.Debug("plugin started", "pid", s.PID(), "version", s.info.Version, "took", time.Since(st.begun))
	i.session, st.session = s, s
	i.state = Ready
	i.host.wg.Go(func() { i.watch(s) })
}

// recordFailedStart returns the error for the waiting calls. i.mu is held.
func (i *instance) recordFailedStart(err error) error {
	if i.state == stateClosed || i.host.ctx.Err() != nil {
		return errClosed // the host cancelled the start
	}
	if isPermanent(err) {
		i.last, i.until = err, time.Now().Add(refusedPause)
		i.state = stateRefused
		i.log.Error("plugin cannot be used", "error", err)
		return err
	}
	i.log.Error("plugin did not start", "error", err)
	i.recordCrash(i.unavailable("it did not start", time.Time{}, err))
	return i.last
}

// recordEnd records that a session's process ended without being stopped. i.mu is held.
func (i *instance) recordEnd(s *session) {
	if i.session != s || i.state == stateClosed {
		return
	}
	i.session = nil
	reason := cmp.Or(s.killReason(), "its process ended with "+s.Exit())
	i.log.Error("plugin is down", "reason", reason, "lived", time.Since(s.begun))
	if time.Since(s.begun) >= healthyAfter {
		i.crashes, i.pauses = nil, 0
	}
	i.stats.Crashes++
	i.recordCrash(i.unavailable(reason, time.Time{}, nil))
}

// recordCrash sets the time of the next start. i.mu is held.
func (i *instance) recordCrash(err error) {
	now := time.Now()
	i.last = err
	i.crashes = append(slices.DeleteFunc(i.crashes, func(t time.Time) bool { return now.Sub(t) >= breakerWindow }), now)
	i.pauses++
	if len(i.crashes) >= breakerCrashes {
		i.until = now.Add(breakerPause)
		i.state = stateOpen
		return
	}
	i.until = now.Add(pause(i.pauses))
	i.state = statePaused
}

// pause returns the pause after the nth crash in a row: none after the first, then exponential backoff with
// a quarter of jitter, so that hosts do not restart in step.
func pause(n int) time.Duration {
	if n <= 1 {
		return 0
	}
	d := longestPause
	if n-2 < 16 {
		d = min(firstPause<<(n-2), longestPause)
	}
	return d - time.Duration(rand.Int64N(int64(d)/4+1))
}

func (i *instance) close() {
	i.mu.Lock()
	s := i.session
	i.session = nil
	i.state = stateClosed
	i.mu.Unlock()
	if s != nil {
		s.stop()
	}
}

// session is one configured process of an instance.
type session struct {
	*process.Process
	info   *wire.Info
	begun  time.Time
	slots  chan struct{}   // one per concurrent call; nil means no limit
	dir    string          // removed by stop
	models <-chan struct{} // closed when the last model call has ended
	once   sync.Once

	calls    atomic.Int32 // in flight
	overruns atomic.Int32 // calls in a row that missed the host's deadline
	// unanswered is the total time, in nanoseconds, of abandoned calls since the last answer.
	unanswered atomic.Int64
	checking   atomic.Bool  // killUnhealthy is running
	reason     atomic.Value // why it was killed, a string
}

func (i *instance) newSession(ctx context.Context) (_ *session, err error) {
	h := i.host
	s := &session{begun: time.Now()}
	if s.dir, err = h.ownDir(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = s.explainStart(ctx, i.settings.StartTimeout, err)
			s.stop()
		}
	}()
	scratch := filepath.Join(s.dir, "scratch")
	if err := os.Mkdir(scratch, 0o700); err != nil {
		return nil, err
	}
	h.mu.Lock()
	known := h.infos[i.plugin]
	h.mu.Unlock()
	var redact []string
	if known != nil {
		if schema, ok := known.Schema(i.role); ok {
			redact = schema.Sensitive(i.config)
		}
	}
	if s.Process, err = h.connect(ctx, i.plugin, i.settings, s.dir, redact, i.log); err != nil {
		return nil, err
	}
	client := s.Client()
	if s.info, err = client.Info(ctx, h.cfg.Version); err != nil {
		return nil, err
	}
	h.remember(i.plugin, s.info)
	config, ok := s.info.Schema(i.role)
	if !ok {
		return nil, &configError{Instance: i.name, Plugin: i.plugin, Diagnostics: schema.Errorf(nil, "it is not a %s", i.role)}
	}
	s.Redact(config.Sensitive(i.config))
	if s.info.MaxConcurrency > 0 {
		s.slots = make(chan struct{}, s.info.MaxConcurrency)
	}
	// No caller accounts for what a cost estimator spends.
	if s.info.Has(wire.FeatureModelCalls) && h.cfg.Models != nil && i.role != wire.CostEstimator {
		if s.models, err = client.ServeModels(ctx, wire.ModelCallerFunc(i.callModel), i.settings.Models); err != nil {
			return nil, err
		}
	}
	ds, err := client.Configure(ctx, &wire.ConfigureRequest{Instance: i.name, Role: i.role, Config: i.config, ScratchDir: scratch})
	if err != nil {
		return nil, err
	}
	for _, d := range ds {
		i.log.Warn("config", "diagnostic", d.String())
	}
	if ds.HasErrors() {
		return nil, &configError{Instance: i.name, Plugin: i.plugin, Diagnostics: ds}
	}
	return s, nil
}

// explainStart adds to the error of a start how the process ended, or the timeout.
func (s *session) explainStart(ctx context.Context, limit time.Duration, err error) error {
	switch {
	case s.Process == nil:
		return err
	case status.Code(err) == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("it was not ready within %v: %w", limit, err)
	case ctx.Err() == nil && s.isLost(err):
		return fmt.Errorf("%s: %w", s.lostReason(), err)
	}
	return err
}

// stop ends the process and removes its directory.
func (s *session) stop() {
	s.once.Do(func() {
		if s.Process != nil {
			s.Stop()
		}
		if s.models != nil {
			<-s.models
		}
		os.RemoveAll(s.dir)
	})
}

func (s *session) kill(reason string) {
	s.reason.Store(reason)
	s.Kill()
}

func (s *session) killReason() string {
	reason, _ := s.reason.Load().(string)
	return reason
}

// watch checks the health of an idle process, and cleans up when the process ends.
func (i *instance) watch(s *session) {
	ticker := time.NewTicker(healthEvery)
	defer ticker.Stop()
	failures := 0
	for {
		select {
		case <-s.Done():
			i.mu.Lock()
			i.recordEnd(s)
			i.mu.Unlock()
			s.stop()
			return
		case <-ticker.C:
			if s.calls.Load() > 0 || i.healthy(s) {
				failures = 0
			} else if failures++; failures == 2 {
				s.kill("it did not answer two health checks and was killed")
			}
		}
	}
}

func (i *instance) healthy(s *session) bool {
	ctx, cancel := context.WithTimeout(i.host.ctx, healthTimeout)
	defer cancel()
	return s.Client().Healthy(ctx) == nil
}
