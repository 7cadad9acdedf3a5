package store

import "context"

// share is the part of a charge that was taken from one lease.
type share struct {
	a      *leasedAccount
	l      *lease
	amount int64
}

// Hold is the reservation of one call.
type Hold struct {
	t       *LeasedAccounts
	charges []Charge
	shares  [][]share // by charge
	direct  []int64   // by charge: the amount reserved in the store itself
	id      int64     // of the reservation for direct; 0 without one
	slot    int64     // of the reservation of slots ([Charge.Returns]); 0 without one
}

func (h *Hold) releaseSlots(ctx context.Context) {
	if h.slot == 0 {
		return
	}
	h.t.mu.Lock()
	delete(h.t.slots, h.slot)
	h.t.mu.Unlock()
	_ = h.t.settle(ctx, h.slot, nil) // an unsettled reservation expires
}

// settle ends the share: spent was spent, and uncertain may have been.
func (s share) settle(spent, uncertain int64) {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	s.l.held -= s.amount
	s.l.spent += spent
	s.l.uncertain += uncertain
}

// Settle replaces the reservation by the amounts spent, by index of the charge. It must be called once, and continues
// when ctx ends. A settlement that the store cannot take now is retried in the background; until then the worst case
// stays reserved.
func (h *Hold) Settle(ctx context.Context, spent ...int64) error {
	return h.settleUncertain(ctx, 0, spent...)
}

// settleUncertain is Settle where up to unknown more of each charge may have been spent. That amount stays reserved
// and is never settled, in the leases as far as they held it; if it cannot be reserved, it counts as spent.
func (h *Hold) settleUncertain(ctx context.Context, unknown int64, spent ...int64) error {
	h.releaseSlots(ctx)
	var leased []int64 // part of unknown that the leases hold, by charge
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
				defer a.endLeases() // also those that the store granted before it knew of the overrun
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
				own += left // booked in the store when the lease is returned
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
