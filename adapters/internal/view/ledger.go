package view

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/holdout"
	"github.com/stepfall/stepfall/adapters/internal/lookup"
	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

// ledger reads every trace once, in the order of recording, and keeps a savings account per day, tenant, key and
// policy, so that the pages agree with the savings command.
type ledger struct {
	from *sampler

	mu       sync.Mutex
	last     int64 // sequence number of the newest step read
	accounts map[ledgerKey]*savings.Account
	runs     map[string]ledgerKey // account of each run's last step
}

const maxRuns = 100_000

type ledgerKey struct {
	day                 time.Time
	tenant, key, policy string
}

// patience is how long a page waits for more than fewSteps to be read. It then shows the steps read so far.
const (
	patience = 150 * time.Millisecond
	fewSteps = 20_000
)

// read adds the new steps, until there are no more or ctx ends.
func (l *ledger) read(ctx context.Context) error {
	for {
		n, err := l.readSome(ctx)
		if err != nil || n == 0 {
			return err
		}
	}
}

// readSome adds some of the new steps, and returns how many.
func (l *ledger) readSome(ctx context.Context) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines, traces, err := l.from.follow(ctx, l.last, store.Filter{Limit: 1000})
	if err != nil {
		return 0, err
	}
	if l.accounts == nil {
		l.accounts, l.runs = map[ledgerKey]*savings.Account{}, map[string]ledgerKey{}
	}
	for i := range lines { // in recorded order: a verdict follows the steps of its run
		s := &lines[i]
		l.last = s.Seq
		if t := traces[s.ID]; t != nil {
			k := l.keyOf(t, ledgerKey{s.Start.UTC().Truncate(24 * time.Hour), s.Tenant, s.Key, s.Policy})
			lookup.Entry(&l.accounts, k).Record(ctx, t)
		}
	}
	return len(lines), nil
}

// keyOf returns the key of a trace's account. A verdict on a run belongs to the run's account. l.mu is held.
func (l *ledger) keyOf(t *sdk.Trace, own ledgerKey) ledgerKey {
	if t.Run == "" {
		return own
	}
	run := holdout.Unit(t.Tenant, t.Run, "", "")
	if !sdk.IsStep(t.Mode) {
		if of, known := l.runs[run]; known {
			return of
		}
		return own
	}
	lookup.MakeRoom(&l.runs, maxRuns)
	l.runs[run] = own
	return own
}

// account adds up the steps that the filter selects by whole days, tenant, key and policy. total is the number of
// steps in all.
func (l *ledger) account(ctx context.Context, f *store.Filter, total int64) (*savings.Account, error) {
	if total > fewSteps {
		soon, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := l.read(soon); err != nil && soon.Err() == nil {
			return nil, err
		}
	} else if err := l.read(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := &savings.Account{}
	for k, a := range l.accounts {
		if k.isSelected(f) {
			sum.Add(a)
		}
	}
	return sum, nil
}

func (k *ledgerKey) isSelected(f *store.Filter) bool {
	return cmp.Or(f.Tenant, k.tenant) == k.tenant && cmp.Or(f.Key, k.key) == k.key && cmp.Or(f.Policy, k.policy) == k.policy &&
		k.day.Add(24*time.Hour).After(f.Since) && (f.Until.IsZero() || k.day.Before(f.Until))
}

func accountOf(traces []*sdk.Trace) *savings.Account {
	a := &savings.Account{}
	for _, t := range traces {
		a.Record(context.Background(), t)
	}
	return a
}

// candidates returns the models that the traces could choose from, by expected cost.
func candidates(traces []*sdk.Trace) []string { return accountOf(traces).Candidates() }
