package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stepfall/stepfall/sdk"
)

// purse holds the reservations of one estimate or verification: an amount reserved beforehand, and more
// for each model call that exceeds what is left of it.
type purse struct {
	r *run

	mu       sync.Mutex // model calls come from other goroutines
	held     []Reservation
	reserved float64
	used     float64 // cost of finished model calls and worst case of those in flight
	closed   bool
}

type purseKey struct{}

// openPurse returns a context in which [ReserveCall] reserves under the caps of the step. usd is already
// reserved.
func (r *run) openPurse(ctx context.Context, usd float64) (context.Context, *purse) {
	p := &purse{r: r, reserved: usd}
	return context.WithValue(ctx, purseKey{}, p), p
}

// settlePurse books what was spent, as settle does, and closes p to further model calls. p is nil for a
// plugin that calls no models.
func (r *run) settlePurse(ctx context.Context, p *purse, held Reservation, usd, stands float64) error {
	if p == nil {
		return r.settle(ctx, held, usd, stands)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if held == nil && len(p.held) > 0 {
		held, p.held = p.held[0], p.held[1:]
	}
	err := r.settle(ctx, held, usd, max(stands, p.used))
	for _, more := range p.held {
		err = errors.Join(err, more.Settle(context.WithoutCancel(ctx), 0))
	}
	return err
}

// ReserveCall reserves the worst-case cost of a request to m that an estimator or verifier makes within
// a step, under that step's caps; without caps it reserves nothing. The call must be made with the
// returned limit on its answer, and book called with its result. book sets the answer's cost: if the
// reported usage is missing or impossible, to the reserved amount or, without caps, to an estimate.
func ReserveCall(ctx context.Context, m *sdk.Model, q *Request) (limit int, book func(*sdk.Answer, error), err error) {
	p, isCapped := ctx.Value(purseKey{}).(*purse)
	if isCapped && isUnbounded(m, q.Query.MaxOutputTokens) {
		return 0, nil, fmt.Errorf("asking %s: it %s: %w", m.Name, unboundedReason, sdk.ErrNoFeasibleModel)
	}
	d := q.demandOf(m, m.Price, isCapped)
	if isCapped {
		if err := p.reserve(ctx, d.usd); err != nil {
			return 0, nil, fmt.Errorf("asking %s: %w", m.Name, err)
		}
	}
	return d.limit, func(a *sdk.Answer, err error) {
		if err == nil {
			d.bookAnswer(a, true, isCapped)
		}
		if isCapped {
			p.mu.Lock()
			p.used -= d.usd - d.costOf(a, err)
			p.mu.Unlock()
		}
	}, nil
}

// costOf returns what a call has cost, or its worst case if that is unknown.
func (d *demand) costOf(a *sdk.Answer, err error) float64 {
	if err == nil {
		return a.CostUSD
	}
	if failed, ok := errors.AsType[*CallError](err); ok && !failed.Billed {
		return d.price.CostUSD(failed.Usage)
	}
	return d.usd
}

// FailedCallUSD returns the cost in US dollars of a failed call of candidate i according to its error. If
// the error has none but the provider may bill the call, it returns the price of an answer of the
// expected length.
func (e *Engine) FailedCallUSD(i int, q *sdk.Query, err error) float64 {
	failed, ok := errors.AsType[*CallError](err)
	if !ok {
		return 0
	}
	usage := failed.Usage
	if failed.Billed && usage == (sdk.Usage{}) {
		usage = e.expectedUsage(i, q)
	}
	return cmp.Or(plausibleUSD(failed.CostUSD), e.models[i].Price.CostUSD(usage))
}

func (p *purse) reserve(ctx context.Context, usd float64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("the verification or estimate has ended")
	}
	if more := p.used + usd - p.reserved; more > 0 {
		held, err := p.r.reserveMore(ctx, p.reserved, more)
		if err != nil {
			return err
		}
		p.reserved += more
		if held != nil {
			p.held = append(p.held, held)
		}
	}
	p.used += usd
	return nil
}
