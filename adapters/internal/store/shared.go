package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/step"
)

// Shared is an open store with what a process needs to use it: leases on its accounts, and a buffer for its traces.
type Shared struct {
	// Store is Engine under a deadline and a circuit breaker.
	Store
	// Engine is the store that was passed to Share.
	Engine Store
	Leased *LeasedAccounts
	Traces *Buffer
	*peers
}

// Share prepares an open store for use by a process. Traces that cannot be written in time are spooled to the user's
// cache folder, by the store's address, until this or a later process writes them. Write errors go to logger, which
// can be nil. Closing the result closes the store.
func Share(engine Store, address string, logger hclog.Logger) *Shared {
	logger = cmp.Or(logger, hclog.NewNullLogger())
	b := &deadlineStore{Store: engine, logger: logger, closing: make(chan struct{}), probeID: newID(), probing: make(chan struct{}, 1)}
	s := &Shared{Store: b, Engine: engine, Leased: NewLeasedAccounts(b, LeaseOptions{WentBack: sync.OnceFunc(func() {
		logger.Error("the store forgot leases that it had granted, so its caps do not know what was spent lately: was a standby promoted, or a backup restored?")
	})})}
	s.Traces = NewBuffer(b, BufferOptions{Spool: spoolOf(address), Fault: func(err error, dropped int64) {
		what := "traces wait for the store"
		if _, lost := errors.AsType[*LeftOutError](err); lost {
			what = "traces are lost"
		}
		logger.Error(what, "error", err, "dropped", dropped)
	}})
	s.peers = &peers{board: b, logger: logger, out: make(chan func(context.Context) error, 1024), closed: make(chan struct{}), pacers: map[*fit.Pacer]string{}}
	s.running.Go(s.listen)
	s.running.Go(s.sendAll)
	return s
}

// Ledger returns a ledger with these caps.
func (s *Shared) Ledger(caps step.Caps) step.Ledger { return s.Leased.Ledger(caps) }

// Ready returns why the store cannot be used, or nil, within seconds.
func (s *Shared) Ready(ctx context.Context) error { return s.Store.(*deadlineStore).Ready(ctx) }

// Record implements [step.Sink]: it writes a trace in the background.
func (s *Shared) Record(ctx context.Context, t *sdk.Trace) { s.Traces.Record(ctx, t) }

// TenantsOf returns the tenant if it has a step of a run of this name or, if it is "", all tenants that have one, "" among
// them; none where the store does not answer.
func (s *Shared) TenantsOf(ctx context.Context, tenant, run string) (tenants []string) {
	runs, err := runWithin(ctx, s.Store.(*deadlineStore), deadline, func(ctx context.Context) ([]Sum, error) {
		return s.Engine.Runs(ctx, Filter{Tenant: tenant, Run: run})
	})
	for i := range runs {
		if err == nil && runs[i].Steps > 0 {
			tenants = append(tenants, runs[i].Tenant)
		}
	}
	return tenants
}

// spoolOf returns the spool folder of a store in the user's cache folder, or "" without one.
func spoolOf(address string) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	if u, err := url.Parse(address); err == nil && strings.Contains(address, "://") {
		if u.User != nil { // a changed password must not change the folder
			u.User = url.User(u.User.Username())
		}
		address = u.String()
	} else if address, err = filepath.Abs(address); err != nil {
		return ""
	}
	return filepath.Join(cache, "stepfall", "traces", fmt.Sprintf("%x", sha256.Sum256([]byte(address)))[:16])
}

// Close writes pending traces, returns leases, and closes the store.
func (s *Shared) Close() error {
	close(s.closed)
	s.running.Wait()
	return errors.Join(s.Traces.Close(), s.Leased.Close(), s.Store.Close())
}

// peers exchanges open circuits, conversations and pacing with other processes through a store. While the store is
// unavailable, each process uses what it knows itself.
type peers struct {
	board  Notes
	logger hclog.Logger
	// until maps circuits to the times until which they are open, by this machine's clock.
	until   atomic.Pointer[map[string]time.Time]
	out     chan func(context.Context) error
	closed  chan struct{}
	running sync.WaitGroup

	mu     sync.Mutex
	pacers map[*fit.Pacer]string
}

var (
	_ middleware.Circuits      = (*peers)(nil)
	_ middleware.Conversations = (*peers)(nil)
)

const (
	kindCircuit = "circuit"
	kindSession = "session"
	kindPace    = "pacing"
	// listenEvery is how often a process reads the other processes' notes.
	listenEvery = 500 * time.Millisecond
	// loadTimeout bounds how long a step waits for a conversation's note.
	loadTimeout = 250 * time.Millisecond
)

// send runs a write in the background, or drops it when the queue is full.
func (p *peers) send(what func(context.Context) error) {
	select {
	case p.out <- what:
	default:
	}
}

func (p *peers) sendAll() {
	for {
		select {
		case <-p.closed:
			return
		case what := <-p.out:
			if err := what(context.Background()); err != nil {
				p.logger.Debug("notifying other processes", "error", err)
			}
		}
	}
}

func (p *peers) listen() {
	ticker := time.NewTicker(listenEvery)
	defer ticker.Stop()
	for {
		ctx := context.Background() // the store has its own deadline
		if err := errors.Join(p.readCircuits(ctx), p.sharePaces(ctx)); err != nil {
			p.logger.Debug("reading what other processes share", "error", err)
		}
		select {
		case <-p.closed:
			return
		case <-ticker.C:
		}
	}
}

func (p *peers) readCircuits(ctx context.Context) error {
	notes, err := p.board.Notes(ctx, kindCircuit)
	if err != nil {
		return err
	}
	open := make(map[string]time.Time, len(notes))
	for name, left := range notes {
		open[name] = time.Now().Add(left)
	}
	p.until.Store(&open)
	return nil
}

func (p *peers) Opened(name string, until time.Time) {
	p.send(func(ctx context.Context) error {
		note := strconv.AppendInt(nil, until.UnixNano(), 10) // for replicas of the version before, which read it
		return p.board.Post(ctx, kindCircuit, name, note, time.Until(until))
	})
}

func (p *peers) Until(name string) time.Time {
	if open := p.until.Load(); open != nil {
		return (*open)[name]
	}
	return time.Time{}
}

func (p *peers) Load(id string) []byte {
	ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
	defer cancel()
	note, err := p.board.Note(ctx, kindSession, id)
	if err != nil {
		return nil
	}
	return note
}

func (p *peers) Save(id string, note []byte, ttl time.Duration) {
	p.send(func(ctx context.Context) error { return p.board.Post(ctx, kindSession, id, note, ttl) })
}

// Pace shares a pacer with those of the same policy in other processes, until the returned function is called.
func (p *peers) Pace(policy string, pacer *fit.Pacer) func() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pacers[pacer] = policy
	return func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pacers, pacer)
		return nil
	}
}

func (p *peers) sharePaces(ctx context.Context) error {
	p.mu.Lock()
	pacers := maps.Clone(p.pacers)
	p.mu.Unlock()
	var faults []error
	for pacer, policy := range pacers {
		faults = append(faults, pacer.Share(func(delta [5]float64) (sums [5]float64, err error) {
			all, err := p.board.Add(ctx, kindPace, policy, delta[:])
			copy(sums[:], all)
			return sums, err
		}))
	}
	return errors.Join(faults...)
}
