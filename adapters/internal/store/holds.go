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
	all := make([]int64, len(h.charges)) // without an amount, nothing of a charge was spent
	copy(all, spent)
	leased := make([]int64, len(h.charges)) // part of unknown that the leases hold, by charge
	if unknown > 0 {
		unknown = h.reserveUnknown(ctx, unknown, all, leased)
	}
	direct := map[string]int64{}
	for i := range h.charges {
		c, left := &h.charges[i], all[i]
		over := left - c.Amount
		if a := h.t.find(c.Account); a != nil && over+unknown > 0 {
			covered := a.cover(over)
			left -= covered
			if over+unknown > covered {
				a.endLeases()
				defer a.endLeases() // also those that the store granted before it knew of the overrun
			}
		}
		if h.id != 0 {
			own := min(left, h.direct[i])
			if len(h.shares[i]) == 0 {
				own = left
			}
			if own > 0 {
				direct[c.Account] = own
			}
			left -= own
		}
		h.settleShares(ctx, i, left, leased[i])
	}
	if h.id == 0 {
		return nil
	}
	return h.t.settle(ctx, h.id, direct)
}

// reserveUnknown sets leased to the part of unknown that the leases hold, by charge, and reserves the rest in the
// store. If it cannot, it adds unknown to spent and returns 0; otherwise it returns unknown.
func (h *Hold) reserveUnknown(ctx context.Context, unknown int64, spent, leased []int64) int64 {
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
	if _, err := h.t.reserve(context.WithoutCancel(ctx), rest, h.t.o.TTL); err == nil {
		return unknown
	}
	for i := range spent {
		spent[i] += unknown - leased[i]
	}
	return 0
}

// settleShares divides what was spent of a charge, and may have been, among its shares.
func (h *Hold) settleShares(ctx context.Context, i int, spent, uncertain int64) {
	for k, s := range h.shares[i] {
		own := min(spent, s.amount)
		spent -= own
		if k == len(h.shares[i])-1 && spent > 0 && h.t.spend(ctx, &h.charges[i], spent) != nil {
			own += spent // booked in the store when the lease is returned
		}
		part := min(uncertain, max(0, s.amount-own))
		uncertain -= part
		s.settle(own, part)
	}
}
