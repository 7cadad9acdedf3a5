package store

import "context"

// share is what one charge took from one lease.
type share struct {
	a      *leasedAccount
	l      *lease
	amount int64
}

// Hold is what was set aside for one call.
type Hold struct {
	t       *LeasedAccounts
	charges []Charge
	shares  [][]share // by charge
	direct  []int64   // by charge: what was reserved in the store itself
	id      int64     // of that; 0 when there is none
	slot    int64     // of what returns by itself; 0 when there is none
}

func (h *Hold) releaseSlots(ctx context.Context) {
	if h.slot == 0 {
		return
	}
	h.t.mu.Lock()
	delete(h.t.slots, h.slot)
	h.t.mu.Unlock()
	_ = h.t.settle(ctx, h.slot, nil) // what is not settled expires
}

// settle ends the share: spent was spent, and uncertain may have been.
func (s share) settle(spent, uncertain int64) {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	s.l.held -= s.amount
	s.l.spent += spent
	s.l.uncertain += uncertain
}

// Settle books what was spent, by the index of the charge, in place of what was held.
// It is called once, and does not stop when ctx ends. What the store cannot be told now
// it is told later; until then the worst case stands.
func (h *Hold) Settle(ctx context.Context, spent ...int64) error {
	return h.settleUncertain(ctx, 0, spent...)
}

// settleUncertain is Settle where up to unknown more of each charge may have been spent. That
// stays reserved and is never settled, in the leases as far as it was held of them; if it cannot
// be reserved, it counts as spent.
func (h *Hold) settleUncertain(ctx context.Context, unknown int64, spent ...int64) error {
	h.releaseSlots(ctx)
	var leased []int64 // of what is unknown, by charge
	if unknown > 0 {
		leased = make([]int64, len(h.charges))
		var rest []Charge
		for i := range h.charges {
			for _, s := range h.shares[i] {
				leased[i] += s.amount
			}
			leased[i] = min(unknown, max(0, leased[i]-max(0, spent[i]-h.direct[i])))
			if left := unknown - leased[i]; left > 0 {
				c := h.charges[i]
				c.Amount, c.Cap = left, 0
				rest = append(rest, c)
			}
		}
		if _, err := h.t.reserve(context.WithoutCancel(ctx), rest, h.t.o.TTL); err != nil {
			for i := range spent {
				spent[i] += unknown - leased[i]
			}
			unknown = 0
		}
	}
	direct := map[string]int64{}
	for i := range h.charges {
		c, left := &h.charges[i], int64(0)
		if i < len(spent) {
			left = spent[i]
		}
		over := left - c.Amount
		if a := h.t.find(c.Account); a != nil && over+unknown > 0 {
			covered := a.cover(over)
			left -= covered
			if over+unknown > covered {
				a.endLeases()
				defer a.endLeases() // also those that the store granted before it was told
			}
		}
		shares := h.shares[i]
		if h.id != 0 {
			own := min(left, h.direct[i])
			if len(shares) == 0 {
				own = left
			}
			if own > 0 {
				direct[c.Account] = own
			}
			left -= own
		}
		uncertain := int64(0)
		if leased != nil {
			uncertain = leased[i]
		}
		for k, s := range shares {
			own := min(left, s.amount)
			left -= own
			if k == len(shares)-1 && left > 0 && h.t.spend(ctx, c, left) != nil {
				own += left // the store is told of it when the lease is given back
			}
			part := min(uncertain, max(0, s.amount-own))
			uncertain -= part
			s.settle(own, part)
		}
	}
	if h.id == 0 {
		return nil
	}
	return h.t.settle(ctx, h.id, direct)
}
