package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
)

// keyBalance is a key with the account of its cap, nil without a cap, and that of its tenant, nil if no cap of a
// policy has charged it.
type keyBalance struct {
	store.Key
	*capBalance
	TenantAccount *capBalance `json:"tenant_account,omitempty"`
}

type capBalance struct {
	SpentUSD    float64 `json:"spent_usd"`
	ReservedUSD float64 `json:"reserved_usd"`
	// UnsettledUSD is the part of the spend that was reserved by processes that died.
	UnsettledUSD float64 `json:"unsettled_usd"`
	// ReservedUntil is when the first reservation becomes unsettled.
	ReservedUntil time.Time `json:"reserved_until,omitzero"`
}

// accountBalance is the balance of a tenant's account, or of that of a key's cap, in the current period.
type accountBalance struct {
	// Kind is "tenant" or "key".
	Kind string `json:"kind"`
	Name string `json:"name"`
	capBalance

	account string // name in the store
}

func accountBalances(ctx context.Context, shared *store.Shared) ([]accountBalance, error) {
	list := []accountBalance{}
	for _, kind := range []string{"tenant", "key"} {
		found, err := shared.Balances(ctx, kind+" ", 0)
		if err != nil {
			return nil, err
		}
		for _, b := range found {
			name, _ := strconv.Unquote(strings.TrimPrefix(b.Account, kind+" ")) // the format of store.TenantAccount
			own := capBalance{float64(b.Spent) / store.NanoUSD, float64(b.Reserved) / store.NanoUSD, float64(b.Unsettled) / store.NanoUSD, b.Until}
			list = append(list, accountBalance{kind, name, own, b.Account})
		}
	}
	slices.SortFunc(list, func(a, b accountBalance) int { return cmp.Compare(a.account, b.account) })
	return list, nil
}

// keyBalances returns keys with their accounts and those of their tenants.
func keyBalances(accounts []accountBalance, list []store.Key) []keyBalance {
	byName := map[string]*capBalance{}
	for i := range accounts {
		byName[accounts[i].account] = &accounts[i].capBalance
	}
	balances := make([]keyBalance, len(list))
	for i := range list {
		balances[i] = keyBalance{Key: list[i], TenantAccount: byName[store.TenantAccount(list[i].Tenant)]}
		if list[i].CapUSD > 0 { // else there is no account
			balances[i].capBalance = cmp.Or(byName[store.KeyAccount(list[i].ID)], &capBalance{})
		}
	}
	return balances
}

// accounts prints the accounts of a kind, if there are any.
func (p *printer) accounts(kind, heading string, list []accountBalance) {
	list = slices.DeleteFunc(slices.Clone(list), func(b accountBalance) bool { return b.Kind != kind })
	if len(list) == 0 {
		return
	}
	t := p.table(column{name: heading}, column{name: "spent", number: true}, column{name: "reserved", number: true}, column{name: "unsettled", number: true}, column{name: "reserved until"})
	for i := range list {
		b, until := &list[i], ""
		if !b.ReservedUntil.IsZero() {
			until = b.ReservedUntil.Format(time.DateTime)
		}
		t.row(cmp.Or(b.Name, "no tenant"), usd(b.SpentUSD), usd(b.ReservedUSD), usd(b.UnsettledUSD), until)
	}
	t.print()
}

func (p *printer) tenants(list []accountBalance) {
	p.accounts("tenant", "tenant under a policy's cap", list)
}

func (p *printer) keys(list []keyBalance) {
	t := p.table(column{name: "key"}, column{name: "tenant"}, column{name: "state"}, column{name: "cap USD", number: true}, column{name: "spent", number: true}, column{name: "reserved", number: true}, column{name: "unsettled", number: true},
		column{name: "requests/min", number: true}, column{name: "tokens/min", number: true}, column{name: "concurrent", number: true}, column{name: "note"})
	for i := range list {
		k := &list[i]
		spent, reserved, unsettled := "", "", ""
		if k.capBalance != nil {
			spent, reserved, unsettled = usd(k.SpentUSD), usd(k.ReservedUSD), usd(k.UnsettledUSD)
		}
		t.row(k.ID, k.Tenant, stateOf(&k.Key), capOf(&k.Key), spent, reserved, unsettled, limitOf(float64(k.RequestsPerMinute)),
			limitOf(float64(k.TokensPerMinute)), limitOf(float64(k.Streams)), k.Note)
	}
	t.print()
}

func stateOf(k *store.Key) string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked"
	case !k.Valid(time.Now()):
		return "expired"
	case !k.Expires.IsZero():
		return "until " + k.Expires.Format(time.DateTime)
	}
	return "valid"
}

func capOf(k *store.Key) string {
	if k.CapUSD == 0 || k.CapPeriod == 0 {
		return limitOf(k.CapUSD)
	}
	return fmt.Sprintf("%g/%s", k.CapUSD, k.CapPeriod)
}

func limitOf(x float64) string {
	if x == 0 {
		return "none"
	}
	return fmt.Sprintf("%g", x)
}
