package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/keys"
	"github.com/stepfall/stepfall/adapters/internal/store"
)

// storeVariable is the environment variable that names the store when --store does not.
const storeVariable = "STEPFALL_STORE"

const storeUsage = "shared store: a SQLite file or a postgres:// URL; $" + storeVariable + " when absent"

// sharedStore opens the store that the flag or the environment names, or returns nil without one. Write errors go to
// logger, which can be nil.
func sharedStore(ctx context.Context, flag string, logger hclog.Logger) (*store.Shared, error) {
	address := cmp.Or(flag, os.Getenv(storeVariable))
	if address == "" {
		return nil, nil
	}
	return full.OpenStore(ctx, address, logger)
}

type keyFlags struct {
	store          string
	key            store.Key
	cap, limit     string
	expires, grace time.Duration
	release        bool
	rotate, revoke bool

	by           []string
	only         map[string]string
	since, until string
}

func newKeyCommand(s Streams) *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Who may use a gateway, and what did they spend? Create, change and list keys",
		Long: `Create, change and list the keys of a gateway.

The store keeps only a digest of each key, so its secret is shown once. Changes take
effect in every replica of "stepfall serve --store" within a second.`,
	}
	cmd.PersistentFlags().StringVar(&f.store, "store", "", storeUsage)
	create := &cobra.Command{
		Use: "create [KEY]", Short: "Create a key and print its secret, once", Args: cobra.MaximumNArgs(1), Annotations: hasJSON(),
		Example: `  stepfall key create agents --store fleet.db --tenant blue --cap 20/24h --limit requests=60`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.key.ID = strings.Join(args, "") // generated when empty
			return f.create(cmd.Context(), s)
		},
	}
	create.Flags().StringVar(&f.key.Tenant, "tenant", "", "tenant that the key belongs to")
	create.Flags().BoolVar(&f.key.Operator, "operator", false, "let the key read the spending of all tenants")
	f.limits(create.Flags())
	set := &cobra.Command{
		Use: "set KEY | --release --tenant TENANT", Short: "Change, revoke or rotate a key, or release what killed processes reserved of a cap", Args: cobra.MaximumNArgs(1),
		Annotations: hasJSON(),
		Long: `Change the limits or the note of a key, give it a new secret, or revoke it. All else
stays unchanged.

If a process is killed, what it leased of a key's cap is returned after a minute. The
possible cost of its running calls is not, since the provider may bill them: it stays
"reserved" for 15 minutes and then becomes "unsettled", which counts as spent. If you know
that nothing was billed, --release frees it; a later bill is booked nevertheless. Its
running requests (--limit streams) stop counting after a minute. With --tenant instead of
KEY, --release does the same for the caps that a policy puts on a tenant.`,
		Example: `  stepfall key set agents --cap 50 --limit requests=120
  stepfall key set agents --rotate --grace 24h
  stepfall key set agents --revoke
  stepfall key set --release --tenant blue --store ledger.db`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.set(cmd, s, strings.Join(args, "")) },
	}
	f.limits(set.Flags())
	set.Flags().BoolVar(&f.release, "release", false, "free the unsettled part of the key's cap, as not billed")
	set.Flags().StringVar(&f.key.Tenant, "tenant", "", "with --release and without KEY, the tenant whose account in a policy's caps to free; \"\" is that of no tenant")
	set.Flags().BoolVar(&f.rotate, "rotate", false, "give the key a new secret and print it, once")
	set.Flags().DurationVar(&f.grace, "grace", time.Hour, "with --rotate, how long the old secret stays valid")
	set.Flags().BoolVar(&f.revoke, "revoke", false, "revoke the key")
	ls := &cobra.Command{
		Use: "ls", Short: "List the keys, or spending with --by",
		Long: `List the keys, or spending with --by.

The columns spent, reserved and unsettled are about the cap of a key, and empty for keys
without one ("key ls --by key" lists what every key spent). Reserved is the possible cost
of running calls, and what servers have leased. Unsettled is the part of spent that was
reserved for calls whose process died: it may or may not have been billed, and
"key set KEY --release" frees it. A second table has the same for the tenants that a policy's
caps count, and when the first reservation becomes unsettled unless it is settled before.
"key ls --by account" lists the accounts of tenants and keys alone, also those of a policy's
ledger, which has no keys; "key set --release --tenant TENANT" frees what is unsettled.`, Args: cobra.NoArgs, Annotations: hasJSON(),
		Example: `  stepfall key ls --store fleet.db
  stepfall key ls --store fleet.db --by day,model --only tenant=blue --since 2026-11-01`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.list(cmd, s) },
	}
	ls.Flags().StringSliceVar(&f.by, "by", nil, "list spending, one row per day, tenant, key, policy or model, or per combination, as day,model; account lists what caps have counted")
	ls.Flags().StringToStringVar(&f.only, "only", nil, "with --by, restrict to tenant=NAME, key=NAME, policy=NAME or model=NAME")
	ls.Flags().StringVar(&f.since, "since", "", "with --by, first day, such as 2026-11-21 (UTC)")
	ls.Flags().StringVar(&f.until, "until", "", "with --by, days before this one")
	cmd.AddCommand(create, set, ls)
	return cmd
}

// withExistingStore is withStore for commands that must not create a store: the name may be misspelled.
func (f *keyFlags) withExistingStore(ctx context.Context, do func(*store.Shared) error) error {
	if err := checkStore(cmp.Or(f.store, os.Getenv(storeVariable))); err != nil {
		return err
	}
	return f.withStore(ctx, do)
}

// checkStore returns an error for a file that does not exist, since opening it would create it.
func checkStore(address string) error {
	if address == "" || strings.Contains(address, "://") {
		return nil
	}
	_, err := os.Stat(address)
	return err
}

func (f *keyFlags) withStore(ctx context.Context, do func(*store.Shared) error) error {
	shared, err := sharedStore(ctx, f.store, nil)
	if err == nil && shared == nil {
		return usage("--store is required, or %s", storeVariable)
	}
	if err != nil {
		return err
	}
	return errors.Join(do(shared), shared.Close())
}

func (f *keyFlags) limits(flags *pflag.FlagSet) {
	flags.StringVar(&f.key.Note, "note", "", "what the key is for")
	flags.DurationVar(&f.expires, "expires", 0, "time until the key expires, such as 720h; 0 never")
	flags.StringVar(&f.cap, "cap", "", "most that the key may spend, in US dollars; 20/24h resets every 24 hours, 20/0s never; without a period the key keeps its own; 0 is no cap")
	flags.StringVar(&f.limit, "limit", "", "limits, such as requests=60,tokens=90000,streams=4: requests and tokens per minute, concurrent requests; 0 is no limit")
}

// leastPeriod is the shortest period of a cap: in a shorter one, a call would outlast the period that it is charged
// to.
const leastPeriod = time.Minute

func (f *keyFlags) change(k *store.Key, given func(flag string) bool) error {
	if given("note") {
		k.Note = f.key.Note
	}
	if given("expires") {
		if f.expires < 0 {
			return usage("--expires must not be negative")
		}
		if k.Expires = (time.Time{}); f.expires > 0 {
			k.Expires = time.Now().Add(f.expires).UTC().Truncate(time.Second)
		}
	}
	if given("cap") {
		if err := setCap(k, f.cap); err != nil {
			return err
		}
	}
	if given("limit") {
		return setLimits(k, f.limit)
	}
	return nil
}

// check is change for a new key. It checks its texts, too, before a store is opened or created.
func (f *keyFlags) check(k *store.Key, given func(flag string) bool) error {
	if err := f.change(k, given); err != nil {
		return err
	}
	if err := keys.CheckTexts(k, new(store.Key)); err != nil {
		return usage("%w", err)
	}
	return nil
}

// setCap parses a cap such as 20, which keeps the period, or 20/24h.
func setCap(k *store.Key, text string) error {
	amount, period, hasPeriod := strings.Cut(text, "/")
	if !hasPeriod {
		period = k.CapPeriod.String()
	}
	usd, err := strconv.ParseFloat(amount, 64)
	every, periodErr := time.ParseDuration(period)
	switch {
	case err != nil || periodErr != nil || !(usd >= 0) || math.IsInf(usd, 0) || every < 0:
		return usage("--cap %s: want AMOUNT or AMOUNT/PERIOD in US dollars, such as 20 or 20/24h", text)
	case usd > store.MostUSD:
		return usage("--cap %s: want at most %g US dollars, or 0 for no cap", text, float64(store.MostUSD))
	case every > 0 && every < leastPeriod:
		return usage("--cap %s: want a period of at least %v, such as 20/24h; 20/0s never resets", text, leastPeriod)
	}
	k.CapUSD, k.CapPeriod = usd, every
	return nil
}

// setLimits parses limits such as requests=60,streams=4, and leaves the others unchanged.
func setLimits(k *store.Key, text string) error {
	limits := map[string]*int64{"requests": &k.RequestsPerMinute, "tokens": &k.TokensPerMinute, "streams": &k.Streams}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(pair, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if limits[name] == nil || err != nil || n < 0 {
			return usage("--limit %s: want requests, tokens or streams and a number from 0 up, such as requests=60,streams=4", pair)
		}
		*limits[name] = n
	}
	return nil
}

func (f *keyFlags) create(ctx context.Context, s Streams) error {
	k := &f.key
	if k.Tenant == "" && !k.Operator {
		return usage("--tenant is required: the key's owner")
	}
	given := map[string]bool{"expires": true, "cap": f.cap != "", "limit": f.limit != ""}
	if err := f.check(k, func(flag string) bool { return given[flag] }); err != nil {
		return err
	}
	return f.withStore(ctx, func(shared *store.Shared) error {
		secret, err := keys.Create(ctx, shared, k)
		if err != nil {
			return err
		}
		owner := ""
		if k.Tenant != "" {
			owner = fmt.Sprintf(" of tenant %q", k.Tenant)
		}
		fmt.Fprintf(s.Err, "key %s%s; its secret is shown only once:\n", k.ID, owner)
		return s.renderSecret(k.ID, secret)
	})
}

// set updates, releases, rotates or revokes a key.
func (f *keyFlags) set(cmd *cobra.Command, s Streams, id string) error {
	ctx, given := cmd.Context(), cmd.Flags().Changed
	if err := f.checkSet(id, given); err != nil {
		return err
	}
	if given("tenant") {
		return f.releaseTenant(ctx, s)
	}
	return f.withExistingStore(ctx, func(shared *store.Shared) (err error) {
		switch {
		case f.rotate:
			secret, err := keys.Rotate(ctx, shared, id, f.grace)
			if err != nil {
				return err
			}
			fmt.Fprintf(s.Err, "the old secret expires in %v; the new one is shown only once:\n", f.grace)
			return s.renderSecret(id, secret)
		case f.revoke:
			err = keys.Revoke(ctx, shared, id)
		default:
			_, err = keys.Change(ctx, shared, id, func(k *store.Key) { _ = f.change(k, given) })
		}
		if err == nil && f.release {
			_, err = release(ctx, s, shared, store.KeyAccount(id))
		}
		if err != nil {
			return err
		}
		return f.renderKeys(ctx, s, shared, id)
	})
}

// renderKeys prints the key, or all keys if id is "", with the balances of their caps.
func (f *keyFlags) renderKeys(ctx context.Context, s Streams, shared *store.Shared, id string) error {
	list, err := shared.ListKeys(ctx, id)
	if err != nil {
		return err
	}
	accounts, err := accountBalances(ctx, shared)
	if err != nil {
		return err
	}
	balances := keyBalances(accounts, list)
	return s.render(balances, func(p *printer) {
		p.keys(balances)
		if id == "" {
			p.tenants(accounts)
		}
	})
}

func (f *keyFlags) checkSet(id string, given func(name string) bool) error {
	changes := slices.ContainsFunc([]string{"note", "expires", "cap", "limit"}, given)
	actions := countTrue(changes, f.release, f.rotate, f.revoke)
	switch isTenant := given("tenant"); {
	case isTenant && (id != "" || actions > 1 || !f.release):
		return usage("--tenant requires --release, and cannot be combined with KEY or another change")
	case id == "" && !isTenant:
		return usage("KEY is required, or --release --tenant TENANT")
	case f.grace < 0:
		return usage("--grace must not be negative")
	case (f.rotate || f.revoke) && actions > 1:
		return usage("--rotate and --revoke must be used alone")
	case actions == 0:
		return usage("nothing to change: give a limit, --note, --release, --rotate or --revoke")
	}
	return f.check(new(store.Key), given)
}

// releaseTenant releases the reservations of dead processes on a tenant's account, and prints the account.
func (f *keyFlags) releaseTenant(ctx context.Context, s Streams) error {
	account := store.TenantAccount(f.key.Tenant)
	return f.withExistingStore(ctx, func(shared *store.Shared) error {
		isKnown, err := release(ctx, s, shared, account)
		if err == nil && !isKnown {
			err = fmt.Errorf("no policy's cap has an account %s in this store; see \"stepfall key ls\"", account)
		}
		if err != nil {
			return err
		}
		accounts, err := accountBalances(ctx, shared)
		if err != nil {
			return err
		}
		own := slices.DeleteFunc(accounts, func(b accountBalance) bool { return b.account != account })
		return s.render(own, func(p *printer) { p.tenants(own) })
	})
}

// release releases the reservations of dead processes on an account, and prints how much that was. isKnown is false
// if there is no such account.
func release(ctx context.Context, s Streams, shared *store.Shared, account string) (isKnown bool, err error) {
	accounts, err := accountBalances(ctx, shared)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(accounts, func(b accountBalance) bool { return b.account == account })
	if i < 0 {
		return false, nil
	}
	if err := shared.Release(ctx, account); err != nil {
		return true, err
	}
	fmt.Fprintf(s.Err, "released %s USD; %s USD reserved for running calls become unsettled after 15 minutes unless settled\n", usd(accounts[i].UnsettledUSD), usd(accounts[i].ReservedUSD))
	return true, nil
}

func (s Streams) renderSecret(id, secret string) error {
	return s.render(map[string]string{"key": id, "secret": secret}, func(p *printer) { p.raw(secret + "\n") })
}

func (f *keyFlags) list(cmd *cobra.Command, s Streams) error {
	ctx, chooses := cmd.Context(), len(f.only) > 0 || f.since != "" || f.until != ""
	if slices.Equal(f.by, []string{"account"}) {
		if chooses {
			return usage("--only, --since and --until cannot be combined with --by account, which has no history")
		}
		return f.listAccounts(ctx, s)
	}
	question := url.Values{"by": {strings.Join(f.by, ",")}, "since": {f.since}, "until": {f.until}}
	for name, value := range f.only {
		question.Set(name, value)
		if !slices.Contains([]string{"tenant", "key", "policy", "model"}, name) {
			return usage("--only %s: want tenant, key, policy or model", name)
		}
	}
	by, filter, err := keys.Question(question)
	if err != nil {
		return usage("%v", err)
	}
	if len(f.by) == 0 && chooses {
		return usage("--only, --since and --until require --by, such as --by key")
	}
	return f.withExistingStore(ctx, func(shared *store.Shared) error {
		if len(f.by) == 0 {
			return f.renderKeys(ctx, s, shared, "")
		}
		rows, err := shared.Sums(ctx, by, filter)
		if err != nil {
			return err
		}
		return s.render(rows, func(p *printer) { p.spend(by, rows) })
	})
}

func (f *keyFlags) listAccounts(ctx context.Context, s Streams) error {
	return f.withExistingStore(ctx, func(shared *store.Shared) error {
		accounts, err := accountBalances(ctx, shared)
		if err != nil {
			return err
		}
		return s.render(accounts, func(p *printer) {
			p.accounts("key", "key", accounts)
			p.tenants(accounts)
		})
	})
}

func (p *printer) spend(by []store.Dimension, rows []store.Sum) {
	var columns []column
	for _, dim := range by {
		columns = append(columns, column{name: string(dim)})
	}
	t := p.table(append(columns, column{name: "steps", number: true}, column{name: "calls", number: true}, column{name: "in", number: true},
		column{name: "out", number: true}, column{name: "USD", number: true})...)
	for i := range rows {
		r := &rows[i]
		var cells []any
		for _, dim := range by {
			cells = append(cells, map[store.Dimension]string{
				store.ByDay: r.Day, store.ByTenant: r.Tenant, store.ByKey: r.Key, store.ByPolicy: r.Policy, store.ByModel: r.Model,
			}[dim])
		}
		t.row(append(cells, r.Steps, r.Calls, r.InputTokens, r.OutputTokens, usd(r.CostUSD))...)
	}
	t.print()
}
